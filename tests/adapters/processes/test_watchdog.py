"""A process that does not keep its promise is killed, whatever keeps it; one that does is left alone."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from support.waiting import SOON, eventually
from windlass.adapters.processes.watchdog import Watchdog

PROGRAM = """
import asyncio, sys, time
from windlass.adapters.processes.watchdog import Watchdog

async def main():
    async with Watchdog() as watchdog:
        print(watchdog._process.pid, flush=True)
        for line in sys.stdin:
            what, seconds = line.split()
            if what == "hang":
                time.sleep(float(seconds))
            else:
                watchdog.promise(what, time.monotonic() + float(seconds) if float(seconds) else 0)
                print("promised", flush=True)

asyncio.run(main())
"""

type Begin = Callable[[], Awaitable[tuple[Process, int]]]


@pytest.fixture
async def begin() -> AsyncIterator[Begin]:
    """Starts a process with a watchdog; returns both, the watchdog by its id."""
    started: list[Process] = []

    async def begun() -> tuple[Process, int]:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", PROGRAM, stdin=PIPE, stdout=PIPE, stderr=PIPE
        )
        started.append(process)
        assert process.stdout is not None
        return process, int(await process.stdout.readline())

    yield begun
    for process in started:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def promise(process: Process, *lines: str) -> None:
    """Let the process promise this, and wait until it has."""
    say(process, *lines)
    assert process.stdout is not None
    for _ in lines:
        assert await process.stdout.readline() == b"promised\n"


def say(process: Process, *lines: str) -> None:
    assert process.stdin is not None
    process.stdin.write("".join(f"{line}\n" for line in lines).encode())


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


@pytest.mark.parametrize("way", ["stopped", "hung"])
async def test_who_is_not_heard_of_is_killed_and_it_is_said_why(begin: Begin, way: str) -> None:
    process, watchdog = await begin()
    await promise(process, "other 600", "lease 3")
    if way == "stopped":
        process.send_signal(signal.SIGSTOP)
    else:
        say(process, "hang 600")
    assert await asyncio.wait_for(process.wait(), SOON) == -signal.SIGKILL
    assert process.stderr is not None
    told = (await process.stderr.read()).decode()
    assert f"process {process.pid} was frozen or hung until the end of its Lease was near (lease)" in told
    await eventually(lambda: gone(watchdog), what="the watchdog ends")


async def test_promises_are_renewed_and_taken_back(begin: Begin) -> None:
    process, watchdog = await begin()
    await promise(process, "one 3", "two 3", "one 600", "two 0")
    await asyncio.sleep(3.5)  # longer than what was promised first
    assert process.returncode is None
    _, told = await process.communicate()
    assert (process.returncode, told) == (0, b"")
    assert gone(watchdog), "it is awaited"


async def test_it_ends_with_a_process_that_is_killed(begin: Begin) -> None:
    process, watchdog = await begin()
    await promise(process, "lease 600")
    process.kill()
    await process.wait()
    await eventually(lambda: gone(watchdog))


FIRST = """
import asyncio, os, subprocess, time
from windlass.adapters.processes.watchdog import Watchdog

async def main():
    assert os.getpid() == 1
    async with Watchdog() as watchdog:
        child = subprocess.Popen(["sleep", "600"], start_new_session=True)
        watchdog.promise("lease", time.monotonic() + 1)
        while child.poll() is None:
            time.sleep(0.1)  # an event loop that hangs
        print("child", child.returncode)
        watchdog.promise("lease", time.monotonic() + 600)
    print("watchdog", watchdog._process.returncode)

asyncio.run(main())
"""


async def test_of_the_first_process_of_a_container_all_is_killed_that_it_started() -> None:
    unshare = ("unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child")
    probe = await asyncio.create_subprocess_exec(*unshare, "true", stderr=PIPE)
    if await probe.wait() != 0:
        pytest.skip("this machine does not let us have a process namespace of our own")
    process = await asyncio.create_subprocess_exec(*unshare, sys.executable, "-c", FIRST, stdout=PIPE, stderr=PIPE)
    told, warned = await asyncio.wait_for(process.communicate(), SOON)
    assert told.decode().splitlines() == [f"child {-signal.SIGKILL}", "watchdog 0"], warned.decode()
    assert "What it had started was killed" in warned.decode()


async def test_one_that_somebody_has_ended_is_no_trouble() -> None:
    async with Watchdog() as watchdog:
        assert watchdog._process is not None
        watchdog._process.kill()
        await watchdog._process.wait()
        watchdog.promise("lease", 1.0)
