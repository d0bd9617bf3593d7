"""How long a key waits before it is tried again: the limiter that client-go's controllers have by default.

The larger of two waits counts: one that doubles with each failure of the key, and one of a token bucket that all keys
share. Nothing here limits how often a key is tried (frameworks.md section 2.3: no retry limit, no dead letter).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Final

BASE: Final = 0.005
"""Seconds after the first failure of a key."""

CAP: Final = 1000.0
"""Seconds after so many failures that doubling would give more."""

RATE: Final = 10.0
"""Retries a second, all keys together, once the burst is spent."""

BURST: Final = 100
"""Retries that the shared bucket lets through at once."""

_DOUBLINGS: Final = 64  # 0.005 * 2**18 is past the cap; a larger exponent would only make a larger number


class RateLimiter[K: Hashable]:
    """The wait before the next try of a key.

    Args:
        clock: monotonic seconds.
        base: seconds after the first failure.
        cap: seconds at most after any number of failures.
        rate: retries a second of all keys together.
        burst: retries that may come at once.
    """

    def __init__(
        self,
        clock: Callable[[], float],
        *,
        base: float = BASE,
        cap: float = CAP,
        rate: float = RATE,
        burst: int = BURST,
    ) -> None:
        self._clock = clock
        self._base, self._cap, self._rate, self._burst = base, cap, rate, burst
        self._failures: dict[K, int] = {}
        self._tokens = float(burst)
        self._counted_at = clock()

    def when(self, key: K) -> float:
        """Count a failure of ``key``; return the seconds until it may be tried again."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        return max(min(self._base * 2 ** min(failures, _DOUBLINGS), self._cap), self._reserve())

    def failures(self, key: K) -> int:
        """Return how often ``key`` has failed since it was last forgotten."""
        return self._failures.get(key, 0)

    def forget(self, key: K) -> None:
        """Start again at zero failures; what was taken from the shared bucket stays taken."""
        self._failures.pop(key, None)

    def _reserve(self) -> float:
        now = self._clock()
        self._tokens = min(self._burst, self._tokens + (now - self._counted_at) * self._rate)
        self._counted_at = now
        self._tokens -= 1
        return 0.0 if self._tokens >= 0 else -self._tokens / self._rate
