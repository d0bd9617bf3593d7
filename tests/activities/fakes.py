"""Our own ports in memory, and the words that tests of activities are written in."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from temporalio.testing import ActivityEnvironment

from support.fake_kube import FakeKube
from support.targets import FakeTargets, placed
from windlass.activities.content import Contents
from windlass.activities.hooks.discovery import HookDiscovery
from windlass.activities.hooks.runs import HookRuns
from windlass.activities.openings import Openings
from windlass.activities.package_objects import PackageObjects
from windlass.activities.references import References
from windlass.adapters.metrics.hooks import HookMetricsCollector
from windlass.contracts.record import BindingRecord, PackageRecord, RecordRef, WatchedRecord
from windlass.domain.errors import Actor, PermanentError, Reason, TransientError, WindlassError
from windlass.domain.hooks.patch_operations import Bounds
from windlass.domain.ids import API_VERSION, PackageKey, owner_name
from windlass.domain.lifecycle.provenance import Made
from windlass.domain.lifecycle.readiness import Progress
from windlass.domain.packages.model import Artifact, Binding, Definition, Hook, Package, Source
from windlass.domain.target import Placement, Target
from windlass.ports.events import EventNote
from windlass.ports.helm import Ledger, Release, ReleaseOutcome, ReleaseRef, ReleaseRequest, Told
from windlass.ports.hooks import EnabledRun, HookOutput, HookRun, Verdict
from windlass.ports.kube import Kube, Object, ObjectRef, OnProgress
from windlass.ports.packages import Repository
from windlass.ports.watches import BeginAhead, EventRun

KEY = PackageKey(namespace="prod", name="web")
PLACED = placed("prod", "web")
DIGEST_KEY = b"0123456789abcdef0123456789abcdef"
SOURCE = Source(repository="shelf", package="web", version="1.0.0")
ARTIFACT = Artifact(source=SOURCE, digest="sha256:1")
HOOK = Hook(path="hooks/10-secret.sh", orders={Binding.BEFORE_HELM: 10})
OWN = ObjectRef(api_version=API_VERSION, kind="Application", namespace="prod", name="web")
DEPLOYMENT = ObjectRef(api_version="apps/v1", kind="Deployment", namespace="prod", name="web")
CLAIM = ObjectRef(api_version="v1", kind="PersistentVolumeClaim", namespace="prod", name="data")


@dataclass
class FakePackages:
    """A shelf with one package; ``cache`` says which digests are here already."""

    package: Package
    cache: set[str] = field(default_factory=set[str])
    installed: dict[str, str] = field(default_factory=dict[str, str])

    async def resolve(self, repository: Repository, source: Source) -> Artifact:
        return Artifact(source=source, digest=f"sha256:{repository.name}/{source.version}")

    async def at_hand(self, repository: Repository, source: Source) -> Artifact | None:
        artifact = await self.resolve(repository, source)
        return artifact if artifact.digest in self.cache else None

    async def ensure(self, repository: Repository, artifact: Artifact) -> Path:
        assert repository.name == artifact.source.repository
        self.cache.add(artifact.digest)
        return Path("/cache", artifact.digest)

    def cached(self, digest: str) -> Path | None:
        return Path("/cache", digest) if digest in self.cache else None

    async def install(self, package_id: str, digest: str) -> Path:
        self.installed[package_id] = digest
        return Path("/deployed", package_id)

    async def load(self, digest: str) -> Package:
        assert digest in self.cache
        return self.package

    async def remove(self, package_id: str) -> None:
        self.installed.pop(package_id, None)

    async def sweep(self, keep: Sequence[str]) -> list[str]:
        return [digest for digest in self.cache if digest not in keep]


@dataclass
class FakeRecords:
    """The state Secrets, with their precondition."""

    stored: dict[PackageKey, tuple[PackageRecord, RecordRef]] = field(
        default_factory=dict[PackageKey, tuple[PackageRecord, RecordRef]]
    )
    loads: int = 0
    saves: int = 0

    async def load(self, key: PackageKey) -> tuple[PackageRecord, RecordRef] | None:
        self.loads += 1
        return self.stored.get(key)

    async def save(self, key: PackageKey, record: PackageRecord, expected: RecordRef | None) -> RecordRef:
        there = self.stored.get(key)
        if (there[1] if there else None) != expected:
            raise TransientError(Reason.API_CONFLICT, "somebody else has stored another record")
        self.saves += 1
        ref = RecordRef(name="r", namespace="prod", resource_version=str(self.saves), digest=f"d{self.saves}")
        self.stored[key] = (record, ref)
        return ref

    async def watched(self, installation: str) -> list[PackageKey]:
        return [key for key, (record, _) in self.stored.items() if record.watched and key.installation == installation]

    async def faulty(self, installation: str) -> list[PackageKey]:
        return [key for key, (record, _) in self.stored.items() if record.faults and key.installation == installation]

    async def delete(self, key: PackageKey) -> None:
        self.stored.pop(key, None)

    @property
    def record(self) -> PackageRecord:
        return self.stored[KEY][0]

    def put(self, **fields: Any) -> RecordRef:
        """Store a record as an earlier step left it."""
        self.saves += 1
        ref = RecordRef(name="r", namespace="prod", resource_version=str(self.saves), digest=f"d{self.saves}")
        self.stored[KEY] = (PackageRecord(**{"uid": "u1", "settings": {}, **fields}), ref)
        return ref


@dataclass
class FakeSuspects:
    """Packages that are suspected of having ended the process, and what was noted."""

    keys: set[PackageKey] = field(default_factory=set[PackageKey])
    noted: list[str] = field(default_factory=list[str])

    @contextmanager
    def opening(self, key: PackageKey, part: str) -> Generator[None]:
        assert key == KEY
        self.noted.append(part)
        yield

    def suspected(self, key: PackageKey) -> bool:
        return key in self.keys

    async def quarantined(self, key: PackageKey, part: str) -> bool:  # noqa: ARG002 - as the port
        return False

    async def worked(self, key: PackageKey, part: str) -> None:  # noqa: ARG002 - as the port
        self.keys.discard(key)


@dataclass
class FakeHelm:
    """Releases by name; ``during`` is called while an upgrade is under way."""

    objects_of: dict[str, tuple[ObjectRef, ...]] = field(default_factory=dict[str, tuple[ObjectRef, ...]])
    upgrades: list[ReleaseRequest] = field(default_factory=list[ReleaseRequest])
    uninstalled: list[str] = field(default_factory=list[str])
    during: Callable[[], Awaitable[None]] | None = None
    ledgers: list[Ledger] = field(default_factory=list[Ledger])

    async def release(self, ref: ReleaseRef) -> Release | None:
        return Release(ref=ref, revision=1, status="deployed") if ref.name in self.objects_of else None

    async def upgrade(self, request: ReleaseRequest, ledger: Ledger) -> ReleaseOutcome:
        self.upgrades.append(request)
        number = len(self.upgrades)
        await ledger.note(ledger.known.noting(number))
        if self.during is not None:
            await self.during()
        known = request.ref.name in self.objects_of
        self.objects_of[request.ref.name] = (DEPLOYMENT,)
        digest = ledger.digest(request.digest.encode())
        await ledger.note(ledger.known.with_made(Made(revision=number, digest=digest)))
        return ReleaseOutcome(
            release=Release(ref=request.ref, revision=number, status="deployed"),
            action="upgraded" if known else "installed",
            objects=(DEPLOYMENT,),
        )

    async def uninstall(
        self, ref: ReleaseRef, ledger: Ledger, *, owner: str, told: Told | None = None
    ) -> tuple[ObjectRef, ...]:
        self.ledgers.append(ledger)
        assert owner == owner_name(KEY)
        if told is not None and ref.name in self.objects_of:
            await told(self.objects_of[ref.name])
        self.uninstalled.append(ref.name)
        return self.objects_of.pop(ref.name, ())


@dataclass
class FakeReadiness:
    """What the cluster says of a release; ``readings`` are reported on the way."""

    ready: bool = True
    readings: list[Progress] = field(default_factory=list[Progress])
    awaited: list[ObjectRef] = field(default_factory=list[ObjectRef])
    gone: list[ObjectRef] = field(default_factory=list[ObjectRef])
    owner: tuple[ObjectRef | None, int] = (None, 0)
    during: Callable[[], Awaitable[None]] | None = None
    deadline: float = 0.0
    failure: Exception | None = None

    async def wait_ready(
        self,
        target: Target,
        refs: Sequence[ObjectRef],
        *,
        deadline: float,
        on_progress: OnProgress,
        owner: ObjectRef | None = None,
        owner_generation: int = 0,
    ) -> bool:
        assert target == PLACED.target
        self.awaited, self.deadline, self.owner = list(refs), deadline, (owner, owner_generation)
        for reading in self.readings:
            await on_progress(reading)
        if self.during is not None:
            await self.during()
        if self.failure is not None:
            raise self.failure
        return self.ready

    async def wait_gone(
        self, target: Target, refs: Sequence[ObjectRef], *, deadline: float, on_progress: OnProgress
    ) -> None:
        assert target == PLACED.target
        self.gone, self.deadline = list(refs), deadline
        for reading in self.readings:
            await on_progress(reading)
        if self.failure is not None:
            raise self.failure


@dataclass
class FakeHooks:
    """Answers of hooks, one after the other; the last one stays."""

    outputs: list[HookOutput | Exception] = field(default_factory=lambda: [HookOutput()])
    runs: list[HookRun] = field(default_factory=list[HookRun])
    discovered: int = 0
    busy: int = 0
    met: bool = False

    async def discover(self, root: Path, files: Sequence[str]) -> tuple[Hook, ...]:
        assert root.is_absolute()
        self.discovered += 1
        return tuple(Hook(path=path, orders={Binding.BEFORE_HELM: 1}) for path in files)

    async def run(self, run: HookRun) -> HookOutput:
        self.runs.append(run)
        self.busy += 1
        self.met = self.met or self.busy > 1
        await asyncio.sleep(0)
        self.busy -= 1
        output = self.outputs.pop(0) if len(self.outputs) > 1 else self.outputs[0]
        if isinstance(output, Exception):
            raise output
        return output


@dataclass
class FakeJq:
    """Compiles everything but what is broken."""

    broken: dict[str, str] = field(default_factory=dict[str, str])

    def on_behalf_of(self, package: str) -> FakeJq:
        assert package
        return self

    async def check(self, program: str) -> None:
        if program in self.broken:
            raise PermanentError(Reason.FILTER_FAILED, self.broken[program], actor=Actor.AUTHOR)

    async def run(self, program: str, value: Any, *, timeout: float = 1.0) -> list[Any]:  # noqa: ASYNC109 - as the port
        raise AssertionError(f"no activity runs filters: {program} on {value} within {timeout}")


@dataclass
class FakeWatches:
    """The watches of one package, and what waits before its queue ``main``."""

    waiting_runs: list[EventRun] = field(default_factory=list[EventRun])
    snapshot: dict[str, list[Any]] = field(default_factory=dict[str, list[Any]])
    opened: list[str] = field(default_factory=list[str])
    closed: int = 0
    announced: int = 0
    told: dict[str, BindingRecord] = field(default_factory=dict[str, BindingRecord])
    reported: tuple[str, ...] = ()
    unsynchronized_bindings: int = 0
    failure: WindlassError | None = None
    allowed: list[tuple[BeginAhead, float]] = field(default_factory=list[tuple[BeginAhead, float]])
    held: list[float] = field(default_factory=list[float])

    async def open(self, key: PackageKey, placement: Placement, watched: WatchedRecord) -> FakeWatches:
        assert (key, placement) == (KEY, PLACED)
        if self.failure is not None:
            raise self.failure
        self.opened.append(watched.digest)
        return self

    async def close(self, key: PackageKey) -> None:
        assert key == KEY
        self.closed += 1

    async def snapshots(
        self, key: PackageKey, placement: Placement, hook: Hook
    ) -> Mapping[str, Sequence[Mapping[str, Any]]]:
        assert (key, placement, bool(hook.path)) == (KEY, PLACED, True)
        return self.snapshot

    def allow(self, key: PackageKey, queue: str, begin: BeginAhead, *, since: float) -> None:
        assert (key, queue) == (KEY, "main")
        self.allowed.append((begin, since))

    def hold(self, key: PackageKey, *, since: float) -> None:
        assert key == KEY
        self.held.append(since)

    def has_news(self, key: PackageKey, queue: str) -> bool:
        assert key == KEY
        return self.waits(queue)

    def waiting(self) -> tuple[str, ...]:
        return ("main",) if self.waiting_runs else ()

    def waits(self, queue: str) -> bool:
        return queue == "main" and bool(self.waiting_runs)

    def announce(self) -> None:
        self.announced += 1

    def unsynchronized(self) -> int:
        return self.unsynchronized_bindings

    def take(self, queue: str) -> EventRun | None:
        assert queue == "main"
        return self.waiting_runs[0] if self.waiting_runs else None

    def after(self, queue: str) -> dict[str, BindingRecord]:
        assert queue == "main"
        return self.told

    def done(self, queue: str) -> bool:
        assert queue == "main"
        del self.waiting_runs[:1]
        return bool(self.waiting_runs)

    def reports(self, queue: str) -> tuple[str, ...]:
        assert queue == "main"
        reports, self.reported = self.reported, ()
        return reports


@dataclass
class FakeScripts:
    """Answers for every module's script."""

    verdict: Verdict = field(default_factory=lambda: Verdict(enabled=True))
    runs: list[EnabledRun] = field(default_factory=list[EnabledRun])

    async def ask(self, run: EnabledRun) -> Verdict:
        self.runs.append(run)
        return self.verdict


