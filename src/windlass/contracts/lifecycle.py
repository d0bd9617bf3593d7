"""What goes in and out of the `PackageLifecycle` workflow, and what it carries across its runs."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AwareDatetime, Field, StringConstraints

from windlass.contracts.base import WireModel
from windlass.contracts.objects import ActionRecord, ReleaseStatus, SeenStatus
from windlass.contracts.record import RecordRef
from windlass.domain.drift.comparison import Correction, Difference, Policy
from windlass.domain.ids import PackageKey
from windlass.domain.lifecycle.conditions import Condition
from windlass.domain.lifecycle.losses import Interruptions
from windlass.domain.lifecycle.policy import Control, effective
from windlass.domain.lifecycle.steps import Desired, Progress

PACKAGE_LIFECYCLE = "PackageLifecycle"
DESIRED_CHANGED = "desired_changed"
HOOK_EVENTS = "hook_events"
RELEASE_DRIFTED = "release_drifted"
QUARANTINED = "quarantined"


type Pool = Literal["helm"]
"""A kind of work that workers of their own may do, instead of those that run the workflows."""


class Limits(WireModel):
    """When a run ends and the next one takes over (Temporal: a run holds at most 51,200 events)."""

    events: int = 2000
    signals: int = 1000


class Failure(WireModel):
    """The failure that holds the lifecycle. ``at`` and ``next_try`` are seconds since the epoch."""

    step: str
    reason: str
    message: str
    hint: str = ""
    actor: str = ""
    attempt: int = 1
    at: float = 0.0
    next_try: float = 0.0
    strikes: int = 0
    """How many of the attempts speak against what is being brought about (`domain.lifecycle.policy.counts`)."""


class HookQueue(WireModel):
    """One queue of event hooks: what waits in it is in the worker's mailbox, here is whether anything does.

    ``run`` is the id of a run whose end was not learned; the same run is tried again under it. ``ahead`` is the id of a
    run that the worker has begun and that the workflow has yet to come for. ``sequence`` is that of the last signal.
    """

    name: str
    due: bool = False
    sequence: int = 0
    run: str = ""
    ahead: str = ""
    failure: Failure | None = None
    interruptions: Interruptions | None = None
    held: bool = False
    """Whether only a person has the failed run tried again."""

    @property
    def next_try(self) -> float:
        """When the run at the head may be tried again, 0 for now."""
        failed = self.failure.next_try if self.failure else 0.0
        return max(failed, self.interruptions.next_try) if self.interruptions else failed


class EventNote(WireModel):
    """One Kubernetes Event to record about the object."""

    type: str = "Normal"
    reason: str
    note: str
    at: float


class DriftState(WireModel):
    """What is known of drift.

    Attributes:
        policy: the policy that has been taken notice of.
        told: objects that were told of and not looked at yet; ``revision`` is the release's that they are about.
        due: whether to compare as soon as the lifecycle rests.
        differences: the first of what differed when it was last compared; ``total`` counts all, ``digest`` is theirs.
        corrections: fields that were put back of late.
        again_at: when to compare again by itself (seconds since the epoch), 0 for not.
        unwatched: what is said of objects that are not watched; empty if all are.
    """

    policy: Policy = Policy()
    told: tuple[Difference, ...] = ()
    revision: int = 0
    due: bool = False
    differences: tuple[Difference, ...] = ()
    total: int = 0
    digest: str = ""
    corrections: tuple[Correction, ...] = ()
    again_at: float = 0.0
    unwatched: str = ""


class FaultyPart(WireModel):
    """A part of a package's work beside its workflow that fails and is tried again."""

    part: str
    reason: str
    cause: str = ""


class Quarantined(WireModel):
    """Signal `quarantined`: all parts of the package that are broken in one process; none: everything works again.

    Attributes:
        source: the kind of process: each knows of its own parts only.
        parts: one entry for each part, at most `windlass.domain.faults.PARTS_MAX`.
    """

    source: str
    parts: tuple[FaultyPart, ...] = ()


class ActionResult(WireModel):
    """What an action met: the phase and step at that moment, and whether it changed anything."""

    accepted: bool
    phase: str
    step: str
    message: str
    unknown: bool = False
    """Nobody can tell whether it was carried out before Temporal lost its data; it is not carried out now."""


class Answer(WireModel):
    """What the order of this ActionRequest met; the same is answered if it is passed on again."""

    uid: str
    result: ActionResult


