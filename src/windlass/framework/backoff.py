"""How long to wait before the next try, and trying. The numbers are those of operatorkit (cenkalti/backoff v1)."""

from __future__ import annotations

import asyncio
import random  # noqa: TID251 - jitter; pure callers pass a draw of their own
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final, Protocol

INITIAL: Final = 0.5
"""Seconds before the first retry, before jitter."""

FACTOR: Final = 1.5
JITTER: Final = 0.5
"""A wait is drawn from ±50 % around its nominal value."""

CAP: Final = 60.0
"""Seconds that no nominal wait exceeds."""

MAX_ELAPSED: Final = 15 * 60.0
"""Seconds after which `ExponentialBackOff` stops unless told otherwise."""

MAX_RETRIES: Final = 7
"""Retries of `default_backoff_factory`: eight attempts, and about 16 s of waits."""


class BackOff(Protocol):
    """The waits of one operation that is tried again and again."""

    def reset(self) -> None:
        """Begin anew."""
        ...

    def next(self) -> float | None:
        """Return the seconds until the next try, None when it is time to stop."""
        ...


type BackOffFactory = Callable[[], BackOff]


def _spread() -> float:
    return random.random()  # noqa: S311 - spreads load, protects nothing


@dataclass(kw_only=True)
class ExponentialBackOff:
    """Waits that grow by a factor up to a cap, spread by jitter.

    Attributes:
        max_elapsed: seconds since `reset` after which it stops; None for never.
        max_retries: waits it gives out before it stops; None for any number.
        chance: draws a number in [0, 1) for the jitter.
        clock: monotonic seconds.
    """

    initial: float = INITIAL
    factor: float = FACTOR
    jitter: float = JITTER
    cap: float = CAP
    max_elapsed: float | None = MAX_ELAPSED
    max_retries: int | None = None
    chance: Callable[[], float] = _spread
    clock: Callable[[], float] = time.monotonic
    _retries: int = field(default=0, init=False)
    _nominal: float = field(default=0.0, init=False)
    _began: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Begin anew: full budget, first wait, time from now."""
        self._retries = 0
        self._nominal = self.initial
        self._began = self.clock()

    def next(self) -> float | None:
        """Return the seconds until the next try; None when retries or time are used up."""
        if self.max_retries is not None and self._retries >= self.max_retries:
            return None
        wait = self._nominal * (1 + self.jitter * (2 * self.chance() - 1))
        if self.max_elapsed is not None and self.clock() - self._began > self.max_elapsed:
            return None
        self._retries += 1
        self._nominal = min(self._nominal * self.factor, self.cap)
        return wait


def default_backoff_factory() -> BackOffFactory:
    """Return a factory of back-offs: 7 retries, however long they take.

    (contract: DefaultBackOffFactory; frameworks.md section 1.9)

    The nominal waits are 0.5, 0.75, 1.125, 1.69, 2.53, 3.80 and 5.70 s, each spread by ±50 %.
    """
    return lambda: ExponentialBackOff(max_elapsed=None, max_retries=MAX_RETRIES)


def never(error: Exception) -> bool:
    """Say of no error that it is for good."""
    del error
    return False


async def retry[T](
    operation: Callable[[], Awaitable[T]],
    backoff: BackOff,
    *,
    notify: Callable[[Exception, float], None],
    for_good: Callable[[Exception], bool] = never,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> T:
    """Call ``operation`` until it succeeds; return its value. Cancelling the task ends it at once.

    Args:
        operation: what is tried.
        backoff: reset at the start.
        notify: called with the error and the seconds before each wait, and not when there will be none.
        for_good: whether another try is useless after this error.
        sleep: waits.

    Raises:
        Exception: the last error, when the back-off stops or it is for good.
    """
    backoff.reset()
    while True:
        try:
            return await operation()
        except Exception as error:  # it is the operator's code that runs here: any error may come and is raised again
            wait = None if for_good(error) else backoff.next()
            if wait is None:
                raise
            notify(error, wait)
        await sleep(wait)
