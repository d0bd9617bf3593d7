"""Requests and results of the activities: one model in, one model out. Content travels by digest."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from windlass.contracts.base import WireModel
from windlass.contracts.lifecycle import EventNote
from windlass.contracts.objects import ActionRecord, PackageStatus, ReleaseStatus, SeenStatus
from windlass.contracts.record import RecordRef
from windlass.domain.drift.comparison import Difference
from windlass.domain.ids import PackageKey
from windlass.domain.lifecycle.conditions import Condition
from windlass.domain.lifecycle.policy import Control
from windlass.domain.lifecycle.provenance import Known
from windlass.domain.lifecycle.steps import Desired, Loaded
from windlass.domain.lifecycle.transitions import Result
from windlass.domain.packages.model import Artifact, Binding, Hook, Source
from windlass.domain.target import Placement


class ObserveRequest(WireModel):
    """``restore`` asks for what outlived an earlier workflow as well.

    ``pinned`` is the source whose content is pinned already.
    """

    key: PackageKey
    restore: bool = False
    pinned: Source | None = None


class Restored(WireModel):
    """What outlived an earlier workflow: the state Secret and the object's status."""

    artifact: Artifact | None = None
    released: Artifact | None = None
    completed: str = ""
    conditions: tuple[Condition, ...] = ()
    actions: tuple[ActionRecord, ...] = ()
    paused: bool = False
    record: RecordRef | None = None
    version: str = ""
    release: ReleaseStatus | None = None
    control: Control = Control()
    placement: Placement | None = None
    known: Known = Known()


class Observation(WireModel):
    """The desired state and what of it has been taken notice of.

    ``artifact`` is what the source comes to, if it is not pinned yet and both answer and content were at hand: then
    there is nothing to download. ``placed`` says that the package can be worked on in its place right away.
    ``show_after`` is how many seconds a step may take before it is shown in the status: longer while many packages wait
    for their turn; 0 for the usual.
    """

    desired: Desired
    seen: SeenStatus = SeenStatus()
    restored: Restored | None = None
    artifact: Artifact | None = None
    placed: bool = False
    show_after: float = 0.0


class PackageRequest(WireModel):
    """Names a package and nothing else."""

    key: PackageKey


class FinalizerRequest(WireModel):
    """The finalizer is put on and taken off the object of this uid only."""

    key: PackageKey
    uid: str


type Programs = Literal["admitted", "denied", "omitted"]
"""What becomes of the programs that a package brings (hooks, the script ``enabled``) when it is opened: they are asked
and used, the package is refused because of them, or it is opened without them."""


class DownloadRequest(WireModel):
    """Pin and fetch one version; with ``open`` also read it and ask its hooks, for the steps that follow."""

    key: PackageKey
    source: Source
    open: bool = False
    programs: Programs = "admitted"


class DownloadResult(WireModel):
    """The pinned version; its content is in the cache."""

    artifact: Artifact


class InstallRequest(WireModel):
    """Switch the package to this content; ``open`` as in `DownloadRequest`."""

    key: PackageKey
    uid: str
    artifact: Artifact
    open: bool = False
    record: RecordRef | None = None
    programs: Programs = "admitted"


class RecordResult(WireModel):
    """The state Secret as it now is.

    ``pending``, here and in other results: nothing has been told, the remote activity of the same request is to be
    called.
    """

    pending: bool = False
    record: RecordRef | None = None


class PlaceRequest(WireModel):
    """See to it that the package can be worked on in its place; None if the object asks for one it may not have."""

    key: PackageKey
    uid: str
    placement: Placement | None = None


class LoadRequest(WireModel):
    """Read this content."""

    key: PackageKey
    artifact: Artifact
    programs: Programs = "admitted"


class LoadResult(WireModel):
    """What the lifecycle needs of the package: its hooks; the rest is read where it is used."""

    pending: bool = False
    loaded: Loaded | None = None


class SettingsRequest(WireModel):
    """Validate and apply the newest settings against this content.

    ``restore`` is the mark of the good release whose settings are applied instead of the object's; empty: the object's.
    ``settings`` is the digest of the object's settings as last observed: a worker that has just seen them does not read
    them again. ``keep`` are the marks of the good releases, as in `ReleaseRequest`.
    """

    key: PackageKey
    uid: str
    artifact: Artifact
    record: RecordRef | None = None
    restore: str = ""
    settings: str = ""
    keep: tuple[str, ...] = ()
    placement: Placement | None = None


class SettingsResult(WireModel):
    """Digest of the settings that were applied, and of the values that follow.

    ``disabled`` says why the module's own script wants it disabled; empty if it does not.
    """

    pending: bool = False
    settings: str = ""
    values: str = ""
    record: RecordRef | None = None
    disabled: str = ""


class HookRequest(WireModel):
    """Run one hook once; ``run_id`` makes a repeated attempt recognisable."""

    key: PackageKey
    uid: str
    artifact: Artifact
    hook: Hook
    binding: Binding
    run_id: str
    record: RecordRef | None = None
    placement: Placement | None = None


class HookResult(WireModel):
    """Digest of the values after the hook's patch; ``duration`` in seconds."""

    values: str
    record: RecordRef | None = None
    duration: float = 0.0


class WatchRequest(WireModel):
    """Enable the kubernetes bindings of the hooks of this content."""

    key: PackageKey
    uid: str
    artifact: Artifact
    hooks: tuple[Hook, ...]
    record: RecordRef | None = None
    placement: Placement | None = None


