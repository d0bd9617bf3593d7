"""Shells that wait: started before a hook is to run, each becomes one when it is told which.

Until then nothing of the hook runs, so that the guard can be told first; and the start of a process, 2 ms beside a busy
loop, is over when it is needed. A shell reads what it is to do from its stdin, which ends if the worker dies: it ends
too.
"""

from __future__ import annotations

import contextlib
import os
import shlex
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import Final

from windlass.adapters.hooks.spawn import Spawned, spawn

WAITING: Final = 2
"""Shells that wait when none is needed: two packages often follow the same object."""

_FIRST: Final = b"ulimit -c 0\n"  # no core dumps: they would hold values


@dataclass(frozen=True, kw_only=True)
class Command:
    """What to run; ``env`` is the whole environment, in which ``home`` stands, a folder of this run alone."""

    argv: tuple[str, ...]
    cwd: Path
    home: Path
    env: Mapping[str, str]


class Gate:
    """One waiting shell, and the ends of its pipes that stay here; it must be awaited to its end once it is opened.

    Raises:
        OSError: the system cannot start another process.
    """

    def __init__(self) -> None:
        with contextlib.ExitStack() as ours, contextlib.ExitStack() as its:
            stdin, self._opener = _pipe(its, ours)
            self.stdout, stdout = _pipe(ours, its)
            self.stderr, stderr = _pipe(ours, its)
            argv = ("/bin/sh",)
            self.process: Spawned = spawn(argv, stdin=stdin, stdout=stdout, stderr=stderr, cwd=Path("/"), env={})
            ours.pop_all()
        self._kept = [self._opener, self.stdout, self.stderr]
        self._opener.write(_FIRST)

    def given(self, end: FileIO) -> FileIO:
        """Give `stdout` or `stderr` away: who takes it closes it."""
        self._kept.remove(end)
        return end

    def open(self, command: Command) -> None:
        """Let the shell become ``command``, whose stdin is at its end from the start.

        Raises:
            OSError: its folder is not there.
        """
        command.cwd.stat()
        lines = [f"cd -P -- {shlex.quote(str(command.cwd))} || exit 126", "unset OLDPWD"]
        lines += [f"export {name}={shlex.quote(value)}" for name, value in command.env.items()]
        lines += [f"exec {shlex.join(command.argv)} </dev/null"]
        self._opener.write("\n".join([*lines, ""]).encode())

    def close(self) -> None:
        """Close the ends that are still ours; a shell that still waits ends."""
        for end in self._kept:
            end.close()


class Gates:
    """The waiting shells of one runner."""

    def __init__(self) -> None:
        self._waiting: list[Gate] = []
        self._closed = False

    @contextmanager
    def taken(self) -> Generator[Gate]:
        """Give a waiting shell, or a new one; another one waits afterwards.

        Raises:
            OSError: the system cannot start another process.
        """
        gate = self._alive() or Gate()
        try:
            yield gate
        finally:
            gate.close()
            self._refill()

    async def close(self) -> None:
        """End the shells that wait."""
        self._closed = True
        while self._waiting:
            gate = self._waiting.pop()
            gate.close()
            await gate.process.wait()

    def _alive(self) -> Gate | None:
        while self._waiting:
            gate = self._waiting.pop()
            if gate.process.returncode is None:
                return gate
            gate.close()  # somebody has ended it
        return None

    def _refill(self) -> None:
        with contextlib.suppress(OSError):  # the next hook tries itself, and says so
            while len(self._waiting) < WAITING and not self._closed:
                self._waiting.append(Gate())


def _pipe(reader: contextlib.ExitStack, writer: contextlib.ExitStack) -> tuple[FileIO, FileIO]:
    """Make a pipe whose ends are closed by these two."""
    read_end, write_end = os.pipe()
    return reader.enter_context(FileIO(read_end, "rb")), writer.enter_context(FileIO(write_end, "wb"))
