"""Helm releases."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from windlass.domain.lifecycle.provenance import Known
from windlass.domain.packages.model import Values
from windlass.domain.target import Target
from windlass.ports.kube import Object, ObjectRef


@dataclass(frozen=True, kw_only=True)
class ReleaseRef:
    """Names a Helm release, and as whom it is read and changed."""

    target: Target
    name: str

    @property
    def namespace(self) -> str:
        """Where the release and its records are."""
        return self.target.namespace

    def __str__(self) -> str:
        where = f" of cluster {self.target.cluster_name}" if self.target.cluster else ""
        return f"release {self.name} in {self.namespace}{where}"


@dataclass(frozen=True, kw_only=True)
class Release:
    """The newest stored revision of a release.

    ``status`` is Helm's word (deployed, failed, pending-install, …). ``applied`` is the digest of chart and values
    that Windlass applied as this very revision, empty if somebody else made it; ``owner`` is the package that it was
    applied for.
    """

    ref: ReleaseRef
    revision: int
    status: str
    applied: str = ""
    owner: str = ""
    chart: str = ""
    chart_version: str = ""


@dataclass(frozen=True, kw_only=True)
class ReleaseRequest:
    """One desired release.

    ``digest`` identifies chart content and values; ``labels`` mark the objects' owner. ``values`` reach the chart at
    ``.Values``; ``secrets`` are the texts among them that no error may quote. ``timeout`` (seconds) bounds the apply,
    not the wait for readiness. ``owner`` names the package: a release that was applied for another one is left alone.
    ``create_namespace`` makes the target's namespace if it is missing. ``plain`` returns the paths, joined by dots, of
    values that are no secrets.
    """

    ref: ReleaseRef
    owner: str
    create_namespace: bool = False
    chart: Path
    chart_has_hooks: bool
    values: Values
    digest: str
    secrets: frozenset[str] = frozenset()
    plain: Callable[[], frozenset[str]] = frozenset[str]
    history_max: int = 10
    timeout: float = 300.0


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """What the newest stored revision of a release holds.

    ``objects`` are as the chart wrote them, under the name of what they are in the cluster; Helm's own marks (label
    and annotations) are among their metadata, Helm hooks are left out.
    """

    release: Release
    objects: Mapping[ObjectRef, Object]


@dataclass(frozen=True, kw_only=True)
class ReleaseOutcome:
    """What `Helm.upgrade` did; ``objects`` are those of the release's manifest."""

    release: Release
    action: Literal["installed", "upgraded", "unchanged"]
    healed: str = ""
    objects: tuple[ObjectRef, ...] = ()


class Ledger(Protocol):
    """What is known of the records of one release, kept where no package can write."""

    @property
    def known(self) -> Known:
        """What is known now."""
        ...

    @property
    def adopt(self) -> str | None:
        """Which foreign records a person has accepted (`domain.lifecycle.provenance.may_adopt`); None for none."""
        ...

    def digest(self, content: bytes) -> str:
        """Return the keyed digest of a record."""
        ...

    async def note(self, known: Known) -> None:
        """Remember ``known``; it is durable when this returns.

        Raises:
            WindlassError: it could not be written down; nothing that depends on it may be done.
        """
        ...

    async def unfinished(self) -> ReleaseRequest | None:
        """Return what the noted revision was made from; None if that cannot be told any more."""
        ...


type Told = Callable[[tuple[ObjectRef, ...]], Awaitable[None]]
"""Is told of the objects of a release."""


class Helm(Protocol):
    """Helm releases. The stored release is read before anything is done; nothing waits for readiness here.

    Records are believed only as far as a `Ledger` says so. Methods without one show what is stored, whoever wrote it:
    nothing may be changed because of what they return.
    """

    async def release(self, ref: ReleaseRef) -> Release | None:
        """Return the newest stored revision, or None."""
        ...

    async def manifest(self, ref: ReleaseRef, ledger: Ledger | None = None) -> Manifest | None:
        """Return the newest stored revision with its objects, or None.

        Raises:
            PermanentError: RELEASE_FOREIGN, the ``ledger`` does not know that record.
        """
        ...

    async def upgrade(self, request: ReleaseRequest, ledger: Ledger) -> ReleaseOutcome:
        """Install or upgrade, healing a ``pending-*`` or failed release first; skip when nothing changed.

        Unchanged means: newest revision is deployed, carries our digest for that very revision, and no object of its
        manifest is absent. Cancelling kills the operation within 5 s; the release may stay pending: the next call
        heals it. A revision that an operation of ours began without its record ever having been read is forgotten and
        made anew; its record is not read.

        Raises:
            TransientError, PermanentError: APPLY_MANIFESTS_FAILED with Helm's text, RELEASE_CONFLICT when objects
                belong to another release or the release to another package, RELEASE_FOREIGN when somebody else wrote
                records of it, FORBIDDEN when the target's identity may not do what the chart needs; what the attempt
                created is removed then.
        """
        ...

    async def uninstall(
        self, ref: ReleaseRef, ledger: Ledger, *, owner: str, told: Told | None = None
    ) -> tuple[ObjectRef, ...]:
        """Delete the release; return the objects it had so that the caller can wait for them. Absent is fine.

        A release that is stored, and on which no operation of ours was ever begun, is left alone.

        Args:
            ref: the release.
            ledger: says which records are ours.
            owner: the package; a release that was applied for another one is left alone.
            told: gets all objects of the release before the first is deleted: Helm forgets them with it. Not called
                if there is no release; what it raises keeps the release as it is.

        Raises:
            PermanentError: RELEASE_FOREIGN, somebody else wrote records of it: nothing is deleted.
        """
        ...


class Renderer(Protocol):
    """Renders charts."""

    async def render(self, request: ReleaseRequest, *, upgrade: bool = False) -> str:
        """Return the manifest the request would apply; the cluster is read (``lookup``, API versions), not changed.

        Args:
            request: the release.
            upgrade: what templates see as ``.Release.IsUpgrade``.

        Raises:
            TransientError, PermanentError: as `Helm.upgrade`.
        """
        ...
