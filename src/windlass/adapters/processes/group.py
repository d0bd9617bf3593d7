"""Processes in groups of their own: killed as a whole, always awaited."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import Final

_TAIL: Final = 8 * 1024


class Tail:
    """Drains a stream and keeps its last 8 KiB, so that a chatty process neither blocks nor fills memory."""

    def __init__(self, stream: asyncio.StreamReader) -> None:
        self._kept = b""
        self._task = asyncio.create_task(self._drain(stream))

    async def _drain(self, stream: asyncio.StreamReader) -> None:
        while chunk := await stream.read(_TAIL):
            self._kept = (self._kept + chunk)[-_TAIL:]

    async def text(self) -> str:
        """Wait for the end of the stream and return what was kept."""
        await self._task
        return self._kept.decode(errors="replace").strip()


def kill_group(process: asyncio.subprocess.Process) -> None:
    """Send SIGKILL to the process and everything in its group; fine if it has ended."""
    if process.returncode is None:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            return


async def finish(process: asyncio.subprocess.Process, tail: Tail) -> str:
    """Kill the group and wait until the process has ended, however often the caller is cancelled meanwhile.

    Returns what the process last wrote to the drained stream.
    """
    kill_group(process)
    ending = asyncio.ensure_future(_ended(process, tail))
    cancelled: asyncio.CancelledError | None = None
    while not ending.done():
        try:
            await asyncio.shield(ending)
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
    return ending.result()


async def _ended(process: asyncio.subprocess.Process, tail: Tail) -> str:
    await process.wait()
    return await tail.text()
