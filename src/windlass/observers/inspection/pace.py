"""How often each caller may ask."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Final

RATE: Final = 20.0
"""Requests a second that one caller may send for long."""

BURST: Final = 100
"""Requests that one caller may send at once: `windlass dump --queues` of a namespace with fifty packages."""

CALLERS: Final = 1000
"""Callers that are remembered; one that is forgotten starts with a full burst."""


class Pace:
    """A token bucket for each caller.

    Args:
        clock: monotonic seconds.
        rate: tokens a second.
        burst: tokens of a full bucket.
    """

    def __init__(self, clock: Callable[[], float], *, rate: float = RATE, burst: float = BURST) -> None:
        self._clock = clock
        self._rate = rate
        self._burst = float(burst)
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def admits(self, caller: str) -> bool:
        """Count one request; False if it is one too many, which is not counted."""
        now = self._clock()
        level, at = self._buckets.pop(caller, (self._burst, now))
        level = min(self._burst, level + (now - at) * self._rate)
        admitted = level >= 1.0
        self._buckets[caller] = (level - 1.0 if admitted else level, now)
        if len(self._buckets) > CALLERS:
            self._buckets.popitem(last=False)
        return admitted
