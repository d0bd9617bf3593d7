"""Keeps a long activity alive and lets it learn of its cancellation."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Final

from temporalio import activity

from windlass.temporal.failures import WAITING

INTERVAL: Final = 1.0
"""Seconds between beats: a cancellation arrives with the answer to a beat, so this bounds how late it is noticed."""


@dataclass
class Beat:
    """What the beats carry: short text that the Temporal UI shows.

    ``waiting`` says that the activity opens nothing now: it waits for its turn, for another process, or for a rollout.
    If its worker is lost meanwhile, that does not count against it (`windlass.domain.lifecycle.losses`).
    """

    details: str = ""
    waiting: bool = False


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
            activity.heartbeat(beat.details, *((WAITING,) if beat.waiting else ()))

    task = asyncio.create_task(keep_beating())
    try:
        yield beat
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
