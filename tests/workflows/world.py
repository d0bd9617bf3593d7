"""Activities of a package's lifecycle over a world in memory, under the names of the real ones.

    world = FakeWorld()                          # one object that wants version 1 of a package
    hold = world.hold("helm.upgrade_release")    # the next such call goes on until `hold.release()`
    world.fail("package.download", TransientError(...))
    world.log                                    # ["observe", "add_finalizer", "download 1", ...]

A hold heartbeats, so that it learns of its cancellation; a call that is `lost` does not, so that its worker seems dead.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any, Final

from temporalio import activity

from windlass.contracts.objects import SeenStatus
from windlass.contracts.steps import (
    DownloadRequest,
    DownloadResult,
    DriftRequest,
    DriftResult,
    EventsRequest,
    EventsResult,
    FinalizerRequest,
    HoldRequest,
    HookRequest,
    HookResult,
    InstallRequest,
    LoadRequest,
    LoadResult,
    Observation,
    ObserveRequest,
    PackageRequest,
    PlaceRequest,
    RecordResult,
    ReleaseRequest,
    ReleaseResult,
    Restored,
    SettingsRequest,
    SettingsResult,
    StatusRequest,
    StatusResult,
    UninstallRequest,
    UninstallResult,
    UnwatchRequest,
    WatchRequest,
    WatchResult,
)
from windlass.domain.hooks.bindings import KubernetesBinding
from windlass.domain.lifecycle.steps import Desired, Loaded
from windlass.domain.packages.model import Artifact, Binding, Hook, Source

type Behaviour = Callable[[], Awaitable[None]]

BEAT: Final = 0.1


def source(version: str) -> Source:
    return Source(repository="shelf", package="web", version=version)


def artifact(version: str) -> Artifact:
    return Artifact(source=source(version), digest=f"sha256:{version}")


def hook(path: str, *bindings: Binding, order: int = 1) -> Hook:
    return Hook(path=path, orders=dict.fromkeys(bindings, order))


def following(path: str, *bindings: Binding, queue: str = "main") -> Hook:
    """A hook that follows ConfigMaps as well."""
    return replace(hook(path, *bindings), kubernetes=(KubernetesBinding(kind="ConfigMap", queue=queue),))


@dataclass
class Hold:
    """One call that goes on until it is released or cancelled."""

    started: asyncio.Event = field(default_factory=asyncio.Event)
    released: asyncio.Event = field(default_factory=asyncio.Event)
    cancelled: asyncio.Event = field(default_factory=asyncio.Event)

    def release(self) -> None:
        self.released.set()

    async def __call__(self) -> None:
        self.started.set()
        try:
            while not self.released.is_set():
                if not activity.info().is_local:
                    activity.heartbeat()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self.released.wait(), BEAT)
        except asyncio.CancelledError:
            self.cancelled.set()
            raise


@dataclass
class FakeWorld:
    """The object, what stands in the cluster, and what was done to both."""

    desired: Desired = field(
        default_factory=lambda: Desired(exists=True, uid="u1", generation=1, source=source("1"), settings="s1")
    )
    hooks: tuple[Hook, ...] = ()
    at_hand: bool = False
    placed: bool = True
    restored: Restored = field(default_factory=Restored)
    disabled: str = ""
    """What the module's own script says against it."""
    after_helm_changes_values: bool = False
    mailboxes: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    unsynchronized: int = 0
    release: str = ""
    revision: int = 0
    values: str = ""
    patch: str = ""
    log: list[str] = field(default_factory=list[str])
    deaf: int = 0
    """So many writes of status leave their Events unrecorded."""
    statuses: list[StatusRequest] = field(default_factory=list[StatusRequest])
    unopened: set[str] = field(default_factory=set[str])
    """Local activities of these types leave what they are asked for to the remote one."""
    postponed: bool = False
    """Whether event hooks leave their runs to the remote activity."""
    drifted: deque[DriftResult] = field(default_factory=deque[DriftResult])
    requests: list[Any] = field(default_factory=list[Any])

    def __post_init__(self) -> None:
        self._scripts: dict[str, deque[Behaviour]] = defaultdict(deque)

    # -- what tests say ----------------------------------------------------------------------------------------------

    def change(self, **fields: Any) -> None:
        """Change the object as a person or a controller would."""
        self.desired = replace(self.desired, generation=self.desired.generation + 1, **fields)

    def hold(self, name: str) -> Hold:
        """Let the next call of ``name`` go on until it is released."""
        hold = Hold()
        self._scripts[name].append(hold)
        return hold

    def fail(self, name: str, *errors: Exception) -> None:
        """Let the next calls of ``name`` raise these, one after the other."""
        for error in errors:
            self._scripts[name].append(_raising(error))

    def heal(self, name: str) -> None:
        """Let calls of ``name`` succeed from now on."""
        self._scripts[name].clear()

    def lose(self, name: str) -> asyncio.Event:
        """Let the next call of ``name`` fall silent, as if its worker had died; the event says that it was begun."""
        begun = asyncio.Event()

        async def silent() -> None:
            begun.set()
            await asyncio.Event().wait()

        self._scripts[name].append(silent)
        return begun

    def steps(self) -> list[str]:
        """What was done, without looking and writing status."""
        return [line for line in self.log if line not in {"observe", "status"}]

    def looked(self, times: int) -> bool:
        """Say whether the object was looked at so often."""
        return self.log.count("observe") >= times

    @property
    def activities(self) -> list[Callable[..., Any]]:
        """What a worker registers."""
        return [
            self.observe,
            self.add_finalizer,
            self.release_finalizer,
            self.download,
            self.install,
            self.place,
            self.load,
            self.apply_settings,
            self.clean_up,
            self.upgrade_release,
            self.uninstall_release,
            self.run_hook,
            self.watch,
            self.unwatch,
            self.hold_events,
            self.run_events,
            self.check_drift,
            self.write_status,
        ]

    async def _play(self, line: str, request: Any) -> None:
        self.log.append(line)
        self.requests.append(request)
        script = self._scripts[activity.info().activity_type]
        if script:
            await script.popleft()()

    def _leaves(self) -> bool:
        info = activity.info()
        return info.is_local and info.activity_type in self.unopened

    # -- the activities ----------------------------------------------------------------------------------------------

    @activity.defn(name="package.observe")
    async def observe(self, request: ObserveRequest) -> Observation:
        found = self.desired  # what the API server answered with; it may be old when the answer arrives
        await self._play("observe", request)
        seen = SeenStatus(uid=found.uid, generation=found.generation, digest=f"{found.settings}/{found.abandon}")
        return Observation(
            desired=found,
            seen=seen if found.exists else SeenStatus(),
            restored=self.restored if request.restore else None,
            artifact=artifact(found.source.version) if self.at_hand and found.source else None,
            placed=self.placed,
        )

    @activity.defn(name="package.add_finalizer")
    async def add_finalizer(self, request: FinalizerRequest) -> None:
        await self._play("add_finalizer", request)
        if request.uid == self.desired.uid:
            self.desired = replace(self.desired, finalizer=True)

    @activity.defn(name="package.release_finalizer")
    async def release_finalizer(self, request: FinalizerRequest) -> None:
        await self._play("release_finalizer", request)
        if request.uid == self.desired.uid:
            self.desired = Desired() if self.desired.deleting else replace(self.desired, finalizer=False)

    @activity.defn(name="package.download")
    async def download(self, request: DownloadRequest) -> DownloadResult:
        await self._play(f"download {request.source.version}", request)
        return DownloadResult(artifact=artifact(request.source.version))

    @activity.defn(name="package.install")
    async def install(self, request: InstallRequest) -> RecordResult:
        if self._leaves():
            return RecordResult(pending=True)
        await self._play(f"install {request.artifact.source.version}", request)
        return RecordResult()

    @activity.defn(name="package.place")
    async def place(self, request: PlaceRequest) -> None:
        await self._play("place", request)

    @activity.defn(name="package.load")
    async def load(self, request: LoadRequest) -> LoadResult:
        if self._leaves():
            return LoadResult(pending=True)
        await self._play(f"load {request.artifact.source.version}", request)
        return LoadResult(loaded=Loaded(artifact=request.artifact, hooks=self.hooks))

    @activity.defn(name="package.apply_settings")
    async def apply_settings(self, request: SettingsRequest) -> SettingsResult:
        if self._leaves():
            return SettingsResult(pending=True)
        # The mark of a good release ends with the digest of its settings.
        settings = request.restore.rpartition("/")[2] or self.desired.settings
        await self._play(f"apply_settings {settings}", request)
        self.values = f"{settings}{self.patch}"
        return SettingsResult(settings=settings, values=self.values, disabled=self.disabled)

    @activity.defn(name="package.clean_up")
    async def clean_up(self, request: PackageRequest) -> None:
        await self._play("clean_up", request)

    @activity.defn(name="helm.upgrade_release")
    async def upgrade_release(self, request: ReleaseRequest) -> ReleaseResult:
        wanted = f"{request.artifact.source.version}:{self.values}"
        before, self.release = self.release, wanted
        self.revision += before != wanted
        await self._play(f"upgrade_release {wanted}", request)
        return ReleaseResult(
            action="unchanged" if before == wanted else "upgraded" if before else "installed",
            values=self.values,
            name="web",
            revision=self.revision,
            superseded=request.generation < self.desired.generation,
        )

    @activity.defn(name="helm.uninstall_release")
    async def uninstall_release(self, request: UninstallRequest) -> UninstallResult:
        await self._play("uninstall_release", request)
        self.release = ""
        return UninstallResult(objects=3)

    @activity.defn(name="hook.run")
    async def run_hook(self, request: HookRequest) -> HookResult:
        await self._play(f"{request.binding.value} {request.hook.path}", request)
        if request.binding is Binding.AFTER_HELM and self.after_helm_changes_values:
            self.patch = "+after"
            self.values = f"{self.values.removesuffix(self.patch)}{self.patch}"
        return HookResult(values=self.values)

    @activity.defn(name="hook.watch")
    async def watch(self, request: WatchRequest) -> WatchResult:
        await self._play("watch", request)
        return WatchResult(queues=tuple(sorted(self.mailboxes)), unsynchronized=self.unsynchronized)

    @activity.defn(name="hook.unwatch")
    async def unwatch(self, request: UnwatchRequest) -> WatchResult:
        await self._play("unwatch", request)
        self.mailboxes.clear()
        return WatchResult()

    @activity.defn(name="hook.hold")
    async def hold_events(self, request: HoldRequest) -> None:
        await self._play("hold", request)

    @activity.defn(name="hook.run_events")
    async def run_events(self, request: EventsRequest) -> EventsResult:
        if activity.info().is_local and (self.postponed or self._scripts["hook.run_events"]):
            return EventsResult(pending=True)  # what is held or fails, does so in the remote activity
        waiting = self.mailboxes.get(request.queue, [])
        head = waiting[0] if waiting else ""
        await self._play(f"events {request.queue}: {head or 'nothing'}", request)
        if head == "synchronization":
            self.unsynchronized -= 1
        if head == "values":
            self.patch = "+event"
            self.values = f"{self.values.removesuffix(self.patch)}{self.patch}"
        del waiting[:1]
        return EventsResult(
            hook="hooks/x" if head else "",
            more=bool(waiting),
            changed=head == "values",
            unsynchronized=self.unsynchronized,
        )

    @activity.defn(name="drift.check")
    async def check_drift(self, request: DriftRequest) -> DriftResult:
        await self._play(f"check_drift {'correct' if request.correct else 'detect'}", request)
        return self.drifted.popleft() if self.drifted else DriftResult(revision=1)

    @activity.defn(name="status.write")
    async def write_status(self, request: StatusRequest) -> StatusResult:
        await self._play("status", request)
        self.statuses.append(request)
        unrecorded = request.notes if self.deaf else ()
        self.deaf = max(self.deaf - 1, 0)
        return StatusResult(written=request.uid == self.desired.uid, unrecorded=unrecorded)


def _raising(error: Exception) -> Behaviour:
    async def behave() -> None:
        raise error

    return behave
