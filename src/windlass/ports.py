"""What activities need of the world, as Protocols. Adapters implement them; unit tests fake them.

Every method raises only `windlass.domain.errors` types. A cancelled call (`asyncio.CancelledError`) leaves nothing
running behind: it returns control only when the process, watch or request it started has ended.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from windlass.contracts.record import PackageRecord, RecordRef
from windlass.domain.ids import PackageKey
from windlass.domain.package import Artifact, Binding, Hook, Package, Source, Values
from windlass.domain.readiness import Progress

type Object = dict[str, Any]
"""One Kubernetes object as the API server sends it."""


# -- Kubernetes ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, order=True)
class ObjectRef:
    """Names one object; ``namespace`` is empty for cluster-scoped kinds."""

    api_version: str
    kind: str
    namespace: str = ""
    name: str

    def __str__(self) -> str:
        return f"{self.kind}/{self.name}" + (f" in {self.namespace}" if self.namespace else "")


@dataclass(frozen=True, kw_only=True)
class ResourceInfo:
    """What discovery says of a kind."""

    api_version: str
    kind: str
    plural: str
    namespaced: bool


@dataclass(frozen=True, kw_only=True)
class ObjectList:
    """A consistent list and the resourceVersion a watch goes on from."""

    items: list[Object]
    resource_version: str


@dataclass(frozen=True, kw_only=True)
class WatchEvent:
    """One change. BOOKMARK events carry only a resourceVersion."""

    type: Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]
    object: Object


class Kube(Protocol):
    """The Kubernetes API over unstructured objects, with its own rate limit per client."""

    async def resource(self, api_version: str, kind: str) -> ResourceInfo | None:
        """Look a kind up by discovery (cached, refreshed once on a miss); None if it is not served."""
        ...

    async def get(self, ref: ObjectRef) -> Object | None:
        """Return the object, or None if it (or its kind) does not exist."""
        ...

    async def list(
        self,
        api_version: str,
        kind: str,
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        metadata_only: bool = False,
    ) -> ObjectList:
        """List objects (all namespaces if ``namespace`` is empty), in pages, as one consistent answer."""
        ...

    def watch(
        self,
        api_version: str,
        kind: str,
        *,
        resource_version: str,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        metadata_only: bool = False,
    ) -> AsyncIterator[WatchEvent]:
        """Stream changes after ``resource_version`` until the server or a silence limit ends the stream.

        Raises `WatchExpiredError` on 410 Gone: list again.
        """
        ...

    async def create(self, obj: Object) -> Object:
        """Create; raises TransientError(API_CONFLICT) if it exists."""
        ...

    async def replace(self, obj: Object, *, subresource: str = "") -> Object:
        """PUT with the object's own resourceVersion as precondition if it has one."""
        ...

    async def apply(self, obj: Object, *, field_manager: str, subresource: str = "", force: bool = True) -> Object:
        """Server-side apply."""
        ...

    async def patch(
        self, ref: ObjectRef, patch: Any, *, kind: Literal["json", "merge"], subresource: str = ""
    ) -> Object | None:
        """JSON patch (RFC 6902) or merge patch (RFC 7396); None if the object does not exist."""
        ...

    async def delete(
        self,
        ref: ObjectRef,
        *,
        propagation: Literal["Foreground", "Background", "Orphan"] = "Background",
        uid: str = "",
    ) -> bool:
        """Delete, with the uid as precondition if given; False if there was nothing to delete."""
        ...


class WatchExpiredError(Exception):
    """410 Gone: the resourceVersion is too old to watch from; list again."""


type OnProgress = Callable[[Progress], Awaitable[None]]


class Readiness(Protocol):
    """Waits by watch, with the rules of `windlass.domain.readiness`. Both stop within 1 s of a cancel."""

    async def wait_ready(
        self,
        refs: Sequence[ObjectRef],
        *,
        deadline: float,
        on_progress: OnProgress,
        owner: ObjectRef | None = None,
        owner_generation: int = 0,
    ) -> bool:
        """Wait until every object is current; ``deadline`` is in seconds from now.

        With ``owner`` given, returns False as soon as that object's generation moves past ``owner_generation`` or it
        is being deleted: the wait is superseded. Otherwise returns True.

        Raises:
            PermanentError: RESOURCE_FAILED, an object failed for good (a Job out of retries); names object and cause.
            TransientError: READINESS_TIMEOUT, names up to five awaited objects and why each is not ready.
        """
        ...

    async def wait_gone(self, refs: Sequence[ObjectRef], *, deadline: float, on_progress: OnProgress) -> None:
        """Wait until none of the objects exists; TransientError(UNINSTALL_FAILED) names what is left and why."""
        ...


