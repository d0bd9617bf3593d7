"""The worker's end of the line to a runner.

A connection lives as long as its runner. When that ends, whatever was running there has ended too, since keepers keep
the line open until their run is over; the next request starts or finds another runner.
"""

from __future__ import annotations

import asyncio
import itertools
import socket
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, Protocol

import structlog

from windlass.adapters.hooks.cancellation import to_the_end
from windlass.adapters.runner.protocol import (
    Ended,
    ProtocolError,
    Request,
    decode_ended,
    encode_request,
    receive,
    send,
)

_HELLO_SECONDS: Final = 10.0
"""Seconds within which a runner must say hello; it takes 60 ms."""

_log = structlog.stdlib.get_logger(__name__)


class RunnerLostError(Exception):
    """The runner, or the keeper of the run, was ended; nothing of the run is left."""


class RunFailedError(Exception):
    """The run could not be started; the text is the system's."""


class Runner(Protocol):
    """A runner that was started or found."""

    @property
    def channel(self) -> socket.socket:
        """The connected socket."""
        ...

    async def close(self) -> None:
        """Close the socket; wait for the end of a process of our own."""
        ...


class _Connection:
    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._channel = runner.channel
        self._channel.setblocking(False)
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._hello: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._sending = asyncio.Lock()
        self.open = True
        asyncio.get_running_loop().add_reader(self._channel, self._readable)

    async def greeted(self) -> dict[str, Any]:
        async with asyncio.timeout(_HELLO_SECONDS):
            return await self._hello

    async def run(self, request: Request, files: Sequence[int], sent: Callable[[], None]) -> Ended:
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._waiting[request.number] = answer
        try:
            await to_the_end(self._send(encode_request(request), files))
            sent()
            await asyncio.wait([answer])
        except asyncio.CancelledError:
            await to_the_end(self._ended(request.number, answer))
            raise
        finally:
            self._waiting.pop(request.number, None)
            if answer.done() and not answer.cancelled():
                answer.exception()  # looked at, also when a cancel is told instead
        message = answer.result()
        if message.get("op") == "failed":
            raise RunFailedError(str(message.get("problem"))[:500])
        if message.get("op") != "ended":
            raise RunnerLostError
        try:
            return decode_ended(message, len(request.outputs))
        except ProtocolError as error:
            _log.warning("the runner of hooks says what it should not", field=str(error))
            await self.close()
            raise RunnerLostError from None

    async def close(self) -> None:
        self._lost()
        await self._runner.close()

    async def _ended(self, number: int, answer: asyncio.Future[dict[str, Any]]) -> None:
        if not answer.done():
            try:
                await self._send({"op": "end", "number": number})
            except RunnerLostError:
                return
            await asyncio.wait([answer])

    async def _send(self, message: dict[str, Any], files: Sequence[int] = ()) -> None:
        async with self._sending:
            while self.open:
                try:
                    send(self._channel, message, files)
                except BlockingIOError:
                    await self._writable()
                except OSError:
                    break
                else:
                    return
        self._lost()
        raise RunnerLostError

    async def _writable(self) -> None:
        loop = asyncio.get_running_loop()
        ready = asyncio.Event()
        loop.add_writer(self._channel, ready.set)
        try:
            await ready.wait()
        finally:
            if self.open:
                loop.remove_writer(self._channel)

    def _readable(self) -> None:
        try:
            received = receive(self._channel)
        except BlockingIOError:
            return
        except (OSError, ProtocolError) as error:
            _log.warning("line to the runner of hooks broken", error=str(error))
            received = None
        if received is None or received[1]:
            self._lost()
            return
        message = received[0]
        number = message.get("number")
        target = self._hello if message.get("op") == "hello" else self._waiting.get(number) if number else None
        if target is not None and not target.done():
            target.set_result(message)

    def _lost(self) -> None:
        if self.open:
            self.open = False
            asyncio.get_running_loop().remove_reader(self._channel)
            asyncio.get_running_loop().remove_writer(self._channel)
            for answer in (self._hello, *self._waiting.values()):
                if not answer.done():
                    answer.set_exception(RunnerLostError())


class Link:
    """Gives requests to a runner, and gets another one when it is lost.

    Args:
        start: starts or finds a runner.
    """

    def __init__(self, start: Callable[[], Awaitable[Runner]]) -> None:
        self._start = start
        self._numbers = itertools.count(1)
        self._connection: _Connection | None = None
        self._connecting = asyncio.Lock()

    def number(self) -> int:
        """Return a number for a request that no other has."""
        return next(self._numbers)

    async def connect(self) -> None:
        """Have a runner ready.

        Raises:
            OSError: it cannot be started, or there is none.
            RunnerLostError: it ended at once.
        """
        await self._connected()

    async def run(self, request: Request, files: Sequence[int], sent: Callable[[], None]) -> Ended:
        """Have a request carried out; a cancel ends the run, and returns when nothing of it is left.

        Args:
            request: what to run.
            files: of the request; see `windlass.adapters.runner.protocol`.
            sent: called when the runner has them, so that our copies can be closed.

        Raises:
            OSError: no runner can be started, or there is none.
            RunnerLostError: the runner ended meanwhile.
            RunFailedError: it could not start the process.
            ProtocolError: the request is too large.
        """
        connection = await self._connected()
        return await connection.run(request, files, sent)

    async def close(self) -> None:
        """End what runs, and the runner if it is ours."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    async def _connected(self) -> _Connection:
        async with self._connecting:
            if self._connection is not None and self._connection.open:
                return self._connection
            if self._connection is not None:
                _log.warning("the runner of hooks has ended; it is started again")
                await self.close()
            connection = _Connection(await self._start())
            try:
                hello = await connection.greeted()
            except BaseException:  # whatever ends the greeting, a cancel too: the process just started must not stay
                await to_the_end(connection.close())
                raise
            self._connection = connection
            _tell(hello)
            return connection


def _tell(hello: dict[str, Any]) -> None:
    told = {name: hello.get(name) for name in ("users", "landlock", "cgroups")}
    if problem := hello.get("problem"):
        _log.error("hooks cannot be run", problem=str(problem)[:500], **told)
    else:
        _log.info("runner of hooks started", **told)
