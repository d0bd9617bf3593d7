"""One process group: started, watched, and gone when control returns."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import Final

import structlog

from windlass.adapters.hooks.cancellation import to_the_end
from windlass.adapters.hooks.gate import Command, Gate, Gates
from windlass.adapters.hooks.guard import Guard
from windlass.adapters.hooks.output import Sink, pump
from windlass.adapters.hooks.pipe import Pipe
from windlass.adapters.hooks.spawn import Spawned
from windlass.adapters.hooks.strays import kill_strays

TIMEOUT_GRACE: Final = 3.0
"""Seconds between SIGTERM and SIGKILL after a time-out."""

CANCEL_GRACE: Final = 1.0
"""Seconds between SIGTERM and SIGKILL after a cancel, and for what a hook leaves behind when it ends."""

_DRAIN: Final = 0.2  # seconds for what is left in the pipes once the group is gone
_FIRST_PAUSE: Final = 0.005  # seconds between looks at a group, doubled each time
_LONGEST_PAUSE: Final = 0.1  # seconds; a look reads /proc
_STUCK: Final = 5.0  # seconds after SIGKILL before the log says that the kernel holds a process

_ROUNDS: Final = 100  # looks for processes that have left the group; each kills what the last one's victims began

_SHELL_STATUS: Final = {126: " (cannot be executed: is its executable bit set?)", 127: " (a program was not found)"}


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How a process ended; ``status`` is its exit status, or the signal's number made negative.

    ``duration`` is in seconds; ``left_behind`` says that other processes that it had started had to be ended.
    """

    status: int
    duration: float
    timed_out: bool
    left_behind: bool

    def __str__(self) -> str:
        if self.status >= 0:
            return f"exit status {self.status}{_SHELL_STATUS.get(self.status, '')}"
        return f"killed by {signal.Signals(-self.status).name}"


async def run_group(
    command: Command, *, gates: Gates, guard: Guard, stdout: Sink, stderr: Sink, time_limit: float
) -> Ended:
    """Run ``command`` in a session of its own until it ends or ``time_limit`` seconds are over.

    Control returns when no process of the group is alive: after the end of the command, after a time-out, and also
    when the caller is cancelled. Processes that have moved to another session are killed then. One that has put away
    its environment too is out of reach, but cannot hold up the return by keeping the pipes open.

    Raises:
        OSError: the system cannot start another process.
        TransientError: the guard has just been killed.
    """
    await guard.ensure()
    with gates.taken() as gate:
        async with _pumped(gate.given(gate.stdout), stdout), _pumped(gate.given(gate.stderr), stderr):
            return await _supervise(gate, command, guard, time_limit)


async def _supervise(gate: Gate, command: Command, guard: Guard, time_limit: float) -> Ended:
    process = gate.process
    loop = asyncio.get_running_loop()
    started = loop.time()
    grace = CANCEL_GRACE
    timed_out = False
    left_behind = False
    try:
        guard.watch(process.pid)
        gate.open(command)
        async with asyncio.timeout(time_limit):
            await process.wait()
    except TimeoutError:
        grace, timed_out = TIMEOUT_GRACE, True
    finally:
        left_behind = await to_the_end(_end_group(process, guard, grace, str(command.home)))
    return Ended(
        status=process.returncode or 0,
        duration=loop.time() - started,
        timed_out=timed_out,
        left_behind=left_behind and not timed_out,
    )


async def _end_group(process: Spawned, guard: Guard, grace: float, home: str) -> bool:
    """End whatever still runs in the group and wait until it is gone; say whether there was anything.

    What has left the group is killed without grace: it has shown that it does not want to be told.
    """
    group = process.pid
    left_behind = process.returncode is None or _alive(group)
    if left_behind:
        _send(group, signal.SIGTERM)
        if not await _gone(process, grace):
            _send(group, signal.SIGKILL)
            while not await _gone(process, _STUCK):
                structlog.get_logger().warning("killed process does not end, the kernel holds it", group=group)
                _send(group, signal.SIGKILL)
    for _ in range(_ROUNDS):
        if not kill_strays(home, group):
            break
        left_behind = True
        await asyncio.sleep(0)
    else:
        structlog.get_logger().warning("processes that left the hook's group multiply faster than they are killed")
    guard.forget(group)
    return left_behind


async def _gone(process: Spawned, within: float) -> bool:
    """Look until the group is gone or ``within`` seconds are over; only its leader is our child and tells us itself."""
    loop = asyncio.get_running_loop()
    end = loop.time() + within
    pause = _FIRST_PAUSE
    while process.returncode is None or _alive(process.pid):
        if loop.time() >= end:
            return False
        await asyncio.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)
    return True


def _send(group: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, number)


def _alive(group: int) -> bool:
    """Say whether the group has a member that is not a zombie.

    Orphans become zombies until process 1 reaps them, which in a container may be nobody: they count as gone.
    """
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return any(_is_live_member(stat, group) for stat in Path("/proc").glob("[0-9]*/stat"))


def _is_live_member(stat: Path, group: int) -> bool:
    try:
        text = stat.read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return False  # ended while we looked
    state, _, member_of, *_ = text.rpartition(")")[2].split()  # proc(5): after the name in brackets
    return member_of == str(group) and state not in "ZX"


@asynccontextmanager
async def _pumped(read_end: FileIO, sink: Sink) -> AsyncGenerator[None]:
    """Give what a process writes into a pipe to ``sink``; close the pipe at the end."""
    with read_end:
        pumping = asyncio.create_task(pump(Pipe(read_end), sink))
        try:
            yield
        finally:
            await to_the_end(_drain(pumping))


async def _drain(pumping: asyncio.Task[None]) -> None:
    # Somebody who left the group may hold the pipe open for ever: what has been written by now is all we read.
    await asyncio.wait([pumping], timeout=_DRAIN)
    pumping.cancel()
    await asyncio.wait([pumping])
