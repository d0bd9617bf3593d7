"""What acts next while a lifecycle rests, and when.

A timer that fires for nobody is set again at once, for ever. So there is one place that knows every time at which a
resting lifecycle has something to do, and a time counts only if what it calls for would be done then.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from windlass.domain.lifecycle.policy import Control, decide
from windlass.domain.lifecycle.steps import Desired, Hold, Next, Progress, Step


class Acts(StrEnum):
    """What is done at a deadline."""

    LOOK = "look at the object"
    WRITE = "write the status"
    TRY = "try the step"
    COMPARE = "compare the objects"


@dataclass(frozen=True, kw_only=True)
class Deadline:
    """``at`` is in seconds since the epoch."""

    at: float
    acts: Acts


@dataclass(frozen=True, kw_only=True)
class Agenda:
    """Every time that is known; seconds since the epoch, None for never.

    Attributes:
        look: when to look at the object again, if something says that it is new.
        write: when to try again a write of the status that failed.
        tries: when the failed, or interrupted, step is tried again.
        compare: when to compare the release's objects again.
    """

    look: float | None = None
    write: float | None = None
    tries: float | None = None
    compare: float | None = None


def compares(desired: Desired, progress: Progress, control: Control, *, paused: bool) -> bool:
    """Say whether a comparison that is due now would be the next step."""
    due = replace(progress, check_drift=True)
    return decide(desired, due, control, paused=paused).step is Step.CHECK_DRIFT


def next_deadline(agenda: Agenda, step: Next, *, compares: bool, now: float) -> Deadline | None:
    """Return the next time at which something is done, None if only news can end the rest.

    What was due at ``now`` has been done: whoever asks acts first. So no time at or before ``now`` is returned, and a
    rest cannot turn into a loop.

    Args:
        agenda: every time that is known.
        step: why nothing is done; the next try of a step counts only while it is what is waited for.
        compares: whether a comparison would be the next step (`compares`).
        now: when what was due was done, in seconds since the epoch.
    """
    known = (
        (agenda.look, Acts.LOOK),
        (agenda.write, Acts.WRITE),
        (agenda.tries if step.hold is Hold.BACKOFF else None, Acts.TRY),
        (agenda.compare if compares else None, Acts.COMPARE),
    )
    later = [Deadline(at=at, acts=acts) for at, acts in known if at is not None and at > now]
    return min(later, key=lambda one: one.at, default=None)
