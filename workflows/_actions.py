"""What actions of people do to a lifecycle's state: pure functions from a state to the next one and an answer.

An action that changes nothing is refused and says why; one that is accepted is kept with who asked for it and why.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from temporalio import workflow

from windlass.workflows import _transitions as moves

with workflow.unsafe.imports_passed_through():
    from windlass.contracts.lifecycle import (
        Action,
        AdoptAction,
        LifecycleState,
        PauseAction,
        ResumeAction,
        RollbackAction,
    )
    from windlass.contracts.status import decided
    from windlass.domain.errors import Reason
    from windlass.domain.lifecycle import policy
    from windlass.domain.lifecycle.policy import Cause, Control, Good, Held, Rejected
    from windlass.domain.lifecycle.steps import Hold, Next, Step, next_step

_FINAL = frozenset({Step.ADOPT, Step.ADD_FINALIZER, Step.CLEAN_UP, Step.RELEASE_FINALIZER, Step.STOP, Step.ROLL_BACK})
"""Steps too short or too near the end of a removal to be cancelled."""


@dataclass(frozen=True, kw_only=True)
class Answered:
    """The state after an action, whether it was accepted, what to say, and whether the running step has to stop."""

    state: LifecycleState
    message: str
    accepted: bool = True
    interrupt: bool = False
    look_again: bool = False


def retry(state: LifecycleState, action: Action, now: float) -> Answered:
    """Try the failed step again now; what was rejected is brought about again."""
    control, failure = state.control, state.failure
    if failure is not None:
        state = state.model_copy(update={"failure": failure.model_copy(update={"next_try": 0.0})})
        return _freed(state, action, "retry", now, f"{failure.step} is tried again")
    if control.held is not None:
        return _freed(state, action, "retry", now, f"{control.held.step} is tried again")
    if control.target is None:
        return _refused(state, "nothing has failed")
    wish = control.rejected.source if control.rejected else None
    state = state.model_copy(update={"control": policy.released(control), "hook_run": ""})
    state = moves.requested(state, "retry", action, now)
    return Answered(
        state=state, message=f"{wish.version if wish else 'the object'} is tried again", interrupt=True, look_again=True
    )


def adopt(state: LifecycleState, action: AdoptAction, now: float) -> Answered:
    """Take over the release records that somebody else wrote, and go on from there."""
    failure = state.failure
    if failure is None or failure.reason != Reason.RELEASE_FOREIGN.value:
        return _refused(state, "there is nothing to adopt: nobody else has written records of the release")
    due = moves.due_now(failure)
    state = state.model_copy(update={"adopting": action.fingerprint, "failure": due})
    return _freed(state, action, "adopt", now, f"the records are taken over, and {failure.step} is tried again")


def retry_all(state: LifecycleState, action: Action, now: float) -> Answered:
    """Try again what has failed: the step, the rejected version, or else hook queues."""
    answered = retry(state, action, now)
    failed = [queue for queue in state.hook_queues if queue.failure is not None]
    if answered.accepted or not failed:
        return answered
    for queue in failed:
        due = queue.model_copy(update={"failure": moves.due_now(queue.failure), "held": False})
        queues = tuple(due if one.name == queue.name else one for one in state.hook_queues)
        state = moves.with_hook_queues(state, queues, now)
    names = ", ".join(queue.failure.step for queue in failed if queue.failure is not None)
    return Answered(state=moves.requested(state, "retry", action, now), message=f"{names} is tried again")


def pause(state: LifecycleState, action: PauseAction, now: float) -> Answered:
    """Begin no further step, or none of those that the action names."""
    if not action.before:
        if state.paused:
            return _refused(state, "already paused")
        state = moves.requested(state.model_copy(update={"paused": True}), "pause", action, now)
        return Answered(state=state, message="no further step is begun")
    steps: list[Step] = []
    for name in action.before:
        step = policy.breakpoint_of(name)
        if step is None:
            return _refused(state, f"there is no step {name!r} to hold before; there are {', '.join(policy.BREAKABLE)}")
        if step not in (*state.control.breakpoints, *steps):
            steps.append(step)
    if not steps:
        return _refused(state, "these breakpoints are set already")
    control = replace(state.control, breakpoints=(*state.control.breakpoints, *steps))
    names = ", ".join(step.value for step in steps)
    state = state.model_copy(update={"control": control})
    state = moves.requested(state, "pause", action, now, detail=f"before {names}")
    return Answered(state=state, message=f"the lifecycle holds before {names}")


def resume(state: LifecycleState, action: ResumeAction, now: float) -> Answered:
    """Go on: drop the pause, the hold after a cancellation, or the breakpoint that holds now; or all of them."""
    control = state.control
    held, here = control.held, decided(state)
    failed = held is not None and held.cause is not Cause.CANCELLED
    if action.everything and (state.paused or control.breakpoints or (held is not None and not failed)):
        control = replace(control, breakpoints=(), held=held if failed else None)
        message = "going on, without breakpoints"
    elif state.paused:
        message = "going on"
    elif held is not None and not failed:
        control = replace(control, held=None)
        message = f"going on with {here.blocked or held.step}"
    elif here.hold is Hold.BREAKPOINT:
        reached = next_step(state.wanted, state.progress).step
        control = replace(control, breakpoints=tuple(one for one in control.breakpoints if one is not reached))
        message = f"going on with {here.blocked}"
    elif held is not None:
        if held.cause is Cause.WORKER_LOST:
            return _refused(state, f"{held.step} lost its worker and is held: request retry")
        return _refused(state, f"{held.step} failed and is held: request retry, rollback or skip")
    elif control.breakpoints:
        names = ", ".join(step.value for step in control.breakpoints)
        return _refused(state, f"no breakpoint is reached; `--all` drops those before {names}")
    else:
        return _refused(state, "not paused")
    state = moves.requested(state.model_copy(update={"paused": False, "control": control}), "resume", action, now)
    return Answered(state=state, message=message, look_again=True)


def cancel(state: LifecycleState, action: Action, now: float, *, running: Next | None) -> Answered:
    """Stop the running step, or the tries of the failed one, and hold there."""
    if state.control.held is not None:
        return _refused(state, f"already held at {state.control.held.step}")
    step = running or decided(state)
    if step.step in {Step.WAIT, Step.FINISH}:
        return _refused(state, "nothing is running")
    if step.step in _FINAL:
        return _refused(state, f"{step.label} cannot be cancelled: it is done at once, and others rely on its order")
    message = f"cancelled by {action.who}: {action.why}".removesuffix(": ")
    held = Held(step=step.label, cause=Cause.CANCELLED, reason=Cause.CANCELLED.value, message=message, at=now)
    state = state.model_copy(update={"control": replace(state.control, held=held)})
    state = moves.requested(state, "cancel", action, now, detail=step.step.value)
    doing = "is being stopped" if running else "is not tried any more"
    return Answered(state=state, message=f"{step.label} {doing}; the lifecycle holds there", interrupt=True)


def skip(state: LifecycleState, action: Action, now: float, *, running: Next | None) -> Answered:
    """Go on as if the failed step had done its work, if that makes sense."""
    held, failure = state.control.held, state.failure
    if running is not None:
        return _refused(state, f"{running.label} is running: request cancel first")
    step = next_step(state.wanted, state.progress)
    failed = held.step if held else failure.step if failure else ""
    if not failed:
        return _refused(state, "nothing has failed")
    if step.label != failed and held is None:
        return _refused(state, f"{failed} is not the next step, {step.label} is: request retry")
    why_not = policy.why_not_skipped(policy.step_of(failed), failure.reason if failure else "", held)
    if why_not:
        return _refused(state, f"{failed} cannot be skipped: {why_not}")
    state = moves.requested(state, "skip", action, now, detail=failed)
    why = f"{action.who} accepted it: {action.why}".removesuffix(": ")
    if held is None or step.label == failed:
        return Answered(state=moves.skipped(state, step, why, now), message=f"{failed} is passed over")
    # The hold outlived its workflow: the run begins anew, and comes to the step again.
    state = state.model_copy(update={"control": policy.passed_over(state.control, state.progress, held, why)})
    return Answered(
        state=state,
        message=f"going on with {step.label}; {failed} is passed over when it is reached",
        look_again=True,
    )


def rollback(state: LifecycleState, action: RollbackAction, now: float) -> Answered:
    """Go back to a good release and stay there until the object asks for something else, or the action retry."""
    control, desired = state.control, state.desired
    if not desired.exists or desired.deleting or state.progress.removing:
        return _refused(state, "the package is being removed")
    if action.to is None:
        if control.target is not None:
            return _refused(state, f"{control.target.text} is kept already; `--to` names another: {_known(control)}")
        target = policy.last_good(control, desired)
        if target is None:
            return _refused(state, "there is no good release to go back to")
    else:
        target = policy.good_revision(control, action.to)
        if target is None:
            return _refused(state, f"revision {action.to} is no good release; there are: {_known(control)}")
        if control.target is not None and control.target.mark == target.mark:
            return _refused(state, f"{target.text} is kept already")
        if (target.artifact.source, target.settings) == (desired.source, desired.settings):
            return _refused(state, f"{target.text} is what the object asks for: request retry, or wait for it")
    return _back(state, action, target, now)


def _back(state: LifecycleState, action: RollbackAction, target: Good, now: float) -> Answered:
    rejected = Rejected(
        source=state.desired.source,
        settings=state.desired.settings,
        reason="Requested",
        message=f"{action.who} requested rollback: {action.why}".removesuffix(": "),
        at=now,
    )
    state = moves.requested(state, "rollback", action, now, detail=f"to {target.text}")
    state = moves.rolled_back(state, rejected, target, now)
    return Answered(state=state, message=f"going back to {target.text}", interrupt=True, look_again=True)


def _freed(state: LifecycleState, action: Action, name: str, now: float, message: str) -> Answered:
    state = state.model_copy(update={"control": replace(state.control, held=None)})
    return Answered(state=moves.requested(state, name, action, now), message=message, look_again=True)


def _refused(state: LifecycleState, message: str) -> Answered:
    return Answered(state=state, message=message, accepted=False)


def _known(control: Control) -> str:
    return ", ".join(f"{good.revision} ({good.artifact.exact})" for good in control.good) or "none"
