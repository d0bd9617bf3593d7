"""Watches PackageRepository objects and the Secrets they refer to, and has changed ones scanned."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any, Final

import structlog

from windlass.activities.repositories import seen_of
from windlass.adapters.kube.following.reflector import Listed, list_and_watch
from windlass.contracts.objects import SeenStatus
from windlass.contracts.repositories import PackageRepository
from windlass.domain.backoff import delay
from windlass.domain.errors import Category, WindlassError
from windlass.domain.faults import text_of
from windlass.domain.ids import API_VERSION, SYSTEM_NAMESPACE
from windlass.observers.border import Border
from windlass.ports.kube import Kube, Object
from windlass.runtime.repositories import RepositoryCatalogs

PATROL: Final = 60.0
"""Seconds between two looks whether every repository has its catalog: Temporal may have lost it."""

COMPARED: Final = 10
"""Looks after which every repository's Secrets are read and compared again, in case an event was missed."""

RELEASES: Final = "type!=helm.sh/release.v1"
"""Helm's own Secrets are large, many, and never referenced by repositories."""

_log = structlog.stdlib.get_logger(__name__)


class RepositoryWatcher:
    """Runs until cancelled; arguments as of `windlass.observers.watcher.packages.Watcher`."""

    def __init__(
        self,
        *,
        kube: Kube,
        catalogs: RepositoryCatalogs,
        installation: str,
        digest_key: bytes,
        jitter: Callable[[], float],
        border: Border,
    ) -> None:
        self._border = border
        self._kube = kube
        self._catalogs = catalogs
        self._installation = installation
        self._digest_key = digest_key
        self._jitter = jitter
        self._repositories: dict[str, PackageRepository] = {}
        self._users: dict[str, set[str]] = {}
        self._sent: dict[str, SeenStatus] = {}
        self._due: set[str] = set()
        self._wake = asyncio.Event()
        self._referring = asyncio.Event()

    async def run(self) -> None:
        """Watch and signal until cancelled."""
        parts = (self._watch_repositories, self._watch_secrets, self._signal, self._patrol)
        tasks = [self._border.spawn_shared("repositories", part) for part in parts]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _watch_repositories(self) -> None:
        async for event in self._stream("PackageRepository", API_VERSION):
            if isinstance(event, Listed):
                found = {item["metadata"]["name"]: item for item in event.items}
                for name in [name for name in self._repositories if name not in found]:
                    await self._forget(name)
                for item in found.values():
                    await self._border.shared_once("repositories", partial(self._take, item))
            elif event.type == "DELETED":
                await self._forget(event.object["metadata"]["name"])
            elif event.type != "BOOKMARK":
                await self._border.shared_once("repositories", partial(self._take, event.object))

    async def _watch_secrets(self) -> None:
        """Watch the metadata of Secrets, from the first repository on that refers to one."""
        await self._referring.wait()
        selection = {"namespace": SYSTEM_NAMESPACE, "field_selector": RELEASES, "metadata_only": True}
        async for event in self._stream("Secret", "v1", **selection):
            if isinstance(event, Listed):
                changed = None
            elif event.type == "BOOKMARK":
                continue
            else:
                changed = event.object["metadata"]["name"]
            names = self._users if changed is None else {changed}
            for name in sorted({user for secret in names for user in self._users.get(secret, ())}):
                if (repository := self._repositories.get(name)) is not None:
                    await self._border.shared_once("repositories", partial(self._compare, repository))

    async def _stream(self, kind: str, api_version: str, **selection: Any) -> AsyncIterator[Any]:
        def told(error: WindlassError) -> None:
            _log.warning("watch interrupted", kind=kind, reason=error.reason.value, error=str(error))

        async for event in list_and_watch(self._kube, api_version, kind, on_error=told, **selection):
            yield event

    async def _take(self, obj: Object) -> None:
        try:
            repository = PackageRepository.model_validate(obj)
        except ValueError:
            _log.warning("object not understood", kind="PackageRepository", name=obj["metadata"].get("name"))
            return
        name = repository.metadata.name
        if repository.installation != self._installation:
            await self._forget(name)
            return
        self._unlink(name)
        self._repositories[name] = repository
        for secret in repository.spec.secrets:
            self._users.setdefault(secret, set()).add(name)
        if repository.spec.secrets:
            self._referring.set()
        await self._compare(repository)

    async def _forget(self, name: str) -> None:
        self._sent.pop(name, None)
        self._due.discard(name)
        if not self._unlink(name):
            return
        try:
            await self._catalogs.gone(name)
        except WindlassError as error:  # it notices by itself when it scans again
            _log.warning("removal not signalled", repository=name, error=str(error))

    def _unlink(self, name: str) -> bool:
        """Forget a repository and which Secrets it refers to; return whether it was known."""
        repository = self._repositories.pop(name, None)
        if repository is None:
            return False
        for secret in repository.spec.secrets:
            self._users[secret].discard(name)
            if not self._users[secret]:
                del self._users[secret]
        return True

    async def _compare(self, repository: PackageRepository) -> None:
        name = repository.metadata.name
        try:
            seen = await seen_of(self._kube.get, repository, self._digest_key)
        except WindlassError as error:
            _log.warning("Secrets not read", repository=name, reason=error.reason.value, error=str(error))
            return
        known = repository.status.seen if repository.status else None
        if seen != known and seen != self._sent.get(name):
            self._sent[name] = seen
            self._due.add(name)
            self._wake.set()

    async def _signal(self) -> None:
        failures = 0
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._due:
                name = self._due.pop()
                try:
                    await self._catalogs.changed(name)
                    failures = 0
                except Exception as error:  # noqa: BLE001 - whatever it is, it is told later, and the others now
                    failures += 1
                    _log.warning("signal not taken", repository=name, error=text_of(error))
                    await asyncio.sleep(delay(Category.TRANSIENT, failures, chance=0.5))
                    if name in self._repositories:
                        self._due.add(name)

    async def _patrol(self) -> None:
        looks = 0
        while True:
            await asyncio.sleep(PATROL * self._jitter())
            looks += 1
            if not self._repositories:
                continue
            try:
                for name in sorted(self._repositories.keys() - await self._catalogs.running()):
                    await self._catalogs.ensure(name)
                if looks % COMPARED == 0:
                    for repository in list(self._repositories.values()):
                        await self._compare(repository)
            except WindlassError as error:
                _log.warning("catalogs not looked after", reason=error.reason.value, error=str(error))
