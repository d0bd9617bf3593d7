"""The Kubernetes API over unstructured objects, and waiting for objects by watch."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from windlass.domain.lifecycle.readiness import Progress
from windlass.domain.target import Target

type Object = dict[str, Any]
"""One Kubernetes object as the API server sends it."""


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


class ListWatch(Protocol):
    """The part of `Kube` that keeps a picture of some objects."""

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
        """See `Kube.list`."""
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
        """See `Kube.watch`."""
        ...


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

    async def apply(
        self, obj: Object, *, field_manager: str, subresource: str = "", force: bool = True, dry_run: bool = False
    ) -> Object:
        """Server-side apply; with ``dry_run`` the object as it would be, and nothing is kept."""
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
        resource_version: str = "",
    ) -> bool:
        """Delete, with uid and resourceVersion as preconditions if given; False if there was nothing to delete."""
        ...


class WatchExpiredError(Exception):
    """410 Gone: the resourceVersion is too old to watch from; list again."""


type OnProgress = Callable[[Progress], Awaitable[None]]


class Readiness(Protocol):
    """Waits by watch, with the rules of `windlass.domain.lifecycle.readiness`. Both stop within 1 s of a cancel."""

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
        """Wait until every object in the target's cluster is current; ``deadline`` is in seconds from now.

        With ``owner`` given, an object of the management cluster, returns False as soon as that object's generation
        moves past ``owner_generation`` or it is being deleted: the wait is superseded. Otherwise returns True.

        Raises:
            PermanentError: RESOURCE_FAILED, an object failed for good (a Job out of retries); names object and cause.
            TransientError: READINESS_TIMEOUT, names up to five awaited objects and why each is not ready.
        """
        ...

    async def wait_gone(
        self, target: Target, refs: Sequence[ObjectRef], *, deadline: float, on_progress: OnProgress
    ) -> None:
        """Wait until none of the objects exists; TransientError(UNINSTALL_FAILED) names what is left and why."""
        ...
