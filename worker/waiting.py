"""Says what a slow start or stop waits for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from types import TracebackType
from typing import Final

import structlog

EVERY: Final = 3.0
"""Seconds between two lines of the log about one wait; shorter waits are not mentioned."""

_log = structlog.stdlib.get_logger(__name__)


@asynccontextmanager
async def explained(what: str, details: Callable[[], str] = str) -> AsyncGenerator[None]:
    """Log what the body waits for, and for how long, every few seconds for as long as it runs.

    Args:
        what: is waited for.
        details: says more at the moment it is asked; empty for nothing.
    """
    loop = asyncio.get_running_loop()
    began = loop.time()
    timer: asyncio.TimerHandle

    def tell() -> None:
        nonlocal timer
        timer = loop.call_later(EVERY, tell)
        more = details()
        _log.info("still waiting", what=what, seconds=round(loop.time() - began, 1), **({"on": more} if more else {}))

    timer = loop.call_later(EVERY, tell)
    try:
        yield
    finally:
        timer.cancel()


async def entered[T](stack: AsyncExitStack, what: str, context: AbstractAsyncContextManager[T]) -> T:
    """Enter ``context`` on ``stack``; a start or an end of it that takes long is explained."""
    async with explained(f"start: {what}"):
        value = await context.__aenter__()

    async def leave(
        kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        async with explained(f"stop: {what}"):
            return await context.__aexit__(kind, error, trace)

    stack.push_async_exit(leave)
    return value
