"""The watcher: lists, watches, translates and signals with start. It decides nothing, and losing it loses nothing.

On every list, and again every ten minutes, it compares what each object says with what its status says was seen, and
signals only differences. Packages whose lifecycle does not run are signalled too; it looks for them every 15 seconds,
so that a lost Temporal is rebuilt.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import structlog

from windlass.activities.inputs import inputs_of
from windlass.activities.references import References
from windlass.adapters.kube.reflector import Listed, list_and_watch
from windlass.contracts.objects import PackageObject, PackageStatus, SeenStatus, parse_package
from windlass.domain.conditions import Type
from windlass.domain.errors import PermanentError, WindlassError
from windlass.domain.ids import (
    API_VERSION,
    FINALIZER,
    Kind,
    PackageKey,
    package_of,
    package_workflow_id,
)
from windlass.domain.target import Account
from windlass.ports.kube import Kube, Object, ObjectRef
from windlass.runtime.packages import PackageLifecycles
from windlass.worker.metrics import Metrics
from windlass.worker.reference_watches import Followed, ReferenceWatches
from windlass.worker.signals import SignalQueue

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

    packages: dict[PackageKey, PackageObject] = field(default_factory=dict[PackageKey, PackageObject])
    repositories: dict[str, Object] = field(default_factory=dict[str, Object])
    contents: dict[tuple[Account, ObjectRef], Object | None] = field(
        default_factory=dict[tuple[Account, ObjectRef], Object | None]
    )

    def users_of(self, ref: ObjectRef) -> Iterator[PackageKey]:
        """Yield the packages whose settings come from this ConfigMap or Secret."""
        for key, package in self.packages.items():
            if key.home == ref.namespace and any(
                (entry.kind, entry.name) == (ref.kind, ref.name) for entry in package.spec.values_from
            ):
                yield key

    def users_of_repository(self, name: str) -> Iterator[PackageKey]:
        """Yield the packages that come from this repository."""
        for key, package in self.packages.items():
            if package.spec.package.repository == name:
                yield key


class Watcher:
    """Runs until cancelled.

    Args:
        kube: a client of its own.
        references: reads and watches what objects refer to, as the accounts of their packages.
        lifecycles: takes the signals.
        installation: the installation id.
        digest_key: keys the digests that status holds.
        resync: seconds between full comparisons.
        jitter: draws a factor around 1 for the next resync.
        metrics: of this process.
    """

    def __init__(
        self,
        *,
        kube: Kube,
        references: References,
        lifecycles: PackageLifecycles,
        installation: str,
        digest_key: bytes,
        resync: float,
        jitter: Callable[[], float],
        metrics: Metrics,
    ) -> None:
        self._kube = kube
        self._references = references
        self._lifecycles = lifecycles
        self._installation = installation
        self._digest_key = digest_key
        self._resync = resync
        self._jitter = jitter
        self._picture = _Picture()
        self._signals = SignalQueue(lifecycles, metrics)
        self._listed = asyncio.Event()
        self._known: set[Kind] = set()
        self._looked = asyncio.Event()
        self._group = asyncio.TaskGroup()
        self._watches = ReferenceWatches(
            references, self._group, on_changed=self._reference_changed, on_listed=self._references_listed
        )

    async def run(self) -> None:
        """Watch and signal until cancelled."""
        async with self._group as group:
            group.create_task(self._signals.run())
            group.create_task(self._watch_repositories())
            for kind in Kind:
                group.create_task(self._watch_packages(kind))
            group.create_task(self._compare_again())
            group.create_task(self._patrol())

    @property
    def missing(self) -> str:
        """What the watcher has not listed yet; empty once it knows the cluster."""
        return ", ".join(sorted(kind.value for kind in set(Kind) - self._known))

    def packages(self) -> Iterator[tuple[str, str, bool]]:
        """Yield kind, phase and readiness of every package, as their objects say."""
        for key, package in self._picture.packages.items():
            status = package.status or PackageStatus()
            ready = any((one.type, one.status) == (Type.READY, "True") for one in status.conditions or ())
            yield key.kind.value, status.phase or "", ready

    # -- watches -----------------------------------------------------------------------------------------------------

    async def _watch_packages(self, kind: Kind) -> None:
        async for event in self._stream(kind.value):
            if isinstance(event, Listed):
                await self._take_list(kind, event.items)
                continue
            if event.type == "BOOKMARK":
                continue
            package = _package(kind, event.object)
            if package is None or package.installation != self._installation:
                continue
            key = package.key(self._installation)
            if event.type == "DELETED":
                self._gone(key, package)
            else:
                self._remember(key, package)
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

    async def _reference_changed(self, ref: ObjectRef) -> None:
        for known in [one for one in self._picture.contents if one[1] == ref]:
            del self._picture.contents[known]
        for key in list(self._picture.users_of(ref)):
            await self._compare(key)

    async def _references_listed(self, followed: Followed) -> None:
        account, kind = followed
        for known in [one for one in self._picture.contents if one[0] == account and one[1].kind == kind]:
            if known in self._picture.contents:
                await self._reference_changed(known[1])

    async def _stream(self, kind: str, *, api_version: str = API_VERSION, **selection: Any) -> AsyncIterator[Any]:
        def told(error: WindlassError) -> None:
            _log.warning("watch interrupted", kind=kind, reason=error.reason.value, error=str(error))

        async for event in list_and_watch(self._kube, api_version, kind, on_error=told, **selection):
            yield event

    # -- comparisons ---------------------------------------------------------------------------------------------------

    async def _take_list(self, kind: Kind, items: list[Object]) -> None:
        await self._listed.wait()  # digests hold the repositories' specs: without their list all would look changed
        found = [package for item in items if (package := _package(kind, item)) is not None]
        listed = {
            package.key(self._installation): package for package in found if package.installation == self._installation
        }
        gone = {key for key in self._picture.packages.keys() - listed.keys() if key.kind is kind}
        for key in sorted(gone, key=lambda key: key.package_id):
            self._gone(key, self._picture.packages[key])
        for key, package in listed.items():
            self._remember(key, package)
        self._known.add(kind)
        self._looked.set()
        await self._compare_all(kind)

    async def _compare_again(self) -> None:
        while True:
            await asyncio.sleep(self._resync * self._jitter())
            self._signals.forget()
            self._watches.keep(one for package in self._picture.packages.values() for one in self._followed(package))
            await self._compare_all(*Kind)

    async def _patrol(self) -> None:
        """Start again what was terminated by hand or lost with Temporal's data; the cluster says nothing of either."""
        await self._looked.wait()
        orphans: set[PackageKey] = set()
        while True:
            running = await self._running()
            if running is not None:
                for key in list(self._picture.packages):
                    if package_workflow_id(key) not in running:
                        await self._compare(key, absent=True)
                before, orphans = orphans, self._orphans(running)
                for key in sorted(before & orphans, key=lambda key: key.package_id):
                    await self._tell_gone(key)
            await asyncio.sleep(PATROL_AGAIN if running is None else PATROL)

    def _orphans(self, running: set[str]) -> set[PackageKey]:
        """Return the packages whose lifecycle runs though their object is gone; nobody was there to tell them."""
        keys = {package_of(self._installation, id_) for id_ in running}
        return {key for key in keys if key and key.kind in self._known and key not in self._picture.packages}

    async def _running(self) -> set[str] | None:
        """Return the ids of the running lifecycles, None if Temporal does not tell."""
        try:
            return await self._lifecycles.running()
        except WindlassError as error:
            _log.warning("lifecycles not listed", reason=error.reason.value, error=str(error))
            return None

    async def _compare_all(self, *kinds: Kind) -> None:
        running = await self._running()
        signalled = 0
        keys = [key for key in self._picture.packages if key.kind in kinds]
        for key in keys:
            absent = running is not None and package_workflow_id(key) not in running
            signalled += await self._compare(key, absent=absent)
        if keys:
            _log.info("compared", kinds=[kind.value for kind in kinds], packages=len(keys), signalled=signalled)

    async def _compare(self, key: PackageKey, *, absent: bool = False) -> bool:
        """Signal the package if what it says differs from what was seen; return whether it was signalled."""
        package = self._picture.packages.get(key)
        if package is None:
            return False
        if package.metadata.deletion_timestamp and FINALIZER not in package.metadata.finalizers:
            return False  # going away, and nothing of ours holds it
        try:
            inputs = await inputs_of(
                package, repositories=self._repository, referenced=partial(self._referenced, package)
            )
            seen = inputs.seen(self._digest_key)
        except WindlassError as error:
            _log.warning("references not read", package=key.package_id, reason=error.reason.value, error=str(error))
            seen = SeenStatus(uid=package.metadata.uid, generation=package.metadata.generation)
        known = package.status.seen if package.status else None
        if seen == known and not absent:
            return False
        return self._signals.put(key, seen, force=absent)

    async def _repository(self, ref: ObjectRef) -> Object | None:
        return self._picture.repositories.get(ref.name)

    async def _referenced(self, package: PackageObject, ref: ObjectRef) -> Object | None:
        known = (self._references.placement(package).target.account, ref)
        if known not in self._picture.contents:
            self._picture.contents[known] = await self._references.get(package, ref)
        return self._picture.contents[known]

    def _gone(self, key: PackageKey, package: PackageObject) -> None:
        """Tell a lifecycle that still runs; an object that is gone never starts one."""
        known = self._picture.packages.pop(key, None) or package
        self._signals.drop(key)
        # Who took the finalizer off: the lifecycle, which ends by itself, or somebody by hand before the deletion?
        if FINALIZER in package.metadata.finalizers or known.metadata.deletion_timestamp is None:
            self._group.create_task(self._tell_gone(key))

    async def _tell_gone(self, key: PackageKey) -> None:
        await asyncio.sleep(GONE_GRACE)
        try:
            await self._lifecycles.notify(key)
        except WindlassError as error:
            _log.warning("removal not signalled", package=key.package_id, error=str(error))

    def _remember(self, key: PackageKey, package: PackageObject) -> None:
        self._picture.packages[key] = package
        self._watches.follow(self._followed(package))

    def _followed(self, package: PackageObject) -> set[Followed]:
        """Return what to watch for the settings of a package; nothing if it may not be where it wants to be."""
        if not package.spec.values_from:
            return set()
        try:
            account = self._references.placement(package).target.account
        except PermanentError:
            return set()
        return {(account, entry.kind) for entry in package.spec.values_from}


def _package(kind: Kind, obj: Object) -> PackageObject | None:
    try:
        return parse_package(kind, obj)
    except ValueError:
        # The API server admits only what the schema allows; an object from before a schema change is left alone.
        _log.warning("object not understood", kind=kind.value, name=obj.get("metadata", {}).get("name"))
        return None
