"""How drift moves a lifecycle's state: pure functions beside those of `windlass.workflows._transitions`.

Drift is taken in at rest only: while a run is under way, its release settles what was told. Objects that are gone are
put back by a run that verifies the release; changed fields by the step `CheckDrift`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from temporalio import workflow

from windlass.workflows import _transitions as moves

with workflow.unsafe.imports_passed_through():
    from windlass.contracts.lifecycle import DriftState, LifecycleState, ReleaseDrifted
    from windlass.contracts.steps import DriftResult, Performed
    from windlass.domain.drift.comparison import (
        DIFFERENCES_KEPT,
        RELEASE_KIND,
        WINDOW,
        Change,
        Difference,
        Mode,
        held,
        remembered,
    )
    from windlass.domain.lifecycle import conditions as cond
    from windlass.domain.lifecycle.deadlines import compares
    from windlass.domain.lifecycle.steps import Next, Run, Scope, Step

AGAIN = 60.0
"""Seconds until objects that could not be compared are compared again."""

SHOWN = 3
"""Differences that a condition's message names."""


def told(state: LifecycleState, message: ReleaseDrifted) -> LifecycleState:
    """Return ``state`` with what was told of, not looked at yet."""
    before = state.drift.told if state.drift.revision == message.revision else ()
    objects = tuple(dict.fromkeys((*before, *message.objects)))[:DIFFERENCES_KEPT]
    return _with(state, told=objects, revision=message.revision, due=True)


def taken_in(state: LifecycleState, now: float) -> LifecycleState:
    """Return ``state`` in which what was told, or is due, has become the next thing to do if it can be done now."""
    state = _policy_noticed(state, now)
    drift = state.drift
    if not drift.due and not (drift.again_at and now >= drift.again_at):
        return state
    if _given_up(state):
        return _with(state, told=(), due=False, again_at=0.0)
    if not drift.due and not may_compare(state):
        return state  # when what holds the lifecycle is over, it is compared at once
    if not state.progress.run.complete:
        return state
    if drift.due and (state.release is None or state.release.revision != drift.revision):
        return _with(state, told=(), due=False)  # the new revision is looked after anew
    if state.paused:
        return _reported(state, drift.told, now)
    state = _with(state, told=(), due=False, again_at=0.0)
    fights = held(drift.corrections, now)
    lost = [one for one in drift.told if _needs_release(state, one) and one.field not in fights]
    if not lost:
        return state.model_copy(update={"progress": replace(state.progress, check_drift=True)})
    names = _listed([f"{one.subject} {one.change.value}" for one in lost])
    state = moves.noted(state, "DriftDetected", f"{names}: put back", now, warning=True)
    state = _with(state, corrections=remembered(drift.corrections, [one.field for one in lost], now))
    run = Run(trigger=Scope.RUN, verify=True)
    return state.model_copy(update={"progress": replace(state.progress, run=run)})


def may_compare(state: LifecycleState) -> bool:
    """Say whether a comparison that is due would be done now."""
    return compares(state.desired, state.progress, state.control, paused=state.paused)


def folded(state: LifecycleState, step: Next, performed: Performed, now: float) -> LifecycleState:
    """Return ``state`` with what a successful step says about drift."""
    if step.step is Step.CHECK_DRIFT and performed.drift is not None:
        return _checked(state, performed.drift, now)
    if step.step is Step.UPGRADE_RELEASE and state.progress.run.complete and state.desired.drift.mode is not Mode.OFF:
        unknown = cond.find(state.conditions, cond.Type.IN_SYNC).status is cond.Status.UNKNOWN
        if not performed.result.unchanged or unknown:
            # Helm has just written what the manifest sets; what it could not, the next comparison tells.
            state = _with(state, differences=(), total=0, digest="", again_at=0.0)
            return moves.changed(state, (cond.true(cond.Type.IN_SYNC, "InSync"),), now)
    if step.step is Step.UNINSTALL_RELEASE:
        return state.model_copy(update={"drift": DriftState(policy=state.drift.policy)})
    return state


def _policy_noticed(state: LifecycleState, now: float) -> LifecycleState:
    """Return ``state`` after a change of the policy: it is compared anew, or nothing is said of drift any more."""
    policy = state.desired.drift
    if policy == state.drift.policy or not state.desired.exists:
        return state
    state = _with(state, policy=policy)
    if policy.mode is Mode.OFF:
        state = state.model_copy(update={"drift": DriftState(policy=policy)})
        return moves.changed(state, cond.cleared((cond.Type.IN_SYNC,), reason="DriftOff"), now)
    if state.progress.released is None:
        return state
    return state.model_copy(update={"progress": replace(state.progress, check_drift=True)})


