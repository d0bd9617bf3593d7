"""Loops over everything that let other work run in between."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Iterable
from typing import Final

SLICE: Final = 0.005
"""Seconds that a loop may keep the event loop to itself: well below the 15 ms from an event to its hook that
design.md section 8 asks for."""


async def paced[T](items: Iterable[T]) -> AsyncGenerator[T]:
    """Yield ``items``, and let other tasks run whenever `SLICE` is used up.

    ``items`` may be changed by those tasks: pass a copy of a collection that lives.
    """
    began = time.monotonic()
    for item in items:
        yield item
        if time.monotonic() - began > SLICE:
            await asyncio.sleep(0)
            began = time.monotonic()
