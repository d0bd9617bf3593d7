"""A small pool of warm child processes, each working on one order at a time.

A child that was cancelled, ran out of time or crashed is killed and awaited before control returns, and the next order
that needs it starts a new one.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Final, Self

from windlass.adapters.helm.process import Tail, finish
from windlass.adapters.helm.protocol import MAX_REPLY, READY, Order, Reply
from windlass.domain.errors import Reason, TransientError

_MODULE: Final = "windlass.adapters.helm.child"
_COLLECT_LATER: Final = {"GOGC": "400", "GOMEMLIMIT": "100MiB"}
"""Go's garbage collector in the children. Measured with 100 releases of 3 objects: upgrades take 4.5 instead of 6.5 CPU
seconds, installs 3.0 instead of 3.5; a child then holds 52 instead of 37 MB of its own."""


class Child:
    """One child process."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None  # noqa: S101 - both were asked for as pipes
        assert process.stdout is not None  # noqa: S101
        assert process.stderr is not None  # noqa: S101
        self._process = process
        self._stdin = process.stdin
        self._stdout = process.stdout
        self._tail = Tail(process.stderr)
        self._ready = False

    @classmethod
    async def start(cls, environment: Mapping[str, str]) -> Self:
        """Start a child without waiting until it has loaded the library (0.2 s)."""
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-I",
            "-m",
            _MODULE,
            str(os.getpid()),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**environment, **_COLLECT_LATER},
            process_group=0,
            limit=MAX_REPLY,
        )
        return cls(process)

    @property
    def pid(self) -> int:
        """The process id, which is also the id of its group."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether the process is still running, as far as is known."""
        return self._process.returncode is None

    async def ask(self, order: Order) -> Reply:
        """Send an order and wait for its reply.

        Raises:
            TransientError: APPLY_MANIFESTS_FAILED, the child died; the next attempt gets another one.
        """
        try:
            if not self._ready:
                self._ready = await self._stdout.readline() == READY
            self._stdin.write(order.line())
            await self._stdin.drain()
            line = await self._stdout.readline()
        except ConnectionError:
            line = b""
        if not line.endswith(b"\n"):
            last = await self.kill()
            raise TransientError(
                Reason.APPLY_MANIFESTS_FAILED,
                f"the Helm process died during {order.operation} of release {order.name} in {order.namespace}: "
                f"{_first_line(last)}",
                hint="it is tried again with a new process",
            )
        return Reply.parse(line)

    async def kill(self) -> str:
        """Kill the child's group and wait for its end; returns the last it wrote to stderr."""
        self._stdin.close()
        return await finish(self._process, self._tail)


def _first_line(text: str) -> str:
    # A Go crash prints its cause first and then stacks; nothing below the first line helps a reader of conditions.
    return text.partition("\n")[0][:500] or "no message"


class ChildPool:
    """Runs orders in at most ``size`` children. Enter it on the event loop that uses it."""

    def __init__(self, size: int, environment: Mapping[str, str]) -> None:
        self._size = size
        self._environment = environment
        self._slots = asyncio.Semaphore(size)
        self._idle: list[Child] = []
        self._busy: set[Child] = set()

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as undo:
            undo.push_async_callback(self._close)
            for _ in range(self._size):
                self._idle.append(await Child.start(self._environment))
            undo.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._close()

    async def _close(self) -> None:
        children = [*self._idle, *self._busy]
        self._idle.clear()
        await asyncio.gather(*(child.kill() for child in children))

    @property
    def busy(self) -> tuple[int, ...]:
        """Process ids of the children that work on an order now."""
        return tuple(child.pid for child in self._busy)

    async def run(self, order: Order) -> Reply:
        """Run one order; cancelling kills its child and returns once that has ended.

        Raises:
            TransientError: as `Child.ask`.
        """
        async with self._slots:
            child = await self._take()
            self._busy.add(child)
            answered = False
            try:
                reply = await child.ask(order)
                answered = True
            finally:
                self._busy.discard(child)
                if answered:
                    self._idle.append(child)
                else:
                    await child.kill()
            return reply

    async def _take(self) -> Child:
        while self._idle:
            child = self._idle.pop()
            if child.alive:
                return child
            await child.kill()
        return await Child.start(self._environment)
