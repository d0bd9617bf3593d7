"""How long a step will take: from how long it took before."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from datetime import timedelta
from typing import Final, NamedTuple

DEFAULT: Final = timedelta(minutes=5)
"""Of a step that nobody has taken before: Helm's own time-out for a release to become ready."""

SHORTEST: Final = timedelta(seconds=1)
"""Status carries whole seconds."""


class PastStep(NamedTuple):
    """A step that was taken.

    Attributes:
        start: template before it; empty for an installation.
        end: template after it.
        duration: from the new version being written to its being deployed.
    """

    start: str
    end: str
    duration: timedelta


class Prediction(NamedTuple):
    """How long a step will take; ``samples`` is how many past ones say so, 0 for the default."""

    duration: timedelta
    samples: int


class Predictions:
    """The median of each step's past durations; a default for steps without a past."""

    def __init__(self, past: Iterable[PastStep] = (), default: timedelta = DEFAULT) -> None:
        """Take what was measured, in any order. No step is predicted to take less than `SHORTEST`."""
        grouped: dict[tuple[str, str], list[timedelta]] = {}
        for step in past:
            grouped.setdefault((step.start, step.end), []).append(step.duration)
        self._known = {step: Prediction(max(_median(taken), SHORTEST), len(taken)) for step, taken in grouped.items()}
        self._default = Prediction(max(default, SHORTEST), 0)

    def of(self, start: str, end: str) -> Prediction:
        """Return how long the step from one template to another will take; ``start`` is empty for an installation."""
        return self._known.get((start, end), self._default)


def _median(durations: Iterable[timedelta]) -> timedelta:
    return timedelta(seconds=statistics.median(one.total_seconds() for one in durations))