@dataclass
class FakePatchers:
    """Records what was executed."""

    executed: list[list[Mapping[str, Any]]] = field(default_factory=list[list[Mapping[str, Any]]])
    failure: Exception | None = None

    def over(self, kube: Kube, package: str) -> FakePatchers:
        assert package
        assert isinstance(kube, FakeKube)
        return self

    async def execute(self, operations: Sequence[Mapping[str, Any]], bounds: Bounds) -> None:
        assert bounds == Bounds(namespace="prod", prefix="web-")
        if self.failure is not None:
            raise self.failure
        self.executed.append(list(operations))


@dataclass
class FakeEvents:
    notes: list[EventNote] = field(default_factory=list[EventNote])
    failure: Exception | None = None

    async def record(self, events: Sequence[EventNote]) -> None:
        if self.failure is not None:
            raise self.failure
        self.notes.extend(events)


@dataclass
class FakeClock:
    time: float = 1000.0

    def now(self) -> float:
        return self.time


@dataclass
class Bench:
    """Everything that activities are made of."""

    kube: FakeKube = field(default_factory=FakeKube)
    packages: FakePackages = field(default_factory=lambda: FakePackages(package()))
    records: FakeRecords = field(default_factory=FakeRecords)
    helm: FakeHelm = field(default_factory=FakeHelm)
    readiness: FakeReadiness = field(default_factory=FakeReadiness)
    hooks: FakeHooks = field(default_factory=FakeHooks)
    jq: FakeJq = field(default_factory=FakeJq)
    watches: FakeWatches = field(default_factory=FakeWatches)
    patchers: FakePatchers = field(default_factory=FakePatchers)
    suspects: FakeSuspects = field(default_factory=FakeSuspects)
    scripts: FakeScripts = field(default_factory=FakeScripts)
    metrics: HookMetricsCollector = field(default_factory=HookMetricsCollector)
    events: FakeEvents = field(default_factory=FakeEvents)
    clock: FakeClock = field(default_factory=FakeClock)
    environment: ActivityEnvironment = field(default_factory=ActivityEnvironment)

    def __post_init__(self) -> None:
        self.targets = FakeTargets(self.kube)
        self.references = References(self.targets)
        self.contents = Contents(self.kube, self.packages, self.records, DIGEST_KEY)
        discovery = HookDiscovery(self.hooks, self.jq)
        self.openings = Openings(contents=self.contents, discovery=discovery, jq=self.jq, suspects=self.suspects)
        self.hook_runs = HookRuns(
            hooks=self.hooks,
            targets=self.targets,
            patchers=self.patchers,
            metrics=self.metrics,
            contents=self.contents,
        )
        self.kube.put(
            {
                "apiVersion": API_VERSION,
                "kind": "PackageRepository",
                "metadata": {"name": "shelf"},
                "spec": {"kind": "file", "file": {"path": "/shelf"}},
            }
        )

    @property
    def objects(self) -> PackageObjects:
        """Objects as a process sees them that has seen none yet."""
        return PackageObjects(self.kube, self.references, DIGEST_KEY)

    def application(self, *, metadata: Object | None = None, status: Object | None = None, **spec: Any) -> Object:
        """Put the object as the API server would hold it; return it."""
        obj: Object = {
            "apiVersion": API_VERSION,
            "kind": "Application",
            "metadata": {"name": "web", "namespace": "prod", **(metadata or {})},
            "spec": {"package": {"repository": "shelf", "name": "web", "version": "1.0.0"}, **spec},
        }
        if status is not None:
            obj["status"] = status
        return self.kube.put(obj)

    async def run[P, R](self, activity: Callable[[P], Awaitable[R]], request: P) -> R:
        """Run one activity as a worker does."""
        return await self.environment.run(activity, request)


def package(**fields: Any) -> Package:
    base: dict[str, Any] = {
        "definition": Definition(name="web", version="1.0.0"),
        "static_values": {"replicas": 1},
        "settings_schema": {"type": "object", "properties": {"port": {"type": "integer", "minimum": 1}}},
    }
    return Package(**{**base, **fields})