class WatchResult(WireModel):
    """``queues`` are those in which something waits; ``unsynchronized`` counts what the first release waits for."""

    queues: tuple[str, ...] = ()
    known: Known | None = None
    unsynchronized: int = 0
    record: RecordRef | None = None


class UnwatchRequest(WireModel):
    """Disable the kubernetes bindings of a package."""

    key: PackageKey
    uid: str
    record: RecordRef | None = None


class EventsRequest(WireModel):
    """Run the hook whose news are at the head of this queue; ``run_id`` makes a repeated attempt recognisable.

    ``at`` is when the workflow decided on it, in seconds since the epoch: what it allows for later holds unless a
    `HoldRequest` of that moment or a later one was there before.
    """

    key: PackageKey
    uid: str
    artifact: Artifact
    queue: str
    run_id: str
    record: RecordRef | None = None
    at: float = 0.0
    placement: Placement | None = None


class HoldRequest(WireModel):
    """Begin no run of an event hook ahead of the workflow's word; ``at`` as in `EventsRequest`."""

    key: PackageKey
    at: float


class EventsResult(WireModel):
    """What a run did. ``hook`` is empty when nothing waited.

    ``more`` says that the queue is not empty yet; nobody signals until it is. ``changed`` says that the values are
    others than before. ``reports`` are texts for people: objects a filter failed on, failures that are allowed.
    ``pending`` says that the run goes on and nothing else: the remote activity with the same run id tells its outcome.
    """

    hook: str = ""
    items: int = 0
    more: bool = False
    pending: bool = False
    changed: bool = False
    unsynchronized: int = 0
    reports: tuple[str, ...] = ()
    record: RecordRef | None = None
    duration: float = 0.0


class ReleaseRequest(WireModel):
    """Bring the release to this content with the applied settings, and wait until it is ready.

    ``generation`` is the object's generation that the lifecycle knows: when the object moves past it while the
    release is awaited, the wait is given up. So it is when what the object's settings refer to moves past
    ``settings``, the digest that the lifecycle knows (empty: not looked at). ``keep`` are the marks of the good
    releases that can be gone back to. ``known`` is what the lifecycle knows of Helm's records, in case the state Secret
    was lost; ``adopt`` says which records of others a person has accepted (`provenance.may_adopt`).
    """

    key: PackageKey
    uid: str
    generation: int
    artifact: Artifact
    record: RecordRef | None = None
    keep: tuple[str, ...] = ()
    settings: str = ""
    placement: Placement | None = None
    known: Known = Known()
    adopt: str | None = None


class ReleaseResult(WireModel):
    """What was done to the release. ``values`` is the digest of the values it now has."""

    known: Known = Known()

    action: Literal["installed", "upgraded", "unchanged", "none"]
    values: str
    name: str = ""
    namespace: str = ""
    revision: int = 0
    healed: str = ""
    superseded: bool = False
    objects: int = 0
    record: RecordRef | None = None


class DriftRequest(WireModel):
    """Compare the release's objects with its manifest; with ``correct`` put back what differs, except ``held`` fields.

    ``held`` are `domain.drift.comparison.Difference.field`; ``revision`` is the release's that the lifecycle knows,
    ``known`` as in `ReleaseRequest`.
    """

    key: PackageKey
    uid: str
    record: RecordRef | None = None
    known: Known = Known()
    revision: int = 0
    correct: bool = False
    held: tuple[str, ...] = ()
    placement: Placement | None = None


class DriftResult(WireModel):
    """What differs now and what was put back.

    ``unclear`` tells of objects that could not be compared. ``differences`` and ``corrected`` are bounded, ``total``
    counts all differences and ``digest`` is theirs; ``revision`` is the release's, 0 if there is none. ``foreign`` says
    that somebody else wrote its record: nothing was compared.
    """

    foreign: bool = False

    revision: int = 0
    differences: tuple[Difference, ...] = ()
    total: int = 0
    digest: str = ""
    corrected: tuple[Difference, ...] = ()
    unclear: tuple[str, ...] = ()


class UninstallRequest(WireModel):
    """Take the release away and wait until its objects are gone.

    ``last`` says that nothing but the clean-up follows, which drops the record: that is not written once more.
    ``known`` and ``adopt`` as in `ReleaseRequest`.
    """

    key: PackageKey
    uid: str = ""
    record: RecordRef | None = None
    last: bool = False
    placement: Placement | None = None
    known: Known = Known()
    adopt: str | None = None


class UninstallResult(WireModel):
    """How many objects the release had."""

    objects: int = 0
    record: RecordRef | None = None


class StatusRequest(WireModel):
    """Write the whole status and record Events, on the object of this uid only."""

    key: PackageKey
    uid: str
    status: PackageStatus
    notes: tuple[EventNote, ...] = ()


class StatusResult(WireModel):
    """``written`` is False when the object is gone or another one has its name.

    ``unrecorded`` are Events that the API server could not take now: they go with the next write.
    """

    written: bool = True
    unrecorded: tuple[EventNote, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Performed:
    """A step's result, the state Secret as it left it, and what people should read of it.

    ``queues`` are the hook queues in which something waits since the step; ``known`` is what is known of Helm's records
    if the step has to do with them.
    """

    result: Result = field(default_factory=Result)
    record: RecordRef | None = None
    release: ReleaseStatus | None = None
    drift: DriftResult | None = None
    note: str = ""
    queues: tuple[str, ...] = ()
    known: Known | None = None
