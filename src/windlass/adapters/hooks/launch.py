"""Starts a runner as a process of this machine, or finds one that listens on a socket."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Final

import windlass.adapters.runner
from windlass.adapters.runner.protocol import Config

_END_SECONDS: Final = 5.0
"""Seconds that a runner has to end its runs; they are killed without grace."""


class LocalRunner:
    """A runner of our own; it ends when the socket is closed, also by our death."""

    def __init__(self, config: Config) -> None:
        self.channel, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            self._process = subprocess.Popen(
                command(config),
                stdin=other.fileno(),
                stdout=subprocess.DEVNULL,
                env={},
                cwd="/",
                start_new_session=True,  # a Ctrl-C at the worker's terminal is the worker's
            )
        except OSError:
            self.channel.close()
            raise
        finally:
            other.close()

    @property
    def pid(self) -> int:
        """The runner's process id."""
        return self._process.pid

    async def close(self) -> None:
        """Close the socket and wait until the runner and all that it ran are gone."""
        self.channel.close()
        try:
            await asyncio.to_thread(self._process.wait, _END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            await asyncio.to_thread(self._process.wait)


class RemoteRunner:
    """A runner that listens on a socket, in a container of its own."""

    def __init__(self, path: Path) -> None:
        self.channel = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            self.channel.connect(str(path))
        except OSError:
            self.channel.close()
            raise

    async def close(self) -> None:
        """Close the socket; the runner ends what it runs for us."""
        self.channel.close()


def command(config: Config) -> list[str]:
    """Return how to start a runner: without site-packages and without what the environment says to Python."""
    program = os.path.join(os.path.dirname(windlass.adapters.runner.__file__), "__main__.py")  # noqa: PTH118, PTH120 - one string
    return [sys.executable, "-I", "-S", program, config.encode()]