# -- Packages --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Repository:
    """A PackageRepository as sources need it; ``spec`` is the object's spec."""

    name: str
    spec: Mapping[str, Any]


class Packages(Protocol):
    """Package sources, the cache by digest and the deployed links.

    Everything is idempotent; a digest once in the cache is complete (unpack to a temporary folder and rename).
    """

    async def resolve(self, repository: Repository, source: Source) -> Artifact:
        """Pin one version by its content.

        Raises:
            TransientError: the repository or version is not there (yet), or cannot be read.
            PermanentError: the repository's spec is wrong, or the archive is refused.
        """
        ...

    async def ensure(self, repository: Repository, artifact: Artifact) -> Path:
        """Return the folder of ``artifact`` in the cache; fetch it if it is missing.

        Raises:
            PermanentError: DIGEST_MISMATCH, the repository now holds other content under this version.
            TransientError, PermanentError: as `resolve`.
        """
        ...

    def cached(self, digest: str) -> Path | None:
        """Return the folder of ``digest`` if it is in the cache."""
        ...

    async def install(self, package_id: str, digest: str) -> Path:
        """Switch the package's deployed link to ``digest`` atomically; works for up- and downgrades."""
        ...

    async def load(self, digest: str) -> Package:
        """Read the package's folder.

        Raises:
            PermanentError: LOAD_FAILED with file, line or field, and what is expected there.
        """
        ...

    async def remove(self, package_id: str) -> None:
        """Drop the deployed link; what no package id uses may then be dropped from the cache by `sweep`."""
        ...

    async def sweep(self, keep: Sequence[str]) -> list[str]:
        """Drop cached digests that are neither deployed nor in ``keep``; return what was dropped."""
        ...


# -- Helm ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class ReleaseRef:
    """Names a Helm release."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"release {self.name} in {self.namespace}"


@dataclass(frozen=True, kw_only=True)
class Release:
    """The newest stored revision of a release.

    ``status`` is Helm's word (deployed, failed, pending-install, …). ``applied`` is the digest of chart and values
    that Windlass applied as this very revision, empty if somebody else made it.
    """

    ref: ReleaseRef
    revision: int
    status: str
    applied: str = ""
    chart: str = ""
    chart_version: str = ""


@dataclass(frozen=True, kw_only=True)
class ReleaseRequest:
    """One desired release.

    ``digest`` identifies chart content and values; ``labels`` mark the objects' owner. ``values`` reach the chart at
    ``.Values``. ``timeout`` (seconds) bounds the apply, not the wait for readiness.
    """

    ref: ReleaseRef
    chart: Path
    chart_has_hooks: bool
    values: Values
    digest: str
    history_max: int = 10
    timeout: float = 300.0


@dataclass(frozen=True, kw_only=True)
class ReleaseOutcome:
    """What `Helm.upgrade` did; ``objects`` are those of the release's manifest."""

    release: Release
    action: Literal["installed", "upgraded", "unchanged"]
    healed: str = ""
    objects: tuple[ObjectRef, ...] = ()


class Helm(Protocol):
    """Helm releases. The stored release is read before anything is done; nothing waits for readiness here."""

    async def release(self, ref: ReleaseRef) -> Release | None:
        """Return the newest stored revision, or None."""
        ...

    async def objects(self, ref: ReleaseRef) -> tuple[ObjectRef, ...]:
        """Return the objects in the newest stored revision's manifest; empty if there is no release."""
        ...

    async def upgrade(self, request: ReleaseRequest) -> ReleaseOutcome:
        """Install or upgrade, healing a ``pending-*`` or failed release first; skip when nothing changed.

        Unchanged means: newest revision is deployed, carries our digest for that very revision, and no object of its
        manifest is absent. Cancelling kills the operation within 5 s; the release may stay pending: the next call
        heals it.

        Raises:
            TransientError, PermanentError: APPLY_MANIFESTS_FAILED with Helm's text, RELEASE_CONFLICT when objects
                belong to another release.
        """
        ...

    async def uninstall(self, ref: ReleaseRef) -> tuple[ObjectRef, ...]:
        """Delete the release; return the objects it had so that the caller can wait for them. Absent is fine."""
        ...