def _needs_release(state: LifecycleState, one: Difference) -> bool:
    """Say whether it takes a release to put this back, and whether it is to be put back."""
    policy = state.desired.drift
    if one.kind == RELEASE_KIND and one.change is not Change.ABSENT:
        return policy.corrects
    return one.change is Change.ABSENT and policy.restores


def _given_up(state: LifecycleState) -> bool:
    """Say whether the release is not looked after any more."""
    progress = state.progress
    return progress.removing or not progress.active or state.desired.drift.mode is Mode.OFF


def _checked(state: LifecycleState, found: DriftResult, now: float) -> LifecycleState:
    """Return ``state`` after a comparison."""
    news = found.digest != state.drift.digest
    corrections = remembered(state.drift.corrections, [one.field for one in found.corrected], now)
    fights = held(corrections, now)
    corrects = state.desired.drift.corrects
    fought = [one for one in found.differences if one.field in fights and (corrects or _needs_release(state, one))]
    again = [fights[one.field] for one in fought] + ([now + AGAIN] if found.unclear else [])
    state = _with(
        state,
        differences=found.differences,
        total=found.total,
        digest=found.digest,
        corrections=corrections,
        again_at=min(again, default=0.0),
    )
    if found.corrected:
        names = _listed([_by(one) for one in found.corrected])
        state = moves.noted(state, "DriftCorrected", f"put back: {names}", now)
    state = moves.changed(state, (_condition(state, found, fought),), now)
    condition = cond.find(state.conditions, cond.Type.IN_SYNC)
    if found.differences and news:
        state = moves.noted(state, condition.reason, condition.message, now, warning=True)
    release = state.release
    lost = tuple(one for one in found.differences if _needs_release(state, one) and one.field not in fights)
    if not lost or release is None:
        return state
    progress = replace(state.progress, check_drift=False)
    state = state.model_copy(update={"progress": progress})
    return taken_in(_with(state, told=lost, revision=release.revision or 0, due=True), now)


def _condition(state: LifecycleState, found: DriftResult, fought: Sequence[Difference]) -> cond.Change:
    if fought:
        names = _listed([_by(one) for one in fought])
        text = f"{names}: put back again and again, now left alone for up to {WINDOW / 60:.0f} min"
        return cond.false(cond.Type.IN_SYNC, "DriftFighting", text)
    if found.differences:
        held_back = "spec.maintenance is set: nothing is put back" if state.desired.drift.maintenance else ""
        return cond.false(cond.Type.IN_SYNC, "DriftDetected", _message(found.differences, found.total, held_back))
    if found.unclear:
        return cond.Change(
            type=cond.Type.IN_SYNC,
            status=cond.Status.UNKNOWN,
            reason="CheckFailed",
            message=f"not compared: {_listed(found.unclear)}",
        )
    if found.corrected:
        return cond.Change(
            type=cond.Type.IN_SYNC,
            status=cond.Status.TRUE,
            reason="DriftCorrected",
            message=f"put back: {_listed([_by(one) for one in found.corrected])}",
        )
    return cond.true(cond.Type.IN_SYNC, "InSync")


def _reported(state: LifecycleState, objects: Sequence[Difference], now: float) -> LifecycleState:
    """Return ``state`` that says what was told of without having looked."""
    if not objects:
        return state
    text = _message(objects, len(objects), "nothing is put back while the lifecycle is paused")
    change = cond.false(cond.Type.IN_SYNC, "DriftDetected", text)
    before = cond.find(state.conditions, cond.Type.IN_SYNC)
    if (before.reason, before.message) == (change.reason, change.message):
        return state
    state = moves.changed(state, (change,), now)
    return moves.noted(state, change.reason, change.message, now, warning=True)


def _message(differences: Sequence[Difference], total: int, why: str) -> str:
    names = [f"{_by(one)} {one.change.value}" for one in differences[:SHOWN]]
    more = f" and {total - len(names)} more" if total > len(names) else ""
    return f"{', '.join(names)}{more}" + (f"; {why}" if why else "")


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more


def _by(one: Difference) -> str:
    return f"{one.subject} (by {one.manager})" if one.manager else one.subject


def _with(state: LifecycleState, **changes: object) -> LifecycleState:
    return state.model_copy(update={"drift": state.drift.model_copy(update=changes)})
