"""Cleaning up in spite of cancels."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any


async def to_the_end[T](work: Coroutine[Any, Any, T]) -> T:
    """Await ``work`` until it is done, however often the caller is cancelled meanwhile.

    A cancel is delivered afterwards, in place of the result. `asyncio.shield` alone returns at once and leaves the work
    running behind.
    """
    task = asyncio.create_task(work)
    cancel: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancel = error
    if cancel is not None and not task.cancelled():
        raise cancel from task.exception()
    return task.result()
