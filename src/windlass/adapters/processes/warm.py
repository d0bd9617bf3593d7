"""A small pool of warm child processes, each working on one request at a time: a line out, a line back.

A child that was cancelled, ran out of time or crashed is killed and awaited before control returns, and the next
request that needs it starts a new one.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Self

from windlass.adapters.processes.group import Tail, finish
from windlass.adapters.processes.warm_child import READY


class ChildDiedError(Exception):
    """The child ended before it answered; ``first_line`` is the beginning of what it last wrote to stderr."""

    def __init__(self, last: str) -> None:
        # A Go crash prints its cause first and then stacks; nothing below the first line helps a reader of conditions.
        self.first_line = last.partition("\n")[0][:500] or "no message"
        super().__init__(self.first_line)


class _Child:
    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None  # noqa: S101 - asked for as a pipe
        assert process.stdout is not None  # noqa: S101 - the same
        assert process.stderr is not None  # noqa: S101 - the same
        self._process = process
        self._stdin = process.stdin
        self._stdout = process.stdout
        self._tail = Tail(process.stderr)
        self._ready = False

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        # The event loop learns of an end a little later than the kernel.
        if self._process.returncode is not None:
            return False
        try:
            return os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
        except ChildProcessError:
            return False

    async def ask(self, request: bytes, seconds: float | None) -> bytes:
        try:
            if not self._ready:
                self._ready = await self._stdout.readline() == READY
            async with asyncio.timeout(seconds):
                self._stdin.write(request)
                await self._stdin.drain()
                reply = await self._stdout.readline()
        except ConnectionError:
            reply = b""
        if not reply.endswith(b"\n"):
            raise ChildDiedError(await self.kill())
        return reply

    async def kill(self) -> str:
        self._stdin.close()
        return await finish(self._process, self._tail)


class WarmChildren:
    """At most ``size`` children that run ``python -m <module> <pid of this process>``.

    Enter it on the event loop that uses it. A child writes `READY`, then answers each request, in order.

    Args:
        module: what a child runs; it must end with its parent (`windlass.adapters.processes.leash`).
        size: children, and so requests at a time; the others wait their turn.
        environment: the whole environment of a child.
        reply_limit: bytes of one reply line.
    """

    def __init__(self, module: str, *, size: int, environment: Mapping[str, str], reply_limit: int) -> None:
        self._module = module
        self._size = size
        self._environment = environment
        self._reply_limit = reply_limit
        self._slots = asyncio.Semaphore(size)
        self._idle: list[_Child] = []
        self._busy: set[_Child] = set()

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as undo:
            undo.push_async_callback(self._close)
            for _ in range(self._size):
                self._idle.append(await self._start())
            undo.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._close()

    @property
    def busy(self) -> tuple[int, ...]:
        """Process ids of the children that work on a request now."""
        return tuple(child.pid for child in self._busy)

    async def ask(self, request: bytes, *, seconds: float | None = None) -> bytes:
        """Send one request, which ends its lines itself, and return the reply line.

        Cancelling kills the child and returns once that has ended.

        Args:
            request: what the child reads from stdin.
            seconds: how long a ready child may take; waiting for one does not count.

        Raises:
            ChildDiedError: the child ended instead of answering.
            TimeoutError: it took longer than ``seconds`` and was killed.
        """
        async with self._slots:
            child = await self._take()
            self._busy.add(child)
            answered = False
            try:
                reply = await child.ask(request, seconds)
                answered = True
            finally:
                self._busy.discard(child)
                if answered:
                    self._idle.append(child)
                else:
                    await child.kill()
            return reply

    async def _take(self) -> _Child:
        while self._idle:
            child = self._idle.pop()
            if child.alive:
                return child
            await child.kill()
        return await self._start()

    async def _start(self) -> _Child:
        """Start a child without waiting until it has loaded its library."""
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-I",
            "-m",
            self._module,
            str(os.getpid()),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=dict(self._environment),
            start_new_session=True,
            limit=self._reply_limit,
        )
        return _Child(process)

    async def _close(self) -> None:
        children = [*self._idle, *self._busy]
        self._idle.clear()
        await asyncio.gather(*(child.kill() for child in children))