class LifecycleState(WireModel):
    """Everything a run hands to the next one."""

    schema_version: int = 1
    desired: Desired = Desired()
    progress: Progress = Progress()
    conditions: tuple[Condition, ...] = ()
    failure: Failure | None = None
    interruptions: Interruptions | None = None
    """How often the running step ended without an outcome; counted across runs."""
    paused: bool = False
    actions: tuple[ActionRecord, ...] = ()
    answers: tuple[Answer, ...] = ()
    """The newest answers to ActionRequests. They are lost with Temporal's data; the uids in ``actions`` are not."""
    seen: SeenStatus = SeenStatus()
    record: RecordRef | None = None
    release: ReleaseStatus | None = None
    version: str = ""
    notes: tuple[EventNote, ...] = ()
    unrecorded: tuple[EventNote, ...] = ()
    """Events whose own write failed; tried again with the next write of status, the newest of them."""
    written: str = ""
    """Digest of the status that was last written."""
    passes: int = 0
    """How often the lifecycle came to rest."""
    hook_run: str = ""
    """Id of a hook run whose end was not learned; the same run is tried again under it."""
    hook_queues: tuple[HookQueue, ...] = ()
    drift: DriftState = DriftState()
    quarantine: tuple[Quarantined, ...] = ()
    """What does not work beside the workflow, one entry for each source that has something to say."""
    attributes: tuple[str, str, bool] = ("", "", False)
    """Phase, version and readiness as last upserted to the search attributes."""
    control: Control = Control()
    pools: tuple[Pool, ...] = ()
    """Kinds of work that go to pools of workers of their own."""

    @property
    def wanted(self) -> Desired:
        """What is brought about: the object's wish, or the good release that is kept in its stead."""
        return effective(self.desired, self.control)


class LifecycleInput(WireModel):
    """Starts `PackageLifecycle`; ``state`` is set by continue-as-new only."""

    key: PackageKey
    limits: Limits = Limits()
    state: LifecycleState | None = None


class DesiredChanged(WireModel):
    """Signal `desired_changed`: something about the object or what it references is new.

    It says that, not what: the lifecycle observes for itself. ``pools`` is where the installation has its work done
    from now on; None leaves that as it is.
    """

    seen: SeenStatus = SeenStatus()
    pools: tuple[Pool, ...] | None = None


class HookEvents(WireModel):
    """Argument of the update `hook_events`: something waits in the mailbox of this queue.

    At most one for each queue is sent until a run has emptied the mailbox. ``broken`` says that a watch has failed, or
    works again: the next run tells, so it does not wait for the end of a back-off. ``run`` is the id of a run that has
    begun ahead of this message.
    """

    queue: str
    sequence: int = 0
    broken: bool = False
    run: str = ""


class ReleaseDrifted(WireModel):
    """Signal `release_drifted`: these objects of this revision are gone or no longer what the manifest says.

    It names objects and nothing of what is in them; at most `drift.comparison.DIFFERENCES_KEPT`. No objects: what
    status tells of is over.

    Attributes:
        compare: whether the objects are news; otherwise only ``unwatched`` is.
        unwatched: what the condition `InSync` says of objects that are not watched; empty if all are.
    """

    revision: int
    objects: tuple[Difference, ...]
    compare: bool = True
    unwatched: Annotated[str, StringConstraints(max_length=1024)] = ""


Who = Annotated[str, StringConstraints(min_length=1, max_length=512)]
Why = Annotated[str, StringConstraints(max_length=1024)]


class Action(WireModel):
    """Argument of the updates: who requests it and why.

    ``uid`` and ``asked`` are those of the ActionRequest that it comes from; ``asked`` in seconds since the epoch. An
    action with a ``uid`` is carried out once, whatever happens between sender and lifecycle (docs/adr/0023).
    """

    who: Who
    why: Why = ""
    uid: Annotated[str, StringConstraints(max_length=64)] = ""
    asked: float = 0.0


class PauseAction(Action):
    """Argument of `pause`: ``before`` names steps that are not begun; empty: no further step is."""

    before: tuple[Annotated[str, StringConstraints(max_length=64)], ...] = Field(default=(), max_length=32)


class ResumeAction(Action):
    """Argument of `resume`: ``everything`` drops all breakpoints and the pause, not only what holds now."""

    everything: bool = False


class RollbackAction(Action):
    """Argument of `rollback`: ``to`` is the Helm revision of a good release; None: the last good one."""

    to: int | None = None


class StatusView(WireModel):
    """Answer of the query `status`."""

    package: str
    phase: str
    step: str
    hold: str = ""
    version: str = ""
    digest: str = ""
    settings: str = ""
    paused: bool = False
    failure: Failure | None = None
    release: ReleaseStatus | None = None
    conditions: tuple[Condition, ...] = ()
    actions: tuple[ActionRecord, ...] = ()
    passes: int = 0
    control: Control = Control()


class QueuedStep(WireModel):
    """One line of a queue: what is left to do, what failed at its head, and when it is tried again.

    ``held`` says why the step is not begun: ``Failed``, ``Cancelled``, or ``Breakpoint`` also for later steps.
    """

    index: int
    name: str
    scope: str
    running: bool = False
    attempt: int = 0
    error: str = ""
    next_try: AwareDatetime | None = None
    held: str = ""


class QueuesView(WireModel):
    """Answer of the query `queues`: queue name to its steps; the main queue has the package's id as name."""

    queues: dict[str, tuple[QueuedStep, ...]] = Field(default_factory=dict[str, tuple[QueuedStep, ...]])


class DumpView(WireModel):
    """Answer of the query `dump`: the whole carried state; it holds digests, never values."""

    key: PackageKey
    state: LifecycleState
    running: str = ""
    history_events: int = 0
