"""Waiting for something to become true, with a deadline and a telling failure."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import Final

PATIENCE: Final = 60.0
"""Seconds after which a wait is given up, generous enough for a machine that is busy with other things. A test names
another number only where what it waits for takes longer by itself, or would come too late of its own accord."""

SOON: Final = 30.0
"""Seconds for what has to end because it was told to, where by itself it would take minutes. How long it takes on an
idle machine is a figure of `bench/`, not of a test."""

_NOTHING = object()


async def eventually[T](
    predicate: Callable[[], T] | Callable[[], Awaitable[T]],
    deadline: float = PATIENCE,
    *,
    every: float = 0.05,
    what: str = "",
) -> T:
    """Return the first true value of ``predicate``, asked again and again.

    An exception counts as "not yet". The predicate is always asked at least once, and once more at the deadline.

    Args:
        predicate: plain or async function without arguments.
        deadline: seconds from now.
        every: seconds between two questions.
        what: what is awaited, for the failure text; the predicate's name when empty.

    Raises:
        AssertionError: nothing true was seen in time; the text holds the last observation or exception.
    """
    ends = time.monotonic() + deadline
    while True:
        last_round = time.monotonic() >= ends
        observed: object = _NOTHING
        error: Exception | None = None
        try:
            async with asyncio.timeout(max(ends - time.monotonic(), every)):
                answer = predicate()
                value = await answer if inspect.isawaitable(answer) else answer
        except Exception as raised:  # noqa: BLE001 - whatever it is, it is what the failure must show
            error = raised
        else:
            if value:
                return value  # type: ignore[return-value]  # inspect.isawaitable does not narrow a union of callables
            observed = value
        if last_round:
            raise AssertionError(_failure(what or _name(predicate), deadline, observed, error)) from error
        await asyncio.sleep(every)


def eventually_sync[T](
    predicate: Callable[[], T], deadline: float = PATIENCE, *, every: float = 0.05, what: str = ""
) -> T:
    """As `eventually`, for tests without an event loop."""
    ends = time.monotonic() + deadline
    while True:
        last_round = time.monotonic() >= ends
        observed: object = _NOTHING
        error: Exception | None = None
        try:
            value = predicate()
        except Exception as raised:  # noqa: BLE001 - whatever it is, it is what the failure must show
            error = raised
        else:
            if value:
                return value
            observed = value
        if last_round:
            raise AssertionError(_failure(what or _name(predicate), deadline, observed, error)) from error
        # A blocking test has nothing to wait on; the deadline above bounds it.
        time.sleep(every)


def _name(predicate: Callable[[], object]) -> str:
    return getattr(predicate, "__qualname__", repr(predicate))


def _failure(what: str, deadline: float, observed: object, error: Exception | None) -> str:
    last = f"last it raised {type(error).__name__}: {error}" if error is not None else f"last it returned {observed!r}"
    return f"not true within {deadline:g} s: {what}; {last}"
