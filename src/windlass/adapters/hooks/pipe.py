"""Reading a pipe without handing its descriptor to the event loop.

uvloop's `connect_read_pipe` closes the descriptor, and then the file object that it was given closes the same number
again. Whatever another thread has opened under that number in between is closed with it. Here the loop is only asked
when there is something to read, and the descriptor is closed once, by its owner.
"""

from __future__ import annotations

import asyncio
import os
from io import FileIO


class Pipe:
    """The read end of a pipe; its owner closes ``file``, after the last `read` has returned or was cancelled."""

    def __init__(self, file: FileIO) -> None:
        self._descriptor = file.fileno()
        os.set_blocking(self._descriptor, False)

    async def read(self, size: int) -> bytes:
        """Wait until there is something to read; return at most ``size`` bytes, none at the end."""
        await asyncio.sleep(0)  # who always finds something must not keep the loop to itself
        while True:
            try:
                return os.read(self._descriptor, size)
            except BlockingIOError:
                await self._readable()

    async def _readable(self) -> None:
        loop = asyncio.get_running_loop()
        readable = asyncio.Event()
        loop.add_reader(self._descriptor, readable.set)
        try:
            await readable.wait()
        finally:
            loop.remove_reader(self._descriptor)
