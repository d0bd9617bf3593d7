"""Lost workers: what a step, or another part of a package's work, that takes its process along leads to.

A step that reports nothing because its worker is gone may be the cause of that, or a bystander: everything that ran in
the process is lost with it. So the first loss is followed by another try at once, the second one after a random while,
which separates the suspects, and after the third one a person has to look. A step that was handed over, because its
worker was drained or lost its shard, has reported that: such a step is tried again and never counted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from windlass.domain.backoff import delay
from windlass.domain.errors import HANDED_OVER, Category, Reason
from windlass.domain.lifecycle.policy import Cause, Held

LOSSES: Final = 3
"""Lost workers in a row after which a step is held, and after which another part of the work is quarantined."""

SPREAD: Final = 10.0
"""Seconds within which the try after the second loss begins: most steps take less than one, so that suspects seldom
meet again."""

NO_FAILURES: Final = HANDED_OVER | {Reason.WORKER_LOST}
"""How a step ends that has not failed: it is tried again, and what it was about stands as it did."""


@dataclass(frozen=True, kw_only=True)
class Interruptions:
    """How often in a row one step ended without an outcome of its own.

    Attributes:
        step: its label.
        lost: times that its worker was lost.
        handed_over: times that its worker gave it away.
        next_try: when it is tried again, in seconds since the epoch.
    """

    step: str
    lost: int = 0
    handed_over: int = 0
    next_try: float = 0.0


def interrupted(before: Interruptions | None, step: str, *, lost: bool, now: float, chance: float) -> Interruptions:
    """Return the count after one more interruption of ``step``; those of another step are over.

    Args:
        before: the count so far.
        step: the step's label.
        lost: whether its worker was lost; otherwise it was handed over.
        now: seconds since the epoch.
        chance: a number in [0, 1) that spreads the tries of many packages.
    """
    known = before if before is not None and before.step == step else Interruptions(step=step)
    losses = known.lost + int(lost)
    handed_over = known.handed_over + int(not lost)
    if not lost:
        wait = delay(Category.INTERRUPTED, handed_over, chance=chance)
    else:
        wait = chance * SPREAD if losses > 1 else 0.0
    return Interruptions(step=step, lost=losses, handed_over=handed_over, next_try=now + wait)


def hold(found: Interruptions, now: float) -> Held | None:
    """Return where the lifecycle is held because of lost workers, None if the step is tried again."""
    if found.lost < LOSSES:
        return None
    return Held(
        step=found.step,
        cause=Cause.WORKER_LOST,
        reason=Reason.WORKER_LOST.value,
        message=told(found.step, found.lost),
        at=now,
    )


def told(step: str, lost: int) -> str:
    """Return what people read about a step that lost its worker ``lost`` times."""
    return f"{step} lost its worker {lost} times in a row and reported nothing; it is not tried again by itself"


HINT: Final = "see why the worker ended (its log, its memory limit), or change the object; then request `retry`"


type ChangeOfFaults = Callable[[Mapping[str, int]], dict[str, int]]


def with_fault(faults: Mapping[str, int], part: str) -> dict[str, int]:
    """Return the counts of a package after a process ended while ``part`` of the package's work was under way."""
    return {**faults, part: faults.get(part, 0) + 1}


def without_fault(faults: Mapping[str, int], part: str) -> dict[str, int]:
    """Return the counts of a package after ``part`` has done its work: it is no suspect any more."""
    return {name: count for name, count in faults.items() if name != part}


def quarantined(faults: Mapping[str, int], part: str) -> bool:
    """Say whether ``part`` of a package's work is not done any more."""
    return faults.get(part, 0) >= LOSSES
