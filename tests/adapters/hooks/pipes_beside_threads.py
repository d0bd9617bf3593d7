"""Pipes of hooks beside threads that open files, under uvloop; the exit status says whether every file was left alone.

A program of its own: a descriptor that is closed twice may end the process that it happens in.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from pathlib import Path

import uvloop

from windlass.adapters.hooks.output import Capture
from windlass.adapters.hooks.streams import pumped

THREADS = 4
AT_A_TIME = 8


def opens_files(stop: threading.Event, wrong: list[str]) -> None:
    """Open and close files for as long as pipes come and go; nobody else may have closed one, or put another there."""
    device = Path("/dev/null").stat().st_ino
    while not stop.is_set() and not wrong:
        descriptors = [os.open("/dev/null", os.O_RDONLY) for _ in range(8)]
        for descriptor in descriptors:
            try:
                if os.fstat(descriptor).st_ino != device:
                    wrong.append("a descriptor is another file now")
                os.close(descriptor)
            except OSError as error:
                wrong.append(f"a descriptor was closed by somebody else: {error}")


async def pumps(number: int) -> None:
    """Let ``number`` pipes bring one line each."""
    for _ in range(number):
        capture = Capture(100)
        async with pumped(capture) as end:
            os.write(end.descriptor, b"line\n")
            end.close()
        if capture.content != b"line\n":
            raise RuntimeError(f"read {capture.content!r}")


async def main(pipes: int) -> list[str]:
    """Pump ``pipes`` pipes; return what went wrong."""
    stop, wrong = threading.Event(), list[str]()
    threads = [threading.Thread(target=opens_files, args=(stop, wrong)) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    try:
        await asyncio.gather(*(pumps(pipes // AT_A_TIME) for _ in range(AT_A_TIME)))
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    return wrong


if __name__ == "__main__":
    sys.exit("; ".join(uvloop.run(main(int(sys.argv[1])))) or 0)
