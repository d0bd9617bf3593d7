"""Keeps a long activity alive and lets it learn of its cancellation."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Final

from temporalio import activity

INTERVAL: Final = 1.0
"""Seconds between beats: a cancellation arrives with the answer to a beat, so this bounds how late it is noticed."""


@dataclass
class Beat:
    """What the beats carry: short text that the Temporal UI shows."""

    details: str = ""


@contextlib.asynccontextmanager
async def heartbeating(beat: Beat | None = None) -> AsyncGenerator[Beat]:
    """Send a heartbeat every second while the body runs.

    The first one goes after a second: most bodies end before, and a beat is a write in Temporal's database beside what
    they begin with.
    """
    beat = beat or Beat()

    async def keep_beating() -> None:
        while True:
            await asyncio.sleep(INTERVAL)
            activity.heartbeat(beat.details)

    task = asyncio.create_task(keep_beating())
    try:
        yield beat
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