# -- Hooks -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class HookRun:
    """One run of one hook.

    ``root`` is the package's folder; ``kubeconfig`` the text of the hook's own kubeconfig; ``values`` and
    ``config_values`` have the package's camelCase key (and ``global``) on top, as the file protocol wants.
    """

    root: Path
    hook: Hook
    binding: Binding
    context: list[dict[str, Any]]
    values: Values
    config_values: Values
    kubeconfig: str
    namespace: str
    package_id: str


@dataclass(frozen=True, kw_only=True)
class HookOutput:
    """What a run that exited with 0 left in its files, parsed and checked for form."""

    values_patch: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    config_values_patch: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    operations: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    metrics: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    duration: float = 0.0


class Hooks(Protocol):
    """Executable hooks. Every process runs in its own group, which is killed as a whole on cancel or time-out."""

    async def discover(self, root: Path, files: Sequence[str]) -> tuple[Hook, ...]:
        """Run each file with ``--config`` only and parse its answer.

        Raises:
            PermanentError: INIT_HOOKS_FAILED naming the file, its exit status or the field that is wrong.
        """
        ...

    async def run(self, run: HookRun) -> HookOutput:
        """Run one hook.

        Raises:
            TransientError: the exit status is not 0, it timed out, or its output is malformed; the reason depends on
                the binding (`windlass.domain.hooks.failure_reason`), the text ends with the hook's last lines.
        """
        ...


class HookAccess(Protocol):
    """The identity hooks act with: their own service account, never the worker's."""

    async def kubeconfig(self, namespace: str, account: str) -> str:
        """Ensure the service account and its role binding; return a kubeconfig with a short-lived token."""
        ...

    async def remove(self, namespace: str, account: str) -> None:
        """Delete the service account and its role binding."""
        ...


class Records(Protocol):
    """The state Secret of each package, with optimistic concurrency."""

    async def load(self, key: PackageKey) -> tuple[PackageRecord, RecordRef] | None:
        """Return the record and the reference to this state of it; None if there is none.

        Raises:
            PermanentError: STATE_REJECTED, the Secret is not what Windlass wrote; names it and what to do.
        """
        ...

    async def save(self, key: PackageKey, record: PackageRecord, expected: RecordRef | None) -> RecordRef:
        """Write the record over the state ``expected``; None means that there must be none yet.

        Raises:
            TransientError: API_CONFLICT, somebody else wrote (or deleted) it meanwhile: load and decide again.
            PermanentError: STATE_REJECTED, the record does not fit into a Secret.
        """
        ...

    async def delete(self, key: PackageKey) -> None:
        """Delete the record. Absent is fine."""
        ...


class ObjectPatcher(Protocol):
    """Executes the patch operations of a hook (reference: hooks.md section 6) within its package's bounds."""

    async def execute(self, operations: Sequence[Mapping[str, Any]], *, namespace: str, instance: str) -> None:
        """Execute in order, go on after an error, then raise one TransientError that lists the failures."""
        ...


class HookPatchers(Protocol):
    """Object patchers with the rights of a hook."""

    def acting_as(self, kubeconfig: str) -> AbstractAsyncContextManager[ObjectPatcher]:
        """Connect with the hook's own kubeconfig (its text): operations may do what the hook may, and no more."""
        ...


# -- small things ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class EventNote:
    """One thing that happened to an object.

    ``reason`` says why (a word), ``action`` what was done (a word), ``note`` both for people. ``at`` is in seconds
    since the epoch and part of the Event's identity: the same note recorded again, by a repeated activity, is one
    Event.
    """

    regarding: ObjectRef
    uid: str
    type: Literal["Normal", "Warning"]
    reason: str
    note: str
    action: str
    at: float


class EventLog(Protocol):
    """Kubernetes Events."""

    async def record(self, events: Sequence[EventNote]) -> None:
        """Create the Events in order; one that exists already is left as it is."""
        ...


class Clock(Protocol):
    """Wall clock in seconds since the epoch."""

    def now(self) -> float:
        """Return the current time."""
        ...


type Lines = Callable[[str], None]
"""Takes one line of a hook's output; used for logging under the hook's name."""

type Session[T] = AbstractAsyncContextManager[T]
"""An adapter that holds processes or connections is entered once by the composition root."""
