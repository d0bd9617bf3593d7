"""The watcher: lists, watches, translates and signals with start. It decides nothing, and losing it loses nothing.

On every list, and again every ten minutes, it compares what each object says with what its status says was seen, and
signals only differences. Packages whose lifecycle does not run are signalled too; it looks for them every 15 seconds,
so that a lost Temporal is rebuilt.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from functools import partial
from typing import Any, Final

import structlog

from windlass.activities.inputs import inputs_of
from windlass.activities.references import References
from windlass.adapters.kube.following.reflector import Listed, list_and_watch
from windlass.contracts.objects import PackageObject, PackageStatus, SeenStatus, parse_package
from windlass.domain.errors import PermanentError, WindlassError
from windlass.domain.ids import (
    API_VERSION,
    FINALIZER,
    Kind,
    PackageKey,
    package_of,
)
from windlass.domain.lifecycle.conditions import Type
from windlass.observers.border import Border
from windlass.observers.drift.pacing import paced
from windlass.observers.metrics import Metrics
from windlass.observers.watcher.namespaces import NamespaceLabels
from windlass.observers.watcher.picture import Picture, slim
from windlass.observers.watcher.references import Followed, ReferenceWatches
from windlass.observers.watcher.signals import SignalQueue
from windlass.ports.kube import Kube, Object, ObjectRef
from windlass.runtime.packages import PackageLifecycles

PATROL: Final = 15.0
"""Seconds between two looks for lifecycles that should run and do not: Temporal's visibility counts the running ones,
and lists them if their number is not that of the packages."""

GONE_GRACE: Final = 1.0
"""Seconds until a lifecycle is told that its object is gone. Most know, since they released it: a signal that meets the
last task of a lifecycle fails that task."""

PATROL_AGAIN: Final = 2.0
"""Seconds until the next look when Temporal does not answer: it may come back without its data."""

_log = structlog.stdlib.get_logger(__name__)


class Watcher:
    """Runs until cancelled.

    Args:
        kube: a client of its own.
        references: reads and watches what objects refer to, as the accounts of their packages.
        lifecycles: takes the signals.
        installation: the installation id.
        digest_key: keys the digests that status holds.
        resync: draws the seconds until the next full comparison.
        metrics: of this process.
        border: keeps a fault in one package from the others.
    """

    def __init__(
        self,
        *,
        kube: Kube,
        references: References,
        lifecycles: PackageLifecycles,
        installation: str,
        digest_key: bytes,
        resync: Callable[[], float],
        metrics: Metrics,
        border: Border,
    ) -> None:
        self._border = border
        self._kube = kube
        self._references = references
        self._lifecycles = lifecycles
        self._installation = installation
        self._digest_key = digest_key
        self._resync = resync
        self._picture = Picture()
        self._signals = SignalQueue(lifecycles, metrics)
        self._listed = asyncio.Event()
        self._known: set[Kind] = set()
        self._looked = asyncio.Event()
        self._ends: set[asyncio.Task[None]] = set()
        self._namespaces = NamespaceLabels(kube, self._namespace_changed)
        self._watches = ReferenceWatches(
            references, border, on_changed=self._reference_changed, on_listed=self._references_listed
        )

    async def run(self) -> None:
        """Watch and signal until cancelled."""
        parts: list[Callable[[], Awaitable[None]]] = [
            self._signals.run,
            self._watch_repositories,
            self._namespaces.run,
            *(partial(self._watch_packages, kind) for kind in Kind),
            self._compare_again,
            self._patrol,
        ]
        tasks = [self._border.spawn_shared("watcher", part) for part in parts]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in (*tasks, *self._ends):
                task.cancel()
            await asyncio.gather(*tasks, *self._ends, return_exceptions=True)
            await self._watches.close()

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
            if package is None:
                continue
            key = package.key(self._installation)
            if package.installation != self._installation:
                if key in self._picture.packages:  # its label was changed: another installation serves it now
                    self._gone(key, package)
            elif event.type == "DELETED":
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
                async for key in paced(self._picture.users_of_repository(name)):
                    await self._compare(key)

    async def _namespace_changed(self, name: str) -> None:
        async for key in paced(self._picture.packages_of(name)):
            await self._compare(key)

    async def _reference_changed(self, ref: ObjectRef) -> None:
        self._picture.drop_content(ref)
        async for key in paced(self._picture.users_of(ref)):
            await self._compare(key)

    async def _references_listed(self, followed: Followed) -> None:
        account, kind = followed
        for ref in self._picture.contents(kind, account.namespace):
            await self._reference_changed(ref)

    async def _stream(self, kind: str, *, api_version: str = API_VERSION, **selection: Any) -> AsyncIterator[Any]:
        def told(error: WindlassError) -> None:
            _log.warning("watch interrupted", kind=kind, reason=error.reason.value, error=str(error))

        async for event in list_and_watch(self._kube, api_version, kind, on_error=told, **selection):
            yield event

    # -- comparisons ---------------------------------------------------------------------------------------------------

    async def _take_list(self, kind: Kind, items: list[Object]) -> None:
        await self._listed.wait()  # digests hold the repositories' specs: without their list all would look changed
        listed: dict[PackageKey, PackageObject] = {}
        async for item in paced(items):
            package = _package(kind, item)
            if package is not None and package.installation == self._installation:
                listed[package.key(self._installation)] = package
        gone = {key for key in self._picture.packages.keys() - listed.keys() if key.kind is kind}
        for key in sorted(gone, key=lambda key: key.package_id):
            self._gone(key, self._picture.packages[key])
        async for key in paced(listed):
            self._remember(key, listed[key])
        self._known.add(kind)
        self._looked.set()
        await self._compare_all(kind)

    async def _compare_again(self) -> None:
        while True:
            await asyncio.sleep(self._resync())
            self._signals.forget()
            self._watches.keep(one for package in self._picture.packages.values() for one in self._followed(package))
            await self._compare_all(*Kind)

    async def _patrol(self) -> None:
        """Start again what was terminated by hand or lost with Temporal's data; the cluster says nothing of either."""
        await self._looked.wait()
        orphans: set[PackageKey] = set()
        while True:
            running = None
            if not orphans and await self._as_many_as_packages():
                pause = PATROL
            else:
                running = await self._running()
                pause = PATROL_AGAIN if running is None else PATROL
            if running is not None:
                async for key in paced(self._picture.not_among(running)):
                    await self._compare(key, absent=True)
                before, orphans = orphans, self._orphans(running)
                for key in sorted(before & orphans, key=lambda key: key.package_id):
                    await self._tell_gone(key)
            await asyncio.sleep(pause)

    async def _as_many_as_packages(self) -> bool:
        """Say whether as many lifecycles run as there are packages; False if Temporal does not answer.

        A list of thousands of ids takes a hundred times as long. That one is missing and another one runs without its
        object at the same time is noticed by the next full comparison.
        """
        try:
            return await self._lifecycles.count() == len(self._picture.packages)
        except WindlassError:
            return False  # the listing that follows says why

    def _orphans(self, running: set[str]) -> set[PackageKey]:
        """Return the packages whose lifecycle runs though their object is gone; nobody was there to tell them."""
        keys = {package_of(self._installation, id_) for id_ in self._picture.unknown(running)}
        return {key for key in keys if key and key.kind in self._known}

    async def _running(self) -> set[str] | None:
        """Return the ids of the running lifecycles, None if Temporal does not tell."""
        try:
            return await self._lifecycles.running()
        except WindlassError as error:
            _log.warning("lifecycles not listed", reason=error.reason.value, error=str(error))
            return None

    async def _compare_all(self, *kinds: Kind) -> None:
        running = await self._running()
        absent = set[PackageKey]() if running is None else set(self._picture.not_among(running))
        signalled = 0
        keys = [key for key in self._picture.packages if key.kind in kinds]
        async for key in paced(keys):
            signalled += await self._compare(key, absent=key in absent)
        if keys:
            _log.info("compared", kinds=[kind.value for kind in kinds], packages=len(keys), signalled=signalled)

    async def _compare(self, key: PackageKey, *, absent: bool = False) -> bool:
        """Signal the package if what it says differs from what was seen; return whether it was signalled."""
        signalled = False

        async def compare() -> None:
            nonlocal signalled
            signalled = await self._compared(key, absent=absent)

        await self._border.once(key, "watch", compare)
        return signalled

    async def _compared(self, key: PackageKey, *, absent: bool) -> bool:
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
        if ref.kind == "Namespace":
            return await self._namespaces.get(ref)
        return self._picture.repositories.get(ref.name)

    async def _referenced(self, package: PackageObject, ref: ObjectRef) -> Object | None:
        account = self._references.placement(package).target.account
        if self._picture.has_content(account, ref):
            return self._picture.content(account, ref)
        found = await self._references.get(package, ref)
        self._picture.keep_content(account, ref, found)
        return found

    def _gone(self, key: PackageKey, package: PackageObject) -> None:
        """Tell a lifecycle that still runs; an object that is gone never starts one."""
        known = self._picture.pop(key) or package
        self._signals.drop(key)
        # Who took the finalizer off: the lifecycle, which ends by itself, or somebody by hand before the deletion?
        if FINALIZER in package.metadata.finalizers or known.metadata.deletion_timestamp is None:
            task = self._border.spawn(key, "gone", partial(self._tell_gone, key))
            self._ends.add(task)
            task.add_done_callback(self._ends.discard)

    async def _tell_gone(self, key: PackageKey) -> None:
        await asyncio.sleep(GONE_GRACE)
        try:
            await self._lifecycles.notify(key)
        except WindlassError as error:
            _log.warning("removal not signalled", package=key.package_id, error=str(error))

    def _remember(self, key: PackageKey, package: PackageObject) -> None:
        self._picture.put(key, package)
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
        return parse_package(kind, slim(obj))
    except ValueError:
        # The API server admits only what the schema allows; an object from before a schema change is left alone.
        _log.warning("object not understood", kind=kind.value, name=obj.get("metadata", {}).get("name"))
        return None
