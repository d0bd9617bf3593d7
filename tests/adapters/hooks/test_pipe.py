"""A pipe is closed once: its number may be another file's a moment later."""

from __future__ import annotations

import asyncio
import os
import sys
from io import FileIO
from pathlib import Path

import pytest
import uvloop

from windlass.adapters.hooks.output import Capture
from windlass.adapters.hooks.process import _pumped  # pyright: ignore[reportPrivateUsage]

PROGRAM = Path(__file__).parent / "pipes_beside_threads.py"


class Watched(FileIO):
    """Notes whether its descriptor was still open whenever it was closed."""

    def __init__(self, descriptor: int) -> None:
        super().__init__(descriptor, "rb")
        self.stale = False

    def close(self) -> None:
        if not self.closed:
            try:
                os.fstat(self.fileno())
            except OSError:
                self.stale = True
        super().close()


@pytest.mark.parametrize("run", [uvloop.run, asyncio.run], ids=["uvloop", "asyncio"])
def test_whoever_closes_a_pipe_is_the_first_to_do_so(run: object) -> None:
    async def pumped() -> bool:
        read_end, write_end = os.pipe()
        file = Watched(read_end)
        async with _pumped(file, Capture(10)):
            os.close(write_end)
        for _ in range(3):
            await asyncio.sleep(0)
        assert file.closed
        return file.stale

    assert callable(run)
    assert run(pumped()) is False


def test_no_file_that_a_thread_opens_is_closed_with_a_pipe() -> None:
    async def status() -> tuple[int | None, str]:
        process = await asyncio.create_subprocess_exec(
            sys.executable, str(PROGRAM), "20000", stderr=asyncio.subprocess.PIPE
        )
        _, said = await process.communicate()
        return process.returncode, said.decode()

    assert asyncio.run(status()) == (0, "")


async def test_what_always_has_something_to_read_lets_others_have_their_turn() -> None:
    read_end, write_end = os.pipe()
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    beside = asyncio.create_task(others())
    capture = Capture(10)
    async with _pumped(FileIO(read_end, "rb"), capture):
        for _ in range(50):
            os.write(write_end, b"x" * 1000)
        os.close(write_end)
    beside.cancel()
    assert capture.overflowed
    assert turns > 1


async def test_a_pump_that_is_cancelled_closes_its_pipe() -> None:
    read_end, write_end = os.pipe()
    file = Watched(read_end)
    entered = asyncio.Event()

    async def waits() -> None:
        async with _pumped(file, Capture(10)):
            entered.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(waits())
    await entered.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    os.close(write_end)
    assert file.closed
    assert not file.stale
