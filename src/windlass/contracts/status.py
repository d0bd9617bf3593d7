"""Projections of the carried state: the object's status, the queries' answers, the Temporal UI's details."""

from __future__ import annotations

import hashlib
from datetime import datetime

from windlass.contracts import control as controls
from windlass.contracts.drift import DriftDifference, DriftStatus
from windlass.contracts.lifecycle import (
    DriftState,
    Failure,
    HookQueue,
    LifecycleState,
    QueuedStep,
    QueuesView,
    StatusView,
)
from windlass.contracts.objects import Condition as ConditionStatus
from windlass.contracts.objects import FailureStatus, PackageStatus, WorkflowStatus
from windlass.domain.errors import Actor
from windlass.domain.ids import PackageKey
from windlass.domain.lifecycle import conditions as cond
from windlass.domain.lifecycle.effects import Phase, phase_of, ready_override
from windlass.domain.lifecycle.policy import Cause, decide
from windlass.domain.lifecycle.steps import Hold, Next, Scope
from windlass.domain.lifecycle.transitions import remaining

STEP_CAP = 200
MESSAGE_CAP = controls.MESSAGE_CAP
"""Characters of one condition's message; the whole text stands in ``failure``."""


def phase(state: LifecycleState) -> Phase:
    """Return the phase of the package."""
    hold = decided(state).hold
    return phase_of(
        state.wanted, state.progress, version=state.version, paused=state.paused, hold=hold, control=state.control
    )


def decided(state: LifecycleState) -> Next:
    """Return the one next step, or why it is not begun."""
    return decide(state.desired, state.progress, state.control, paused=state.paused)


def with_ready(state: LifecycleState, hold: Hold | None, now: float) -> cond.Conditions:
    """Return the conditions with `Ready` summarised from the others."""
    failure = (state.failure.reason, state.failure.message) if state.failure else None
    override = ready_override(state.desired, state.progress, hold=hold, failure=failure, control=state.control)
    change = cond.summarise(state.conditions, override=override)
    return cond.apply(state.conditions, [change], generation=state.desired.generation, now=now)


def is_ready(conditions: cond.Conditions) -> bool:
    """Say whether the summary is True."""
    return cond.find(conditions, cond.Type.READY).status is cond.Status.TRUE


def package_status(state: LifecycleState, step: Next, workflow: WorkflowStatus) -> PackageStatus:
    """Return the whole status as it stands on the object; ``progress`` belongs to the running Helm step."""
    progress = state.progress
    return PackageStatus(
        observed_generation=state.desired.generation,
        phase=phase(state).value,
        step=step_text(step)[:STEP_CAP],
        version=state.version or None,
        digest=progress.artifact.digest if progress.artifact else None,
        release=state.release,
        conditions=[_condition(condition) for condition in state.conditions],
        failure=_failure(state),
        drift=_drift(state.drift),
        seen=state.seen,
        actions=list(state.actions),
        paused=state.paused or None,
        held=controls.held(state.control, step),
        breakpoints=[one.value for one in state.control.breakpoints] or None,
        rejected=controls.rejected(state.control),
        revisions=controls.revisions(state.control) or None,
        workflow=workflow,
        completed=progress.completed or None,
    )


def status_digest(status: PackageStatus) -> str:
    """Return a digest by which an unchanged status is recognised and not written again."""
    return hashlib.sha256(status.model_dump_json(by_alias=True).encode()).hexdigest()[:16]


def step_text(step: Next) -> str:
    """Return what runs now or why nothing does."""
    return step.hold.value if step.hold else step.label


def status_view(key: PackageKey, state: LifecycleState, step: Next) -> StatusView:
    """Return the answer of the query `status`."""
    artifact = state.progress.artifact
    return StatusView(
        package=key.package_id,
        phase=phase(state).value,
        step=step_text(step),
        hold=step.hold.value if step.hold else "",
        version=state.version,
        digest=artifact.digest if artifact else "",
        settings=state.progress.settings,
        paused=state.paused,
        failure=state.failure,
        release=state.release,
        conditions=state.conditions,
        actions=state.actions,
        passes=state.passes,
        control=state.control,
    )


def queue_failure(state: LifecycleState) -> Failure | None:
    """Return the failure at the head of a hook queue; None if there is none."""
    return next((queue.failure for queue in state.hook_queues if queue.failure is not None), None)


