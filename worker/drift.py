"""Notices that objects of releases are gone or changed, and tells the lifecycles of their packages.

It decides nothing and puts nothing back. What it knows is rebuilt from the packages that this process serves: a watch
over Applications says which release each has, the release's manifest says which objects, and metadata watches over
their kinds say when to look. A deletion is looked into at once; a change when the object has been quiet for `QUIET`, at
most every `INTERVAL` for one package. A lifecycle is told only what its status does not say already.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Final

import structlog

from windlass.activities.drift import compare, foreign
from windlass.adapters.kube.reflector import Listed, list_and_watch
from windlass.contracts.drift import DriftSpec, policy_of
from windlass.contracts.lifecycle import ReleaseDrifted
from windlass.contracts.objects import PackageObject, parse_package
from windlass.domain import drift
from windlass.domain.drift import DIFFERENCES_KEPT, Change, Difference, Mode, Policy, Rule
from windlass.domain.effects import Phase
from windlass.domain.errors import WindlassError
from windlass.domain.ids import API_VERSION, Kind, PackageKey
from windlass.domain.releases import DEPLOYED
from windlass.domain.target import Placement
from windlass.ports.helm import Helm, Manifest, ReleaseRef
from windlass.ports.kube import Kube, Object, ObjectRef
from windlass.ports.targets import Role, Targets
from windlass.runtime.packages import PackageLifecycles
from windlass.worker.drift_watches import KindOf, MetadataWatches

if TYPE_CHECKING:
    from windlass.worker.services import Shard

QUIET: Final = 1.0
"""Seconds without a further change before a changed object is compared."""

INTERVAL: Final = 10.0
"""Seconds between two comparisons of one package because of changes."""

SETTLE: Final = 3.0
"""Seconds without a new revision of any package after which new ones are compared as a whole: not beside the
installation of many."""

PATIENCE: Final = 60.0
"""Seconds after which a new revision is compared as a whole although others keep coming."""

RETELL: Final = 600.0
"""Seconds after which a lifecycle is told again what it has been told and its status does not say."""

ELSEWHERE: Final = 600.0
"""Seconds between two comparisons of a package on another cluster, where nothing is watched."""

AT_A_TIME: Final = 2
"""Packages compared at a time; deletions do not wait for that."""

AT_REST: Final = frozenset({Phase.RUNNING.value, Phase.PAUSED.value})
"""Phases in which no run of ours makes a new revision."""

_log = structlog.stdlib.get_logger(__name__)


@dataclass
class _Package:
    """One package with a release that is looked after.

    Attributes:
        release: where it is, and as whom it is looked at.
        subject: uid, revision and policy; when one of them moves, everything is compared anew.
        revision: of its release, as status says.
        rules: what to ignore.
        known: digest of the differences that its status tells.
        resting: whether no run is under way, as far as status says.
        expected: the objects of the release.
        found: where each differed when it was last compared.
        dirty: what is to be compared; ``whole`` is everything, ``urgent`` is now.
        moved: when its revision was last seen to be another one.
        since: when the first of it became dirty (seconds of the loop's clock).
        compared: when it was last compared.
        told: what its lifecycle was told last, and when.
        failures: how often in a row an object could not be compared.
        foreign: the stored revision that status does not know, if there is one.
    """

    key: PackageKey
    release: ReleaseRef
    subject: tuple[str, int, Policy] | None = None
    revision: int = 0
    rules: tuple[Rule, ...] = ()
    known: str = ""
    resting: bool = False
    expected: frozenset[ObjectRef] = frozenset()
    found: dict[ObjectRef, tuple[Difference, ...]] = field(default_factory=dict[ObjectRef, tuple[Difference, ...]])
    dirty: set[ObjectRef] = field(default_factory=set[ObjectRef])
    whole: bool = True
    urgent: bool = False
    moved: float = 0.0
    since: float = 0.0
    compared: float = 0.0
    told: tuple[str, ...] = ()
    told_at: float = 0.0
    foreign: int = 0
    failures: int = 0
    timer: asyncio.TimerHandle | None = None
    busy: bool = False


class DriftService:
    """A shard service: one monitor looks after the releases of all shards that are being served.

    Args:
        kube: a client of its own, which watches packages and metadata of the objects of releases.
        targets: objects are compared as their package, which needs the right to patch, although nothing is changed.
        helm: reads stored manifests.
        lifecycles: takes the signals.
    """

    def __init__(self, *, kube: Kube, targets: Targets, helm: Helm, lifecycles: PackageLifecycles) -> None:
        self._shards: set[Shard] = set()
        self._make = partial(DriftMonitor, self._serves, kube=kube, targets=targets, helm=helm, lifecycles=lifecycles)
        self._monitor = self._make()
        self._running: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def serving(self, shard: Shard) -> AsyncGenerator[None]:
        """Look after the packages of ``shard`` while the context is open; see `ShardService`."""
        self._shards.add(shard)
        if self._running is None or self._running.done():
            self._monitor = self._make()
            self._running = asyncio.create_task(self._monitor.run())
        running = self._running
        self._monitor.sort_out()
        try:
            async with asyncio.TaskGroup() as group:
                watched = group.create_task(_outcome(running))
                yield
                watched.cancel()
        finally:
            self._shards.discard(shard)
            self._monitor.sort_out()
            if not self._shards:
                running.cancel()
                await asyncio.gather(running, return_exceptions=True)

    def _serves(self, key: PackageKey) -> bool:
        return any(shard.serves(key) for shard in self._shards)


async def _outcome(running: asyncio.Task[None]) -> None:
    """Raise what ended the monitor; ending this does not end it."""
    await asyncio.shield(running)


class DriftMonitor:
    """Looks after the releases of packages.

    Args:
        serves: says whose; when that changes, `sort_out` is called.
        kube: as `DriftService`.
        targets: as `DriftService`.
        helm: as `DriftService`.
        lifecycles: as `DriftService`.
    """

    def __init__(
        self,
        serves: Callable[[PackageKey], bool],
        *,
        kube: Kube,
        targets: Targets,
        helm: Helm,
        lifecycles: PackageLifecycles,
    ) -> None:
        self._serves = serves
        self._kube = kube
        self._targets = targets
        self._helm = helm
        self._lifecycles = lifecycles
        self._group = asyncio.TaskGroup()
        self._objects: dict[PackageKey, PackageObject] = {}
        self._packages: dict[PackageKey, _Package] = {}
        self._owners: dict[ObjectRef, PackageKey] = {}
        self._moved = 0.0
        self._turns = asyncio.Semaphore(AT_A_TIME)
        self._watches = MetadataWatches(
            kube, self._group, on_listed=self._kind_listed, on_gone=self._gone, on_changed=self._changed
        )

    async def run(self) -> None:
        """Follow the packages until cancelled."""
        try:
            async with self._group as group:
                for kind in Kind:
                    group.create_task(self._follow(kind))
        finally:
            for key in list(self._packages):
                self._drop(key)

    def sort_out(self) -> None:
        """Begin and cease to look after packages as they are served now."""
        for key, obj in self._objects.items():
            self._take(key, obj)

    # -- packages ------------------------------------------------------------------------------------------------------

    async def _follow(self, kind: Kind) -> None:
        def told(error: WindlassError) -> None:
            _log.warning("watch interrupted", kind=kind.value, reason=error.reason.value, error=str(error))

        async for event in list_and_watch(self._kube, API_VERSION, kind.value, on_error=told):
            if isinstance(event, Listed):
                found = {_key(obj): obj for item in event.items if (obj := _package(kind, item)) is not None}
                for key in [key for key in self._objects if key.kind is kind and key not in found]:
                    self._forget(key)
                for key, obj in found.items():
                    self._take(key, obj)
            elif event.type != "BOOKMARK" and (obj := _package(kind, event.object)) is not None:
                if event.type == "DELETED":
                    self._forget(_key(obj))
                else:
                    self._take(_key(obj), obj)

    def _forget(self, key: PackageKey) -> None:
        self._objects.pop(key, None)
        self._drop(key)

    def _take(self, key: PackageKey, obj: PackageObject) -> None:
        """Take notice of a package: begin, go on, or cease to look after its release."""
        self._objects[key] = obj
        status = obj.status
        release = status.release if status else None
        policy = policy_of(obj.spec.drift, obj.spec.maintenance)
        ceases = obj.spec.suspend or obj.metadata.deletion_timestamp is not None or not self._serves(key)
        placement = _placement(obj)
        if (
            status is None
            or release is None
            or placement is None
            or not release.revision
            or ceases
            or policy.mode is Mode.OFF
        ):
            self._drop(key)
            return
        package = self._packages.get(key)
        ref = ReleaseRef(target=placement.target, name=release.name)
        if package is None:
            package = self._packages[key] = _Package(key=key, release=ref)
        package.release = ref
        package.known = status.drift.digest if status.drift else ""
        package.resting = status.phase in AT_REST
        subject = (obj.metadata.uid, release.revision, policy)
        if package.subject != subject:
            package.subject, package.revision = subject, release.revision
            package.rules = (obj.spec.drift or DriftSpec()).rules
            package.found, package.whole, package.told, package.foreign = {}, True, (), 0
            package.moved = self._moved = self._now()
            self._plan(package, SETTLE)

    def _drop(self, key: PackageKey) -> None:
        package = self._packages.pop(key, None)
        if package is None:
            return
        if package.timer is not None:
            package.timer.cancel()
        self._own(package, frozenset())

    def _own(self, package: _Package, expected: frozenset[ObjectRef]) -> None:
        """Remember which objects belong to the package's release."""
        for ref in package.expected - expected:
            if self._owners.get(ref) == package.key:
                del self._owners[ref]
        for ref in expected:
            self._owners[ref] = package.key
        if package.expected and package.expected != expected:
            self._watches.keep({_kind(ref) for ref in self._owners})
        package.expected = expected

    # -- events --------------------------------------------------------------------------------------------------------

    def _kind_listed(self, kind: KindOf, present: frozenset[ObjectRef]) -> None:
        for ref in [ref for ref in self._owners if _kind(ref) == kind and ref not in present]:
            self._gone(ref)

    def _gone(self, ref: ObjectRef) -> None:
        package = self._owner(ref)
        if package is not None:
            package.dirty.add(ref)
            package.urgent = True
            self._plan(package, 0.0)

    def _changed(self, ref: ObjectRef) -> None:
        package = self._owner(ref)
        if package is None:
            return
        now = self._now()
        package.since = package.since if package.dirty else now
        package.dirty.add(ref)
        quiet = min(now + QUIET, package.since + INTERVAL)
        self._plan(package, max(quiet, package.compared + INTERVAL) - now)

    def _owner(self, ref: ObjectRef) -> _Package | None:
        key = self._owners.get(ref)
        return self._packages.get(key) if key is not None else None

    def _plan(self, package: _Package, delay: float) -> None:
        """Compare after ``delay`` seconds; a deletion that waits to be looked into waits no longer for that."""
        if package.timer is not None:
            if package.urgent and delay:
                return
            package.timer.cancel()
        package.timer = asyncio.get_running_loop().call_later(max(delay, 0.0), self._begin, package)

    def _begin(self, package: _Package) -> None:
        package.timer = None
        if self._packages.get(package.key) is not package or package.busy:
            return  # what became dirty meanwhile is planned at the end
        quiet = min(self._moved + SETTLE, package.moved + PATIENCE) - self._now()
        if package.whole and not package.urgent and quiet > 0:
            self._plan(package, quiet)
            return
        package.busy = True
        self._group.create_task(self._look_into(package))

    # -- comparisons ---------------------------------------------------------------------------------------------------

    async def _look_into(self, package: _Package) -> None:
        whole, dirty, urgent = package.whole and not package.urgent, package.dirty, package.urgent
        again = 0.0
        package.dirty, package.urgent = set(), False
        try:
            async with contextlib.nullcontext() if urgent else self._turns:
                again = await self._compare(package, dirty, whole=whole)
        except WindlassError as error:
            package.dirty |= dirty
            again = INTERVAL
            _log.warning(
                "release not compared", package=package.key.package_id, reason=error.reason.value, error=str(error)
            )
        finally:
            package.busy = False
            package.compared = self._now()
        if self._packages.get(package.key) is not package:
            return
        if package.urgent:
            self._plan(package, 0.0)
        elif package.dirty or package.whole or again:
            self._plan(package, again or (SETTLE if package.whole else INTERVAL))

    async def _compare(self, package: _Package, dirty: set[ObjectRef], *, whole: bool) -> float:
        """Compare what is to be compared and tell the lifecycle what is new; return when to look again, 0 for not."""
        manifest = await self._helm.manifest(package.release)
        if manifest is None or manifest.release.status != DEPLOYED:
            return 0.0  # an operation is under way, or failed: its end moves the status
        if manifest.release.revision != package.revision:
            return await self._unknown_revision(package, manifest)
        again = 0.0
        if package.release.target.cluster is None:
            self._own(package, frozenset(manifest.objects))
            await self._watches.follow({_kind(ref) for ref in manifest.objects})
        else:
            again = ELSEWHERE
        if whole:
            package.whole = again == ELSEWHERE
        package.found = {ref: found for ref, found in package.found.items() if ref in manifest.objects}
        failed = False
        async with self._targets.acting(package.release.target) as acting:
            kube = await acting.kube(Role.DRIFT)
            for ref, expected in manifest.objects.items():
                if whole or ref in dirty:
                    try:
                        compared = await compare(kube, ref, expected, package.rules)
                    except WindlassError as error:
                        failed = True
                        package.dirty.add(ref)
                        _log.warning("object not compared", object=str(ref), error=str(error))
                        continue
                    package.found[ref] = compared.differences
        if package.revision == manifest.release.revision:
            await self._tell(package, [one for found in package.found.values() for one in found])
        package.failures = package.failures + 1 if failed else 0
        return min(INTERVAL * 2.0 ** min(package.failures, 10), RETELL) if failed else again

    async def _unknown_revision(self, package: _Package, manifest: Manifest) -> float:
        """Tell of a revision that somebody else has made; one of ours is in the status soon."""
        revision = manifest.release.revision
        if package.resting and package.foreign == revision:
            await self._tell(package, [foreign(package.release)])
            return 0.0
        package.foreign = revision if package.resting else 0
        return INTERVAL if package.resting else 0.0

    async def _tell(self, package: _Package, differences: list[Difference]) -> None:
        digest = drift.digest(differences)
        # A field that was put back and is changed again differs in the same way: it is the object that is another.
        said = (digest, *(self._watches.mark(ref) for ref, found in sorted(package.found.items()) if found))
        if digest == package.known or (said == package.told and self._now() < package.told_at + RETELL):
            return
        objects = dict.fromkeys(replace(one, path="", manager="", change=_named(one)) for one in sorted(differences))
        message = ReleaseDrifted(revision=package.revision, objects=tuple(objects)[:DIFFERENCES_KEPT])
        await self._lifecycles.release_drifted(package.key, message)
        package.told, package.told_at = said, self._now()
        _log.info("drift told", package=package.key.package_id, objects=len(objects), differences=len(differences))

    def _now(self) -> float:
        return asyncio.get_running_loop().time()


def _package(kind: Kind, obj: Object) -> PackageObject | None:
    try:
        return parse_package(kind, obj)
    except ValueError:
        return None  # the watcher tells of it


def _placement(obj: PackageObject) -> Placement | None:
    try:
        return obj.placement()
    except WindlassError:
        return None  # its lifecycle tells of it


def _key(obj: PackageObject) -> PackageKey:
    return obj.key(obj.installation)


def _named(one: Difference) -> Change:
    return Change.ABSENT if one.change is Change.ABSENT else Change.CHANGED


def _kind(ref: ObjectRef) -> KindOf:
    return ref.api_version, ref.kind
