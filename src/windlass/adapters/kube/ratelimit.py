"""A token bucket: so many requests a second, and a burst on top."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

type Sleep = Callable[[float], Awaitable[None]]


class TokenBucket:
    """Hands out one token per request, in the order of arrival.

    The level may go below zero: who comes then has reserved a future token and sleeps until it is there. So waiting
    needs no queue, and a caller that is cancelled gives its token back.

    Args:
        rate: tokens a second.
        burst: tokens that may be taken at once after a rest.
        clock: monotonic seconds.
        sleep: suspends for so many seconds.
    """

    def __init__(self, rate: float, burst: int, *, clock: Callable[[], float], sleep: Sleep = asyncio.sleep) -> None:
        if rate <= 0 or burst < 1:
            raise ValueError(f"rate must be above 0 and burst at least 1, not {rate} and {burst}")
        self._rate = rate
        self._burst = burst
        self._clock = clock
        self._sleep = sleep
        self._level = float(burst)
        self._at = clock()

    async def take(self) -> None:
        """Return as soon as a request may be sent."""
        now = self._clock()
        self._level = min(self._burst, self._level + (now - self._at) * self._rate)
        self._at = now
        self._level -= 1
        if self._level >= 0:
            return
        try:
            await self._sleep(-self._level / self._rate)
        except asyncio.CancelledError:
            self._level += 1
            raise
