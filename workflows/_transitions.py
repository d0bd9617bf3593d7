"""How a lifecycle's state moves: pure functions from one `LifecycleState` to the next.

`domain.lifecycle.transitions` says what a step teaches about the package; here is what that means for everything else
that is carried: conditions, failures, notes, actions. Time and chance come in as arguments.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from windlass.contracts.failures import FailureDetails
    from windlass.contracts.lifecycle import Action, EventNote, Failure, HookQueue, LifecycleState
    from windlass.contracts.objects import ACTIONS_KEPT, ActionRecord, SeenStatus
    from windlass.contracts.status import queue_failure, with_ready
    from windlass.contracts.steps import EventsResult, Observation, Performed, Restored
    from windlass.domain.backoff import delay
    from windlass.domain.errors import Actor, Category, Reason
    from windlass.domain.lifecycle import conditions as cond
    from windlass.domain.lifecycle import losses, policy
    from windlass.domain.lifecycle.changes import Event, classify
    from windlass.domain.lifecycle.effects import on_done, on_skip, removal_hint
    from windlass.domain.lifecycle.policy import Cause, Control, Good, Held, Rejected
    from windlass.domain.lifecycle.steps import CONDITION_OF, Desired, Hold, Next, Progress, Step, in_place
    from windlass.domain.lifecycle.transitions import Result, begin_removal, done
    from windlass.domain.lifecycle.transitions import events_ran as ran

OBSERVE = "Observe"
"""The name under which a failed look at the object appears among the failures."""

FORGIVING = frozenset({Event.REMOVED, Event.VERSION_CHANGED, Event.SCHEDULE_CHANGED})
"""Changes after which a failure is about something that is no longer wanted."""

NOTES_KEPT = 10


def changed(state: LifecycleState, changes: tuple[cond.Change, ...], now: float) -> LifecycleState:
    """Return ``state`` with changed conditions."""
    conditions = cond.apply(state.conditions, changes, generation=state.desired.generation, now=now)
    return state.model_copy(update={"conditions": conditions})


def noted(state: LifecycleState, reason: str, note: str, now: float, *, warning: bool = False) -> LifecycleState:
    """Return ``state`` with one more Event to record."""
    event = EventNote(type="Warning" if warning else "Normal", reason=reason, note=note, at=now)
    return state.model_copy(update={"notes": (*state.notes, event)[-NOTES_KEPT:]})


def requested(state: LifecycleState, name: str, action: Action, now: float, *, detail: str = "") -> LifecycleState:
    """Return ``state`` with an accepted order of a person among the kept ones.

    ``detail`` says what the action is about, as in ``pause before UpgradeRelease``.
    """
    record = ActionRecord(
        action=name,
        uid=action.uid or None,
        detail=detail or None,
        who=action.who,
        why=action.why,
        at=datetime.fromtimestamp(int(now), UTC),
    )
    # The uid of an ActionRequest is among them before the action takes effect.
    others = [one for one in state.actions if not action.uid or one.uid != action.uid]
    state = state.model_copy(update={"actions": (*others, record)[-ACTIONS_KEPT:]})
    why = f": {action.why}" if action.why else ""
    return noted(state, f"{name.capitalize()}Requested", f"{action.who} requested {record.text}{why}", now)


def observed(state: LifecycleState, found: Observation, now: float) -> LifecycleState:
    """Return ``state`` after a look at the object: what is wanted now, and what that does to a failure."""
    if not state.progress.owner and state.desired.exists and state.desired.uid != found.desired.uid:
        state = _of_another_life(state, now)
    before = state
    control = policy.renewed(before.control, before.desired, found.desired)
    event = classify(before.wanted, policy.effective(found.desired, control))
    failure = before.failure
    if failure is not None:
        placed = failure.step == Step.PLACE and in_place(found.desired, before.progress)
        if failure.step == OBSERVE or event in FORGIVING or placed:
            failure = None
        elif before.seen != found.seen:
            # What failed with another wish does not speak against this one.
            strikes = failure.strikes if event is Event.NONE else 0
            failure = failure.model_copy(update={"next_try": 0.0, "strikes": strikes})
    state = state.model_copy(
        update={
            "desired": found.desired,
            "seen": found.seen,
            "control": control,
            "failure": failure,
            "interruptions": state.interruptions if event is Event.NONE else None,
            "progress": begin_removal(found.desired, before.progress),
            # What runs after a change is another run, even of the same hook.
            "hook_run": before.hook_run if event is Event.NONE else "",
        }
    )
    if before.desired.suspended != found.desired.suspended:
        word = "Suspended" if found.desired.suspended else "Resumed"
        state = noted(state, word, "spec.suspend was changed", now)
    if before.failure is not None and before.failure.step == Step.PLACE and failure is None:
        state = changed(state, (cond.true(cond.Type.REQUIREMENTS_MET, "Met"),), now)
    return state


def restored(state: LifecycleState, found: Observation, now: float) -> LifecycleState:
    """Return ``state`` with what outlived an earlier workflow; for the first observation."""
    kept = found.restored or Restored()
    conditions = kept.conditions
    if not conditions:
        conditions = cond.initial(now)
        if kept.artifact is not None:  # pinned content skips the download, which is what says this
            met = cond.true(cond.Type.REQUIREMENTS_MET, "Met")
            conditions = cond.apply(conditions, [met], generation=found.desired.generation, now=now)
    return state.model_copy(
        update={
            "desired": found.desired,
            "progress": Progress(
                artifact=kept.artifact, released=kept.released, completed=kept.completed, placed=kept.placement
            ),
            "conditions": conditions,
            "actions": kept.actions,
            "paused": kept.paused,
            "record": kept.record,
            "version": kept.version,
            "release": kept.release,
            "control": kept.control,
            "known": kept.known,
        }
    )


def _of_another_life(state: LifecycleState, now: float) -> LifecycleState:
    # The object that was taken over from an earlier workflow was replaced before this one adopted it: what people said
    # of it, and what its runs have shown, is not true of the next. What lies in the cluster and on disk stays known.
    progress = replace(state.progress, completed="")
    return state.model_copy(update=_fresh(now) | {"progress": progress, "version": "", "release": None})


def _fresh(now: float) -> dict[str, object]:
    return {
        "conditions": cond.initial(now),
        "failure": None,
        "interruptions": None,
        "paused": False,
        "actions": (),
        "control": Control(),
        "adopting": None,
        "unrecorded": (),
        "quarantine": (),
    }


def folded(
    state: LifecycleState, step: Next, started: LifecycleState, performed: Performed, now: float
) -> tuple[LifecycleState, bool]:
    """Return ``state`` with what a successful step brought, and whether the object has to be looked at again.

    ``started`` is the state the step was begun in.
    """
    result = performed.result
    progress = done(step, started.wanted, state.progress, result)
    state = state.model_copy(update={"progress": progress, "record": performed.record, "hook_run": ""})
    if performed.release is not None:
        state = state.model_copy(update={"release": performed.release})
    state = state.model_copy(update={"interruptions": None})
    if performed.known is not None:
        state = state.model_copy(update={"known": performed.known, "adopting": None})
    if state.failure is not None and state.failure.step == step.label:
        state = state.model_copy(update={"failure": None})
    state, look_again = _after(state, step, started, performed, now)
    state = changed(state, on_done(step, progress, superseded=result.superseded), now)
    if step.step in {Step.UPGRADE_RELEASE, Step.AFTER_HELM} and progress.run.complete and not progress.run.skipped:
        state = _proved(state, now)
    state = state.model_copy(update={"control": policy.settled(state.control, progress)})
    free = replace(state.control, held=None)
    if policy.decide(state.desired, state.progress, free).step is Step.WAIT:
        state = state.model_copy(update={"control": free})  # there is no step left to be held at
    if performed.note:
        state = noted(state, step.step.value, performed.note, now)
    return state, look_again or result.superseded


def _after(
    state: LifecycleState, step: Next, started: LifecycleState, performed: Performed, now: float
) -> tuple[LifecycleState, bool]:
    """Return what the end of this very step does to the rest of the state."""
    result = performed.result
    fresh = _fresh(now)
    match step.step:
        case Step.ADOPT if started.progress.owner:
            return state.model_copy(update=fresh), False
        case Step.ADD_FINALIZER if state.desired.uid == started.desired.uid:
            return state.model_copy(update={"desired": replace(state.desired, finalizer=True)}), False
        case Step.UPGRADE_RELEASE if started.progress.artifact and not result.superseded:
            return state.model_copy(update={"version": started.progress.artifact.exact}), False
        case Step.APPLY_SETTINGS if result.settings != state.wanted.settings:
            return state, True  # the step read something newer than what was observed
        case Step.PLACE if started.desired.refused:
            return state, True  # the worker allows by now what it refused when the object was looked at
        case Step.UNINSTALL_RELEASE:
            # With the release goes what could be gone back to; the next one is a first installation again.
            before = state.control
            control = Control(held=before.held, breakpoints=before.breakpoints, passing=before.passing)
            return state.model_copy(update={"version": "", "release": None, "control": control}), False
        case Step.RELEASE_FINALIZER:
            gone = fresh | {"desired": Desired(), "notes": (), "seen": SeenStatus()}
            return state.model_copy(update=gone), True
        case _:
            return state, False


def _proved(state: LifecycleState, now: float) -> LifecycleState:
    """Return ``state`` with the release whose run has just ended among the good ones."""
    progress = state.progress
    if progress.artifact is None:
        return state
    revision = (state.release.revision if state.release else None) or 0
    good = Good(revision=revision, artifact=progress.artifact, settings=progress.settings, at=now)
    return state.model_copy(update={"control": policy.remember(state.control, good)})


def skipped(state: LifecycleState, step: Next, why: str, now: float) -> LifecycleState:
    """Return ``state`` as if ``step``, which failed, had done its work; its run does not count as a good one.

    ``why`` says who accepted that, and why.
    """
    run = replace(state.progress.run, skipped=True)
    state = state.model_copy(
        update={
            "progress": replace(state.progress, run=run),
            "control": replace(state.control, held=None, passing=None),
            "failure": None,
        }
    )
    result = Result(values=state.progress.values, unchanged=run.verify)
    state, _ = folded(state, step, state, Performed(result=result, record=state.record, release=state.release), now)
    return changed(state, on_skip(step, why), now)


def rolled_back(state: LifecycleState, rejected: Rejected, target: Good, now: float) -> LifecycleState:
    """Return ``state`` with a good release to go back to, instead of what the object asks for."""
    state = state.model_copy(
        update={"control": policy.reject(state.control, rejected, target), "failure": None, "hook_run": ""}
    )
    version = rejected.source.version if rejected.source else ""
    return noted(
        state, "RollingBack", f"{version} is given up ({rejected.reason}), back to {target.text}", now, warning=True
    )


def arrived(state: LifecycleState, step: Next, now: float) -> LifecycleState:
    """Return ``state`` with an Event for where the lifecycle has come to rest, if it was not there before."""
    before = cond.find(state.conditions, cond.Type.READY)
    after = cond.find(with_ready(state, step.hold, now), cond.Type.READY)
    if after.status is cond.Status.TRUE and before.status is not cond.Status.TRUE:
        state = state.model_copy(update={"passes": state.passes + 1})
        return noted(state, "Ready", f"version {state.version} is running", now)
    if (after.status, after.reason) == (before.status, before.reason):
        return state
    match step.hold:
        case Hold.ROLLED_BACK:
            return noted(state, "RolledBack", after.message, now, warning=True)
        case Hold.BREAKPOINT:
            return noted(state, "Breakpoint", f"holds before {step.blocked}", now)
        case _:
            return state


def failed(
    state: LifecycleState, label: str, step: Next | None, details: FailureDetails, now: float, *, chance: float
) -> LifecycleState:
    """Return ``state`` with a failure written down: its attempt, its next try, what it means for the conditions.

    ``chance`` in [0, 1) spreads the back-off.
    """
    if step is not None and state.progress.removing:
        details = details.model_copy(update={"hint": removal_hint(details.hint)})
    previous = state.failure
    again = previous is not None and previous.step == label
    failure = _failure(previous, label, details, now, chance=chance)
    category = _category(details)
    against = step is not None and policy.counts(step.step, details.reason, category)
    strikes = (previous.strikes if previous and again else 0) + int(against)
    failure = failure.model_copy(update={"strikes": strikes})
    state = state.model_copy(update={"failure": failure})
    if step is not None:
        state = state.model_copy(update={"interruptions": None})
        state = changed(state, cond.of_failure(CONDITION_OF.get(step.step), details.reason, details.message), now)
        state = _foreign(_unlearned(state, step, details.reason), details.reason, now)
    if previous is None or not again or previous.reason != failure.reason:
        state = noted(state, failure.reason, f"{label}: {failure.message}", now, warning=True)
    if step is None or not against:
        return state
    return _judged(state, step, failure, now, permanent=category is Category.PERMANENT)


def interrupted(
    state: LifecycleState, label: str, details: FailureDetails, now: float, *, chance: float
) -> LifecycleState:
    """Return ``state`` after a step ended without an outcome: it is tried again, or held after too many lost workers.

    ``chance`` in [0, 1) spreads the tries.
    """
    lost = details.reason is Reason.WORKER_LOST
    found = losses.interrupted(state.interruptions, label, lost=lost, now=now, chance=chance)
    held = losses.hold(found, now)
    if held is None:
        return state.model_copy(update={"interruptions": found})
    failure = _lost_worker(found, held.message, now)
    control = replace(state.control, held=held)
    state = state.model_copy(update={"interruptions": None, "failure": failure, "control": control})
    condition = CONDITION_OF.get(policy.step_of(label))
    state = changed(state, cond.of_failure(condition, Reason.WORKER_LOST, held.message), now)
    return noted(state, Reason.WORKER_LOST.value, held.message, now, warning=True)


def _lost_worker(found: losses.Interruptions, message: str, now: float) -> Failure:
    return Failure(
        step=found.step,
        reason=Reason.WORKER_LOST.value,
        message=message,
        hint=losses.HINT,
        actor=Actor.ADMIN.value,
        attempt=found.lost,
        at=now,
    )


def _judged(state: LifecycleState, step: Next, failure: Failure, now: float, *, permanent: bool) -> LifecycleState:
    """Return ``state`` after the policy of the upgrade has decided about a failure."""
    before = state.control
    what = Held(step=failure.step, cause=Cause.FAILED, reason=failure.reason, message=failure.message, at=now)
    control = policy.judged(
        state.desired, state.progress, before, what, step.step, strikes=failure.strikes, permanent=permanent
    )
    if control.rejected is not None and control.target is not None and control.rejected is not before.rejected:
        return rolled_back(state, control.rejected, control.target, now)
    if control.held is not before.held:
        state = state.model_copy(update={"control": control})
        return noted(state, "Held", f"{failure.step} waits for retry, rollback or skip", now, warning=True)
    return state


def due_now(failure: Failure | None) -> Failure | None:
    """Return a failure whose next try is due."""
    return failure.model_copy(update={"next_try": 0.0}) if failure is not None else None


def events_failed(
    state: LifecycleState, queue: str, details: FailureDetails, now: float, *, chance: float
) -> LifecycleState:
    """Return ``state`` with the failure of a run of a hook queue, which holds up this queue and no other."""
    known = next((one for one in state.hook_queues if one.name == queue), HookQueue(name=queue))
    label = f"EventHook {queue}"
    if details.reason in losses.NO_FAILURES:
        return _events_interrupted(state, known, label, details, now, chance=chance)
    known = known.model_copy(update={"interruptions": None, "held": False})
    failure = _failure(known.failure, label, details, now, chance=chance)
    queues = _with_queue(state, known.model_copy(update={"failure": failure}))
    if known.failure is None or known.failure.reason != failure.reason:
        state = noted(state, failure.reason, f"{label}: {failure.message}", now, warning=True)
    state = with_hook_queues(state, queues, now)
    return _lost(state) if details.reason is Reason.STATE_LOST and not state.progress.removing else state


def _events_interrupted(
    state: LifecycleState, queue: HookQueue, label: str, details: FailureDetails, now: float, *, chance: float
) -> LifecycleState:
    """Return ``state`` after a run of a hook queue ended without an outcome; after too many lost workers it is held."""
    lost = details.reason is Reason.WORKER_LOST
    found = losses.interrupted(queue.interruptions, label, lost=lost, now=now, chance=chance)
    if found.lost < losses.LOSSES:
        return state.model_copy(
            update={"hook_queues": _with_queue(state, queue.model_copy(update={"interruptions": found}))}
        )
    message = losses.told(label, found.lost)
    failure = _lost_worker(found, message, now)
    queue = queue.model_copy(update={"interruptions": None, "failure": failure, "held": True})
    state = noted(state, Reason.WORKER_LOST.value, message, now, warning=True)
    return with_hook_queues(state, _with_queue(state, queue), now)


def _with_queue(state: LifecycleState, queue: HookQueue) -> tuple[HookQueue, ...]:
    return tuple(queue if one.name == queue.name else one for one in state.hook_queues)


def events_ran(state: LifecycleState, queue: str, result: EventsResult, now: float) -> LifecycleState:
    """Return ``state`` after a run of a hook queue that ended well."""
    progress = ran(state.progress, changed=result.changed, unsynchronized=result.unsynchronized)
    update = {"progress": progress, "record": result.record or state.record}
    state = with_hook_queues(state.model_copy(update=update), state.hook_queues, now)
    for report in result.reports:
        state = noted(state, "EventHook", f"{queue}: {report}", now, warning=True)
    return state


def with_hook_queues(state: LifecycleState, queues: tuple[HookQueue, ...], now: float) -> LifecycleState:
    """Return ``state`` with these queues, and with the condition that a failure of theirs sets."""
    state = state.model_copy(update={"hook_queues": queues})
    failure = queue_failure(state)
    if failure is not None:
        change = cond.false(cond.Type.HOOKS_PROCESSED, failure.reason, failure.message)
        return changed(state, (change,), now)
    known = cond.find(state.conditions, cond.Type.HOOKS_PROCESSED)
    failing = state.failure is not None or any(queue.failure is not None for queue in queues)
    if known.status is cond.Status.FALSE and state.progress.run.complete and not failing:
        return changed(state, (cond.true(cond.Type.HOOKS_PROCESSED, "Processed"),), now)
    return state


def tries_at(state: LifecycleState, label: str) -> float:
    """Return when the step with this label may be tried (seconds since the epoch), 0 for now."""
    failure, found = state.failure, state.interruptions
    failed = failure.next_try if failure is not None else 0.0
    return max(failed, found.next_try) if found is not None and found.step == label else failed


def attempt(state: LifecycleState) -> int:
    """Return how often the failing step has failed in a row."""
    return state.failure.attempt if state.failure else 0


def _failure(previous: Failure | None, label: str, details: FailureDetails, now: float, *, chance: float) -> Failure:
    count = previous.attempt + 1 if previous is not None and previous.step == label else 1
    return Failure(
        step=label,
        reason=details.reason.value,
        message=details.message,
        hint=details.hint,
        actor=details.actor.value if details.actor else "",
        attempt=count,
        at=now,
        next_try=now + delay(_category(details), count, chance=chance),
    )


def _category(details: FailureDetails) -> Category:
    # A look that was interrupted has not failed: the first tries after it do not wait.
    return Category.INTERRUPTED if details.reason in losses.NO_FAILURES else details.category


def _lost(state: LifecycleState) -> LifecycleState:
    # The state Secret is gone, and with it settings and patches: apply them, and run the hooks, anew.
    lost = replace(state.progress, installed="", settings_for="", completed="")
    control = replace(state.control, good=())  # what they were made from is gone as well
    return state.model_copy(update={"progress": lost, "record": None, "control": control})


def _foreign(state: LifecycleState, reason: Reason, now: float) -> LifecycleState:
    """Return ``state`` after a failure; what a person has accepted is taken over at the very next try or not at all."""
    if reason is not Reason.RELEASE_FOREIGN:
        return state
    state = state.model_copy(update={"adopting": None})
    if cond.find(state.conditions, cond.Type.IN_SYNC).status is not cond.Status.TRUE:
        return state
    return changed(state, cond.cleared((cond.Type.IN_SYNC,), reason=reason.value), now)


def _unlearned(state: LifecycleState, step: Next, reason: Reason) -> LifecycleState:
    """Forget what a failure has shown to be no longer so: the next try begins where it can be made so again."""
    progress = state.progress
    if progress.removing:
        return state
    if step.step is Step.LOAD or reason is Reason.DIGEST_MISMATCH:
        # The content in hand cannot be used: the repository is asked again.
        return state.model_copy(update={"progress": replace(progress, artifact=None)})
    if reason is Reason.STATE_LOST:
        return _lost(state)
    return state
