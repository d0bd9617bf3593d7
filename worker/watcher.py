"""The watcher: lists, watches, translates and signals with start. It decides nothing, and losing it loses nothing.

On every list, and again every ten minutes, it compares what each object says with what its status says was seen, and
signals only differences. Packages whose lifecycle does not run are signalled too; it looks for them every 15 seconds,
so that a lost Temporal is rebuilt.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import structlog

from windlass.activities.inputs import inputs_of
from windlass.adapters.kube.reflector import Listed, list_and_watch
from windlass.contracts.objects import Application, SeenStatus
from windlass.domain.errors import WindlassError
from windlass.domain.ids import (
    API_VERSION,
    DEFAULT_INSTALLATION,
    FINALIZER,
    INSTALLATION_LABEL,
    PackageKey,
    package_of,
    package_workflow_id,
)
from windlass.ports.kube import Kube, Object, ObjectRef
from windlass.runtime.packages import PackageLifecycles
from windlass.worker.signals import SignalQueue

REFERENCED: Final = ("ConfigMap", "Secret")
RELEASES: Final = "type!=helm.sh/release.v1"
"""Helm's own Secrets are large, many, and never referenced by settings."""

PATROL: Final = 15.0
"""Seconds between two looks for lifecycles that should run and do not: one listing of ids in Temporal's visibility."""

GONE_GRACE: Final = 1.0
"""Seconds until a lifecycle is told that its object is gone. Most know, since they released it: a signal that meets the
last task of a lifecycle fails that task."""

PATROL_AGAIN: Final = 2.0
"""Seconds until the next look when Temporal does not answer: it may come back without its data."""

_log = structlog.stdlib.get_logger(__name__)


@dataclass
class _Picture:
    """What the watcher knows of the cluster."""

    applications: dict[PackageKey, Application] = field(default_factory=dict[PackageKey, Application])
    repositories: dict[str, Object] = field(default_factory=dict[str, Object])
    contents: dict[ObjectRef, Object | None] = field(default_factory=dict[ObjectRef, Object | None])

    def users_of(self, ref: ObjectRef) -> Iterator[PackageKey]:
        """Yield the packages whose settings come from this ConfigMap or Secret."""
        for key, application in self.applications.items():
            if key.namespace == ref.namespace and any(
                (entry.kind, entry.name) == (ref.kind, ref.name) for entry in application.spec.values_from
            ):
                yield key

    def users_of_repository(self, name: str) -> Iterator[PackageKey]:
        """Yield the packages that come from this repository."""
        for key, application in self.applications.items():
            if application.spec.package.repository == name:
                yield key


