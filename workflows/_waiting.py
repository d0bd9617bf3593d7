"""Waiting for a moment, and for the end of a step."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from temporalio import workflow


async def wait(condition: Callable[[], bool], until: list[float], *, summary: str) -> None:
    """Wait for ``condition``, at the latest until the earliest of ``until`` (seconds since the epoch).

    ``summary`` is the timer's name in the Temporal UI.
    """
    if not until:
        await workflow.wait_condition(condition)
        return
    # Rounded up to what timers resolve: none fires a moment before what it is for.
    seconds = max(math.ceil((min(until) - workflow.time()) * 1000), 1) / 1000
    with contextlib.suppress(TimeoutError):
        await workflow.wait_condition(condition, timeout=timedelta(seconds=seconds), timeout_summary=summary)


async def stopped(task: asyncio.Task[Any]) -> None:
    """Cancel ``task``, if it is not done, and wait for its end."""
    if not task.done():
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
