"""Conditions that are absent until there is something to say: `Quarantined` and `SourceRefused`."""

from __future__ import annotations

from temporalio import workflow

from windlass.workflows._transitions import changed, noted

with workflow.unsafe.imports_passed_through():
    from windlass.contracts.lifecycle import LifecycleState, Quarantined
    from windlass.contracts.status import MESSAGE_CAP
    from windlass.domain.lifecycle import conditions as cond
    from windlass.domain.lifecycle.effects import on_served

SOURCES_KEPT = 4
"""Kinds of processes that can say that a part is broken: worker, watcher and two pools."""


def quarantined(state: LifecycleState, message: Quarantined, now: float) -> LifecycleState:
    """Return ``state`` that says which parts of the package are broken; unchanged if it says so already."""
    reported = [one for one in state.quarantine if one.source != message.source]
    if message.parts:
        reported.append(message)
    reported = sorted(reported, key=lambda one: one.source)[:SOURCES_KEPT]
    state = state.model_copy(update={"quarantine": tuple(reported)})
    parts = [part for one in reported for part in one.parts]
    before = cond.find(state.conditions, cond.Type.QUARANTINED)
    if not parts:
        if before.status is not cond.Status.TRUE:
            return state
        state = changed(state, (cond.false(cond.Type.QUARANTINED, "Working"),), now)
        return noted(state, "QuarantineEnded", "all parts work again", now)
    text = "; ".join(f"{part.part}: {part.cause}" for part in parts)
    change = cond.Change(
        type=cond.Type.QUARANTINED,
        status=cond.Status.TRUE,
        reason="PartFailed",
        message=f"{text}; tried again with back-off"[:MESSAGE_CAP],
    )
    if (before.status, before.message) == (change.status, change.message):
        return state
    return noted(changed(state, (change,), now), "Quarantined", change.message, now, warning=True)


def served(state: LifecycleState, now: float) -> LifecycleState:
    """Return ``state`` that says whether the repository of the package refuses it."""
    change = on_served(state.desired, state.conditions)
    if change is None:
        return state
    refused = change.status is cond.Status.TRUE
    note = change.message or "the repository serves this package again"
    return noted(
        changed(state, (change,), now), "SourceRefused" if refused else "SourceServed", note, now, warning=refused
    )