class Watcher:
    """Runs until cancelled.

    Args:
        kube: a client of its own.
        lifecycles: takes the signals.
        installation: the installation id.
        digest_key: keys the digests that status holds.
        resync: seconds between full comparisons.
        jitter: draws a factor around 1 for the next resync.
    """

    def __init__(
        self,
        *,
        kube: Kube,
        lifecycles: PackageLifecycles,
        installation: str,
        digest_key: bytes,
        resync: float,
        jitter: Callable[[], float],
    ) -> None:
        self._kube = kube
        self._lifecycles = lifecycles
        self._installation = installation
        self._digest_key = digest_key
        self._resync = resync
        self._jitter = jitter
        self._picture = _Picture()
        self._signals = SignalQueue(lifecycles)
        self._listed = asyncio.Event()
        self._known = asyncio.Event()
        self._referenced = asyncio.Event()
        self._group = asyncio.TaskGroup()

    async def run(self) -> None:
        """Watch and signal until cancelled."""
        async with self._group as group:
            group.create_task(self._signals.run())
            group.create_task(self._watch_repositories())
            group.create_task(self._watch_applications())
            for kind in REFERENCED:
                group.create_task(self._watch_referenced(kind))
            group.create_task(self._compare_again())
            group.create_task(self._patrol())

    # -- watches -----------------------------------------------------------------------------------------------------

    async def _watch_applications(self) -> None:
        async for event in self._stream("Application"):
            if isinstance(event, Listed):
                await self._take_list(event.items)
                continue
            if event.type == "BOOKMARK":
                continue
            application = _application(event.object)
            if application is None or not self._ours(application):
                continue
            key = self._key(application)
            if event.type == "DELETED":
                self._gone(key, application)
            else:
                self._remember(key, application)
                await self._compare(key)

    async def _watch_repositories(self) -> None:
        async for event in self._stream("PackageRepository"):
            if isinstance(event, Listed):
                before = self._picture.repositories
                self._picture.repositories = {item["metadata"]["name"]: item for item in event.items}
                names = before.keys() | self._picture.repositories.keys()
            elif event.type == "BOOKMARK":
                continue
            else:
                name: str = event.object["metadata"]["name"]
                names = {name}
                if event.type == "DELETED":
                    self._picture.repositories.pop(name, None)
                else:
                    self._picture.repositories[name] = event.object
            self._listed.set()
            for name in sorted(names):
                for key in list(self._picture.users_of_repository(name)):
                    await self._compare(key)

    async def _watch_referenced(self, kind: str) -> None:
        """Watch the metadata of ConfigMaps or Secrets, from the first package on that refers to one."""
        await self._referenced.wait()
        selector = RELEASES if kind == "Secret" else ""
        async for event in self._stream(kind, api_version="v1", field_selector=selector, metadata_only=True):
            if isinstance(event, Listed):
                stale = [ref for ref in self._picture.contents if ref.kind == kind]
            elif event.type == "BOOKMARK":
                continue
            else:
                metadata = event.object["metadata"]
                stale = [ObjectRef(api_version="v1", kind=kind, namespace=metadata["namespace"], name=metadata["name"])]
            for ref in stale:
                self._picture.contents.pop(ref, None)
                for key in list(self._picture.users_of(ref)):
                    await self._compare(key)

    async def _stream(self, kind: str, *, api_version: str = API_VERSION, **selection: Any) -> AsyncIterator[Any]:
        def told(error: WindlassError) -> None:
            _log.warning("watch interrupted", kind=kind, reason=error.reason.value, error=str(error))

        async for event in list_and_watch(self._kube, api_version, kind, on_error=told, **selection):
            yield event

    # -- comparisons ---------------------------------------------------------------------------------------------------

    async def _take_list(self, items: list[Object]) -> None:
        await self._listed.wait()  # digests hold the repositories' specs: without their list all would look changed
        found = [_application(item) for item in items]
        applications = [application for application in found if application is not None and self._ours(application)]
        gone = self._picture.applications.keys() - {self._key(application) for application in applications}
        for key in sorted(gone, key=lambda key: key.package_id):
            self._gone(key, self._picture.applications[key])
        for application in applications:
            self._remember(self._key(application), application)
        self._known.set()
        await self._compare_all()

    async def _compare_again(self) -> None:
        while True:
            await asyncio.sleep(self._resync * self._jitter())
            self._signals.forget()
            await self._compare_all()

    async def _patrol(self) -> None:
        """Start again what was terminated by hand or lost with Temporal's data; the cluster says nothing of either."""
        await self._known.wait()
        orphans: set[PackageKey] = set()
        while True:
            running = await self._running()
            if running is not None:
                for key in list(self._picture.applications):
                    if package_workflow_id(key) not in running:
                        await self._compare(key, absent=True)
                before, orphans = orphans, self._orphans(running)
                for key in sorted(before & orphans, key=lambda key: key.package_id):
                    await self._tell_gone(key)
            await asyncio.sleep(PATROL_AGAIN if running is None else PATROL)

    def _orphans(self, running: set[str]) -> set[PackageKey]:
        """Return the packages whose lifecycle runs though their object is gone; nobody was there to tell them."""
        keys = {package_of(self._installation, id_) for id_ in running}
        return {key for key in keys if key is not None and key not in self._picture.applications}

    async def _running(self) -> set[str] | None:
        """Return the ids of the running lifecycles, None if Temporal does not tell."""
        try:
            return await self._lifecycles.running()
        except WindlassError as error:
            _log.warning("lifecycles not listed", reason=error.reason.value, error=str(error))
            return None

    async def _compare_all(self) -> None:
        running = await self._running()
        signalled = 0
        for key in list(self._picture.applications):
            absent = running is not None and package_workflow_id(key) not in running
            signalled += await self._compare(key, absent=absent)
        _log.info("compared", packages=len(self._picture.applications), signalled=signalled)

    async def _compare(self, key: PackageKey, *, absent: bool = False) -> bool:
        """Signal the package if what it says differs from what was seen; return whether it was signalled."""
        application = self._picture.applications.get(key)
        if application is None:
            return False
        if application.metadata.deletion_timestamp and FINALIZER not in application.metadata.finalizers:
            return False  # going away, and nothing of ours holds it
        try:
            seen = (await inputs_of(self._look_up, application)).seen(self._digest_key)
        except WindlassError as error:
            _log.warning("references not read", package=key.package_id, reason=error.reason.value, error=str(error))
            seen = SeenStatus(uid=application.metadata.uid, generation=application.metadata.generation)
        known = application.status.seen if application.status else None
        if seen == known and not absent:
            return False
        return self._signals.put(key, seen, force=absent)

    async def _look_up(self, ref: ObjectRef) -> Object | None:
        if ref.kind == "PackageRepository":
            return self._picture.repositories.get(ref.name)
        if ref not in self._picture.contents:
            self._picture.contents[ref] = await self._kube.get(ref)
        return self._picture.contents[ref]

    def _gone(self, key: PackageKey, application: Application) -> None:
        """Tell a lifecycle that still runs; an object that is gone never starts one."""
        known = self._picture.applications.pop(key, None) or application
        self._signals.drop(key)
        # Who took the finalizer off: the lifecycle, which ends by itself, or somebody by hand before the deletion?
        if FINALIZER in application.metadata.finalizers or known.metadata.deletion_timestamp is None:
            self._group.create_task(self._tell_gone(key))

    async def _tell_gone(self, key: PackageKey) -> None:
        await asyncio.sleep(GONE_GRACE)
        try:
            await self._lifecycles.notify(key)
        except WindlassError as error:
            _log.warning("removal not signalled", package=key.package_id, error=str(error))

    def _remember(self, key: PackageKey, application: Application) -> None:
        self._picture.applications[key] = application
        if application.spec.values_from:
            self._referenced.set()

    def _ours(self, application: Application) -> bool:
        label = application.metadata.labels.get(INSTALLATION_LABEL, DEFAULT_INSTALLATION)
        return label == self._installation

    def _key(self, application: Application) -> PackageKey:
        metadata = application.metadata
        return PackageKey(installation=self._installation, namespace=metadata.namespace, name=metadata.name)


def _application(obj: Object) -> Application | None:
    try:
        return Application.model_validate(obj)
    except ValueError:
        # The API server admits only what the schema allows; an object from before a schema change is left alone.
        _log.warning("object not understood", kind="Application", name=obj.get("metadata", {}).get("name"))
        return None