def queues_view(
    key: PackageKey, state: LifecycleState, running: Next | None, hooks: frozenset[str] = frozenset()
) -> QueuesView:
    """Return the answer of the query `queues`.

    The main queue is the projection of the steps that are left. Of a hook queue, named ``<id>/<queue>``, the head is
    shown, if there is one; ``hooks`` are those that run.
    """
    steps = remaining(state.wanted, state.progress, paused=state.paused)
    failure = state.failure
    queue = tuple(
        QueuedStep(
            index=index,
            name=step.label,
            scope=step.scope.value,
            running=index == 1 and running is not None,
            attempt=failure.attempt if failure and index == 1 else 0,
            error=failure.message if failure and index == 1 else "",
            next_try=_next_try(state) if index == 1 and running is None else None,
            held=_why_held(state, step, first=index == 1),
        )
        for index, step in enumerate(steps, start=1)
    )
    heads = {f"{key.package_id}/{one.name}": _head(one, running=one.name in hooks) for one in state.hook_queues}
    return QueuesView(queues={key.package_id: queue, **heads})


def _head(queue: HookQueue, *, running: bool) -> tuple[QueuedStep, ...]:
    if not (queue.due or running):
        return ()
    failure = queue.failure
    head = QueuedStep(
        index=1,
        name="EventHook",
        scope=Scope.SCHEDULE.value,
        running=running,
        attempt=failure.attempt if failure else 0,
        error=failure.message if failure else "",
        next_try=controls.moment(failure.next_try) if failure and not running else None,
    )
    return (head,)


def details(state: LifecycleState, step: Next) -> str:
    """Return the Markdown that the Temporal UI shows as the workflow's current details."""
    lines = [f"**{phase(state).value}** · {step_text(step)}"]
    if state.version:
        lines.append(f"version {state.version}")
    if state.control.held:
        held = state.control.held
        lines.append(
            f"held at {held.step} ({held.reason or held.cause.value}): request retry, rollback, skip or resume"
        )
    if step.hold is Hold.BREAKPOINT:
        lines.append(f"breakpoint before {step.blocked}: request resume")
    if state.control.breakpoints:
        lines.append(f"breakpoints before {', '.join(one.value for one in state.control.breakpoints)}")
    if state.control.rejected and state.control.target:
        wish, target = state.control.rejected, state.control.target
        version = wish.source.version if wish.source else "?"
        lines.append(f"{target.text} instead of {version}, rejected: {wish.reason} {wish.step}".rstrip())
    if state.failure:
        lines.append(f"{state.failure.step} failed ({state.failure.reason}), attempt {state.failure.attempt}")
    return "  \n".join(lines)


def _condition(condition: cond.Condition) -> ConditionStatus:
    return ConditionStatus(
        type=condition.type.value,
        status=condition.status.value,
        observed_generation=condition.observed_generation,
        last_transition_time=controls.moment(condition.since),
        reason=condition.reason,
        message=condition.message[:MESSAGE_CAP],
    )


def _drift(drift: DriftState) -> DriftStatus | None:
    if not drift.total and not drift.unwatched:
        return None
    differences = [
        DriftDifference(
            kind=one.kind,
            namespace=one.namespace or None,
            name=one.name,
            path=one.path or None,
            change=one.change.value,
            manager=one.manager or None,
        )
        for one in drift.differences
    ]
    return DriftStatus(
        total=drift.total, digest=drift.digest, differences=differences, unwatched=drift.unwatched or None
    )


def _failure(state: LifecycleState) -> FailureStatus | None:
    failure = state.failure or queue_failure(state)
    if failure is None:
        return None
    return FailureStatus(
        step=failure.step,
        reason=failure.reason,
        message=failure.message,
        hint=failure.hint or None,
        actor=Actor(failure.actor) if failure.actor else None,
        attempt=failure.attempt,
        next_try=_next_try(state) if failure is state.failure else controls.moment(failure.next_try),
    )


def _next_try(state: LifecycleState) -> datetime | None:
    """Return when the failed step is tried again by itself; what waits for an action is not."""
    if state.failure is None or state.control.held is not None:
        return None
    return controls.moment(state.failure.next_try)


def _why_held(state: LifecycleState, step: Next, *, first: bool) -> str:
    if first and state.control.held is not None:
        return state.control.held.cause.value
    return Cause.BREAKPOINT.value if step.step in state.control.breakpoints else ""
