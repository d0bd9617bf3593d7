"""Notices that objects of releases are gone or changed, and tells the lifecycles of their packages.

It decides nothing and puts nothing back. What it knows is rebuilt from the packages that this process serves: a watch
over their objects says which release each has, the release's manifest says which objects, and metadata watches over
those say when to look. What cannot be watched is compared from time to time. A deletion is looked into at once; a
change when the object has been quiet for `QUIET`, at most every `INTERVAL` for one package. A lifecycle is told only
what its status does not say already.

Nothing is kept of packages that other processes serve. When a shard arrives, the packages are listed again.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Final

import structlog

from windlass.adapters.kube.following.reflector import Listed, list_and_watch
from windlass.contracts.drift import DriftSpec, policy_of
from windlass.contracts.objects import PackageObject, parse_package
from windlass.domain.drift.comparison import Mode
from windlass.domain.drift.watching import KindOf, Limits, Scope
from windlass.domain.errors import WindlassError
from windlass.domain.ids import API_VERSION, DEFAULT_INSTALLATION, INSTALLATION_LABEL, Kind, PackageKey, shard_of
from windlass.domain.lifecycle.conditions import Type
from windlass.domain.lifecycle.effects import Phase
from windlass.domain.target import Placement
from windlass.observers.border import Border
from windlass.observers.drift.comparing import Comparing
from windlass.observers.drift.owners import Owners
from windlass.observers.drift.pacing import paced
from windlass.observers.drift.package import GONE_INTERVAL, INTERVAL, QUIET, Looked
from windlass.observers.drift.watches import MetadataWatches
from windlass.observers.quarantine import Quarantine
from windlass.ports.helm import Helm, ReleaseRef
from windlass.ports.kube import Kube, Object, ObjectRef
from windlass.ports.targets import Targets
from windlass.runtime.packages import PackageLifecycles

if TYPE_CHECKING:
    from windlass.observers.shard import Shard

SETTLE: Final = 3.0
"""Seconds without a new revision of any package after which new ones are compared as a whole: not beside the
installation of many."""

PATIENCE: Final = 60.0
"""Seconds after which a new revision is compared as a whole although others keep coming."""

AT_A_TIME: Final = 2
"""Packages compared at a time; deletions do not wait for that."""

ARRIVALS: Final = 0.2
"""Seconds to wait for further shards before the packages are listed again: a process takes several at once."""

AT_REST: Final = frozenset({Phase.RUNNING.value, Phase.PAUSED.value})
"""Phases in which no run of ours makes a new revision."""

_log = structlog.stdlib.get_logger(__name__)


class DriftService:
    """A shard service: one monitor looks after the releases of all shards that are being served.

    Args:
        kube: a client of its own, which watches packages.
        targets: objects are watched as `windlass-reader` and as their package, and compared as their package, which
            needs the right to patch, although nothing is changed.
        helm: reads stored manifests.
        lifecycles: takes the signals.
        border: keeps a fault in one package from the others.
        quarantine: is told of conditions `Quarantined` that objects show.
        limits: what is watched.
    """

    def __init__(
        self,
        *,
        kube: Kube,
        targets: Targets,
        helm: Helm,
        lifecycles: PackageLifecycles,
        border: Border,
        quarantine: Quarantine,
        limits: Limits,
    ) -> None:
        self._shards: set[Shard] = set()
        self._numbers: dict[tuple[str, int], set[int]] = {}
        self._make: Callable[[], DriftMonitor] = partial(
            DriftMonitor,
            self._serves,
            kube=kube,
            targets=targets,
            helm=helm,
            lifecycles=lifecycles,
            border=border,
            quarantine=quarantine,
            limits=limits,
        )
        self._monitor: DriftMonitor | None = None

    @asynccontextmanager
    async def serving(self, shard: Shard) -> AsyncGenerator[None]:
        """Look after the packages of ``shard`` while the context is open; see `ShardService`."""
        self._shards.add(shard)
        self._count()
        monitor = self._monitor = self._monitor or self._make()
        monitor.arrived()
        try:
            yield
        finally:
            self._shards.discard(shard)
            self._count()
            monitor.left()
            if not self._shards and self._monitor is monitor:
                self._monitor = None
                await monitor.close()

    @property
    def packages(self) -> frozenset[PackageKey]:
        """The packages that are looked after now."""
        return self._monitor.packages if self._monitor else frozenset()

    @property
    def kinds(self) -> frozenset[KindOf]:
        """The kinds that are watched because releases have objects of them."""
        return self._monitor.kinds if self._monitor else frozenset()

    @property
    def watches(self) -> frozenset[Scope]:
        """What is watched because releases have such objects."""
        return self._monitor.watches if self._monitor else frozenset()

    def _serves(self, key: PackageKey) -> bool:
        return any(
            key.installation == installation and shard_of(key, count) in numbers
            for (installation, count), numbers in self._numbers.items()
        )

    def _count(self) -> None:
        """Sort the shards, so that asking whose a package is takes one hash however many shards there are."""
        self._numbers = {}
        for shard in self._shards:
            self._numbers.setdefault((shard.installation, shard.count), set()).add(shard.number)


class DriftMonitor:
    """Looks after the releases of packages.

    Args:
        serves: says whose. When it says yes for more packages `arrived` is called, when for fewer `left`.
        kube: as `DriftService`.
        targets: as `DriftService`.
        helm: as `DriftService`.
        lifecycles: as `DriftService`.
        border: as `DriftService`.
        quarantine: as `DriftService`.
        limits: as `DriftService`.
    """

    def __init__(
        self,
        serves: Callable[[PackageKey], bool],
        *,
        kube: Kube,
        targets: Targets,
        helm: Helm,
        lifecycles: PackageLifecycles,
        border: Border,
        quarantine: Quarantine,
        limits: Limits,
    ) -> None:
        self._serves = serves
        self._quarantine = quarantine
        self._kube = kube
        self._border = border
        self._packages: dict[PackageKey, Looked] = {}
        self._owners = Owners()
        self._comparisons: set[asyncio.Task[None]] = set()
        self._reading: list[asyncio.Task[None]] = []
        self._arrival: asyncio.TimerHandle | None = None
        self._moved = 0.0
        self._turns = asyncio.Semaphore(AT_A_TIME)
        self._watches = MetadataWatches(
            targets,
            border,
            self._owners,
            limits,
            on_gone=self._gone,
            on_changed=self._changed,
            on_moved=self._moved_on,
        )
        self._comparing = Comparing(
            targets=targets,
            helm=helm,
            lifecycles=lifecycles,
            owners=self._owners,
            watches=self._watches,
            limits=limits,
        )

    @property
    def packages(self) -> frozenset[PackageKey]:
        """The packages that are looked after now."""
        return frozenset(self._packages)

    @property
    def kinds(self) -> frozenset[KindOf]:
        """The kinds that are watched because releases have objects of them."""
        return frozenset((scope.api_version, scope.kind) for scope in self._watches.scopes)

    @property
    def watches(self) -> frozenset[Scope]:
        """What is watched because releases have such objects."""
        return self._watches.scopes

    def arrived(self) -> None:
        """Look after the packages that are served from now on too."""
        if self._arrival is None:
            self._arrival = asyncio.get_running_loop().call_later(ARRIVALS, self._read_again)

    def left(self) -> None:
        """Cease to look after packages that are no longer served."""
        for key in [key for key in self._packages if not self._serves(key)]:
            self._drop(key)

    async def close(self) -> None:
        """Cease to look after anything."""
        if self._arrival is not None:
            self._arrival.cancel()
        for key in list(self._packages):
            self._drop(key)
        tasks = [*self._reading, *self._comparisons]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._watches.close()

    # -- packages ------------------------------------------------------------------------------------------------------

    def _read_again(self) -> None:
        """Begin to read the packages from their list on: nothing is kept of those that were not ours before."""
        self._arrival = None
        for task in self._reading:
            task.cancel()
        self._reading = [self._border.spawn_shared("drift", partial(self._read, kind)) for kind in Kind]

    async def _read(self, kind: Kind) -> None:
        def told(error: WindlassError) -> None:
            _log.warning("watch interrupted", kind=kind.value, reason=error.reason.value, error=str(error))

        async for event in list_and_watch(self._kube, API_VERSION, kind.value, on_error=told):
            if isinstance(event, Listed):
                gone = {key for key in self._packages if key.kind is kind}
                async for item in paced(event.items):
                    key = _key(kind, item)
                    gone.discard(key)
                    await self._see(key, item)
                for key in gone:
                    self._drop(key)
            elif event.type == "DELETED":
                self._drop(_key(kind, event.object))
            elif event.type != "BOOKMARK":
                await self._see(_key(kind, event.object), event.object)

    async def _see(self, key: PackageKey, item: Object) -> None:
        """Take notice of a package's object if the package is ours."""
        if not self._serves(key):
            self._drop(key)
            return

        async def take() -> None:
            obj = _package(key.kind, item)
            if obj is not None:
                conditions = (obj.status.conditions or ()) if obj.status else ()
                quarantined = any((one.type, one.status) == (Type.QUARANTINED, "True") for one in conditions)
                self._quarantine.observed(key, quarantined=quarantined)
                self._take(key, obj)

        await self._border.once(key, "drift-object", take)

    def _take(self, key: PackageKey, obj: PackageObject) -> None:
        """Begin, go on, or cease to look after the release of a package."""
        status = obj.status
        release = status.release if status else None
        policy = policy_of(obj.spec.drift, obj.spec.maintenance)
        ceases = obj.spec.suspend or obj.metadata.deletion_timestamp is not None
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
            package = self._packages[key] = Looked(key=key, release=ref)
        package.release = ref
        package.known = status.drift.digest if status.drift else ""
        package.shown = (status.drift.unwatched or "") if status.drift else ""
        rested, package.resting = package.resting, status.phase in AT_REST
        subject = (obj.metadata.uid, release.revision, policy)
        if package.subject != subject:
            package.subject, package.revision = subject, release.revision
            package.rules = (obj.spec.drift or DriftSpec()).rules
            package.found, package.whole, package.told, package.foreign = {}, True, (), 0
            package.failures = 0
            package.moved = self._moved = self._now()
            self._plan(package, SETTLE)
        elif package.resting and not rested and package.whole:
            self._plan(package, SETTLE)

    def _drop(self, key: PackageKey) -> None:
        package = self._packages.pop(key, None)
        if package is None:
            return
        package.dropped = True
        if package.timer is not None:
            package.timer.cancel()
        self._comparing.drop(package)

    # -- events --------------------------------------------------------------------------------------------------------

    def _gone(self, ref: ObjectRef) -> None:
        for package in self._having(ref):
            package.dirty.add(ref)
            package.urgent = True
            self._plan(package, package.compared + GONE_INTERVAL - self._now())

    def _changed(self, ref: ObjectRef) -> None:
        now = self._now()
        for package in self._having(ref):
            package.since = package.since if package.dirty else now
            package.dirty.add(ref)
            quiet = min(now + QUIET, package.since + INTERVAL)
            self._plan(package, max(quiet, package.compared + INTERVAL) - now)

    def _moved_on(self, key: PackageKey) -> None:
        """Say soon that other objects of a package are watched than before."""
        package = self._packages.get(key)
        if package is not None and (package.timer is None or package.timer.when() > self._now() + SETTLE):
            self._plan(package, SETTLE)

    def _having(self, ref: ObjectRef) -> list[Looked]:
        return [package for key in self._owners.of(ref) if (package := self._packages.get(key)) is not None]

    def _plan(self, package: Looked, delay: float) -> None:
        """Compare after ``delay`` seconds; whatever comes after a deletion does not put off looking into it."""
        loop = asyncio.get_running_loop()
        at = loop.time() + max(delay, 0.0)
        if package.timer is not None:
            if package.urgent and package.timer.when() <= at:
                return
            package.timer.cancel()
        package.timer = loop.call_at(at, self._begin, package)

    def _begin(self, package: Looked) -> None:
        package.timer = None
        if package.dropped:
            return
        if package.busy:
            package.missed = True  # planned at the end of what runs
            return
        quiet = min(self._moved + SETTLE, package.moved + PATIENCE) - self._now()
        if package.whole and not package.urgent and quiet > 0:
            self._plan(package, quiet)
            return
        package.busy = True
        task = self._border.spawn(package.key, "drift-turn", partial(self._look_into, package))
        self._comparisons.add(task)
        task.add_done_callback(self._comparisons.discard)

    # -- comparisons ---------------------------------------------------------------------------------------------------

    async def _look_into(self, package: Looked) -> None:
        whole, dirty, urgent = package.whole and not package.urgent, package.dirty, package.urgent
        subject, again = package.subject, 0.0
        package.dirty, package.urgent, package.missed = set(), False, False

        async def look() -> None:
            nonlocal again
            async with contextlib.nullcontext() if urgent else self._turns:
                again = await self._comparing.look(package, dirty, whole=whole)

        try:
            if not await self._border.once(package.key, "drift", look):
                package.dirty |= dirty
                package.whole = package.whole or whole
                again = package.later()
        finally:
            package.busy = False
            package.compared = self._now()
        if package.dropped:
            return
        delays = [again] if again else []
        if package.urgent:
            delays.append(GONE_INTERVAL)
        if package.missed:
            delays.append(INTERVAL)
        if package.subject != subject or (package.whole and urgent):
            delays.append(SETTLE)  # everything is still to be compared
        if package.timer is not None:
            delays.append(package.timer.when() - self._now())
        if not delays and package.unwatched:
            delays.append(self._comparing.put_off(package))
        if delays:
            self._plan(package, min(delays))

    def _now(self) -> float:
        return asyncio.get_running_loop().time()


def _package(kind: Kind, obj: Object) -> PackageObject | None:
    try:
        return parse_package(kind, obj)
    except ValueError:
        return None  # the watcher reports it


def _placement(obj: PackageObject) -> Placement | None:
    try:
        return obj.placement()
    except WindlassError:
        return None  # its lifecycle says so


def _key(kind: Kind, obj: Object) -> PackageKey:
    """Return whose object this is, without reading more of it."""
    metadata = obj["metadata"]
    labels: dict[str, str] = metadata.get("labels") or {}
    installation = labels.get(INSTALLATION_LABEL, DEFAULT_INSTALLATION)
    return PackageKey(
        installation=installation, kind=kind, namespace=metadata.get("namespace") or "", name=metadata["name"]
    )
