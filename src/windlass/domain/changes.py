"""What a change of the desired state means for the step that is running."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from windlass.domain.lifecycle import Desired, Next, Progress, Scope


class Event(StrEnum):
    """What happened to the desired state (reference: deckhouse.md section 2.3)."""

    VERSION_CHANGED = "VersionChanged"
    REMOVED = "Removed"
    SCHEDULE_CHANGED = "ScheduleChanged"
    SETTINGS_CHANGED = "SettingsChanged"
    NONE = "None"


_CANCELS: Final = {
    Event.VERSION_CHANGED: frozenset(Scope),
    Event.REMOVED: frozenset(Scope),
    Event.SCHEDULE_CHANGED: frozenset({Scope.SCHEDULE}),
    Event.SETTINGS_CHANGED: frozenset({Scope.SETTINGS}),
    Event.NONE: frozenset[Scope](),
}


def classify(before: Desired, after: Desired) -> Event:
    """Say what changed; the strongest of several wins."""
    if (before.exists and not after.exists) or before.uid != after.uid or (after.deleting and not before.deleting):
        return Event.REMOVED
    if before.source != after.source:
        return Event.VERSION_CHANGED
    if before.suspended != after.suspended or before.delete_on_disable != after.delete_on_disable:
        return Event.SCHEDULE_CHANGED
    if before.settings != after.settings:
        return Event.SETTINGS_CHANGED
    return Event.NONE


def cancels(event: Event, running: Next, progress: Progress) -> bool:
    """Say whether ``event`` cancels the running step. A removal in flight is never started over."""
    if progress.removing:
        return False
    return running.scope in _CANCELS[event]
