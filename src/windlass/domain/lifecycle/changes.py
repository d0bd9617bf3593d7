"""What a change of the desired state means for the step that is running."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from windlass.domain.lifecycle.steps import Desired, Next, Progress, Scope, Step


class Event(StrEnum):
    """What happened to the desired state (reference: deckhouse.md section 2.3)."""

    VERSION_CHANGED = "VersionChanged"
    REMOVED = "Removed"
    ABANDONED = "Abandoned"
    SCHEDULE_CHANGED = "ScheduleChanged"
    SETTINGS_CHANGED = "SettingsChanged"
    NONE = "None"


_CANCELS: Final = {
    Event.VERSION_CHANGED: frozenset(Scope),
    Event.REMOVED: frozenset(Scope),
    Event.SCHEDULE_CHANGED: frozenset({Scope.SCHEDULE}),
    Event.SETTINGS_CHANGED: frozenset({Scope.SETTINGS}),
    Event.ABANDONED: frozenset[Scope](),
    Event.NONE: frozenset[Scope](),
}

_TEARDOWN: Final = frozenset(
    {Step.LOAD, Step.BEFORE_DELETE_HELM, Step.UNINSTALL_RELEASE, Step.AFTER_DELETE_HELM},
)


def classify(before: Desired, after: Desired) -> Event:
    """Say what changed; the strongest of several wins."""
    if (before.exists and not after.exists) or before.uid != after.uid or (after.deleting and not before.deleting):
        return Event.REMOVED
    if after.deleting and after.abandon and not before.abandon:
        return Event.ABANDONED
    if before.source != after.source:
        return Event.VERSION_CHANGED
    if before.suspended != after.suspended or before.delete_on_disable != after.delete_on_disable:
        return Event.SCHEDULE_CHANGED
    if before.settings != after.settings or before.placement != after.placement or before.refused != after.refused:
        return Event.SETTINGS_CHANGED
    return Event.NONE


def cancels(event: Event, running: Next, progress: Progress) -> bool:
    """Say whether ``event`` cancels the running step.

    A removal in flight is never started over; abandoning it ends the teardown, which may hang, and no other step.
    """
    if progress.removing:
        return event is Event.ABANDONED and running.step in _TEARDOWN
    return running.scope in _CANCELS[event]
