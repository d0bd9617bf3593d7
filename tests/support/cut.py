"""A wire that can be cut: a TCP proxy on a port of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress


class Wire:
    """Leads to a loopback port until it is cut, and again when it is mended."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.port = 0

    async def mend(self) -> None:
        """Let connections through, on the same port as before."""
        self._server = await asyncio.start_server(self._lead, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def cut(self) -> None:
        """End every connection and refuse new ones."""
        if self._server is not None:
            self._server.close()
            self._server.abort_clients()  # who has just come in is in no set yet
            self._server = None
        for writer in tuple(self._open):
            writer.transport.abort()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _lead(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there, back = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:
            writer.transport.abort()
            return
        if writer.transport.is_closing():  # cut meanwhile
            back.transport.abort()
            return
        self._open |= {writer, back}
        for source, sink in ((reader, back), (there, writer)):
            task = asyncio.create_task(self._pump(source, sink))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, OSError):
            while data := await source.read(65536):
                sink.write(data)
                await sink.drain()
        self._open.discard(sink)
        sink.close()


@asynccontextmanager
async def wire(target: int) -> AsyncIterator[Wire]:
    """Give a wire to ``target`` that is whole."""
    made = Wire(target)
    await made.mend()
    try:
        yield made
    finally:
        await made.cut()
