"""Pipes that a hook writes into: each descriptor has one owner here, which closes it once."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

from windlass.adapters.hooks.cancellation import to_the_end
from windlass.adapters.hooks.output import CHUNK, Sink

_DRAIN: Final = 0.2  # seconds for what is left in a pipe once the run is over


class WriteEnd:
    """The end of a pipe that is given away; closed by `close`, at the latest when its `pumped` block ends."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    def close(self) -> None:
        """Close our copy: the reader then sees the end when the hook's copies are closed."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1


@asynccontextmanager
async def pumped(sink: Sink) -> AsyncGenerator[WriteEnd]:
    """Make a pipe and give what is written into it to ``sink``, which is closed at the end.

    Raises:
        OSError: the process has no descriptor left.
    """
    source, target = os.pipe()
    os.set_blocking(source, False)
    end = WriteEnd(target)
    pumping = asyncio.create_task(_pump(source, sink))
    try:
        yield end
    finally:
        end.close()
        await to_the_end(_drain(pumping, source))


async def _drain(pumping: asyncio.Task[None], source: int) -> None:
    # Somebody may hold the pipe open for ever: what has been written by now is all we read.
    await asyncio.wait([pumping], timeout=_DRAIN)
    pumping.cancel()
    await asyncio.wait([pumping])
    os.close(source)
    if not pumping.cancelled() and (error := pumping.exception()) is not None:
        raise error


async def _pump(source: int, sink: Sink) -> None:
    try:
        while chunk := await _read(source):
            await sink.feed(chunk)
    finally:
        await sink.close()


async def _read(source: int) -> bytes:
    await asyncio.sleep(0)  # a hook that floods its pipe must not keep the loop
    while True:
        try:
            return os.read(source, CHUNK)
        except BlockingIOError:
            await _readable(source)


async def _readable(source: int) -> None:
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(source, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(source)
