"""Starts processes without copying the worker: uvloop's own way forks it, which takes 15 ms and more per process.

`subprocess` lets the child borrow the worker's memory until it becomes the program (vfork), which takes 0.3 ms whatever
the worker holds. The end of a process is told by its pidfd.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Mapping, Sequence
from io import FileIO
from pathlib import Path


class Spawned:
    """A running process in a session of its own; it must be awaited to its end."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._ended = asyncio.Event()
        self._pidfd = os.pidfd_open(process.pid)
        asyncio.get_running_loop().add_reader(self._pidfd, self._reap)

    @property
    def pid(self) -> int:
        """Process id, which is the id of its group as well."""
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """Exit status, or the signal's number made negative; None while it runs."""
        return self._process.returncode

    async def wait(self) -> None:
        """Wait for the end."""
        await self._ended.wait()

    def _reap(self) -> None:
        asyncio.get_running_loop().remove_reader(self._pidfd)
        os.close(self._pidfd)
        self._process.wait()  # it has ended: this collects the status
        self._ended.set()


def spawn(
    argv: Sequence[str], *, stdin: FileIO, stdout: FileIO, stderr: FileIO, cwd: Path, env: Mapping[str, str]
) -> Spawned:
    """Start a process; ``env`` is its whole environment.

    Raises:
        OSError: the system cannot start another process.
    """
    return Spawned(
        subprocess.Popen(
            argv, stdin=stdin, stdout=stdout, stderr=stderr, cwd=cwd, env=dict(env), start_new_session=True
        )
    )
