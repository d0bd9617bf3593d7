"""A pipe is closed once: its number may be another file's a moment later."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from windlass.adapters.hooks.output import Capture
from windlass.adapters.hooks.streams import pumped

PROGRAM = Path(__file__).parent / "pipes_beside_threads.py"


def test_no_file_that_a_thread_opens_is_closed_with_a_pipe() -> None:
    async def status() -> tuple[int | None, str]:
        process = await asyncio.create_subprocess_exec(
            sys.executable, str(PROGRAM), "20000", stderr=asyncio.subprocess.PIPE
        )
        _, said = await process.communicate()
        return process.returncode, said.decode()

    assert asyncio.run(status()) == (0, "")


async def test_what_always_has_something_to_read_lets_others_have_their_turn() -> None:
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    beside = asyncio.create_task(others())
    capture = Capture(10)
    async with pumped(capture) as end:
        for _ in range(50):
            os.write(end.descriptor, b"x" * 1000)
    beside.cancel()
    assert capture.overflowed
    assert turns > 1


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def test_a_pump_that_is_cancelled_closes_its_pipe() -> None:
    entered = asyncio.Event()
    before = descriptors()

    async def waits() -> None:
        async with pumped(Capture(10)):
            entered.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(waits())
    await entered.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert descriptors() == before
