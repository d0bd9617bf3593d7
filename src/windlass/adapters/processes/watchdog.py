"""A process beside this one that kills it when it has let a deadline pass: it is frozen, or its event loop hangs.

Whoever does something under a Lease has to stop before others may begin, and a process that does not run cannot. What
it has started (Helm, hooks) runs on meanwhile; killed, it takes all of that along (`leash`, the hooks' guard), and the
work is taken up as after any other kill. The first process of a container cannot be killed from inside: there, all that
it has started is, and when it goes on it finds its Lease lost.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from pathlib import Path
from types import TracebackType
from typing import Final, Self

_CLOSED: Final = -1
_PROGRAM: Final = Path(__file__).with_name("watchdog_child.py")


class Watchdog:
    """Kills this process if a promise is not renewed in time. An async context manager; entered once."""

    def __init__(self) -> None:
        self._pipe = _CLOSED
        self._process: asyncio.subprocess.Process | None = None

    async def __aenter__(self) -> Self:
        reader, self._pipe = os.pipe()
        try:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-I",
                "-S",
                str(_PROGRAM),
                str(os.getpid()),
                stdin=reader,
                stdout=asyncio.subprocess.DEVNULL,
                env={},
                start_new_session=True,  # what stops this process at its terminal must not stop the watchdog
            )
        finally:
            os.close(reader)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pipe, self._pipe = self._pipe, _CLOSED
        os.close(pipe)
        if self._process is not None:
            await self._process.wait()

    def promise(self, what: str, until: float) -> None:
        """Promise to be heard of again before ``until``.

        Args:
            what: names the promise, without white space; a newer one of the same name takes its place.
            until: on the monotonic clock; 0 takes the promise back.
        """
        with contextlib.suppress(OSError):  # somebody has ended it: what is left are the rules of the Lease itself
            os.write(self._pipe, f"{what} {until:.3f}\n".encode())  # far below PIPE_BUF: whole or not at all
