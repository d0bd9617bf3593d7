"""Free loopback ports that stay the same for one data directory while they are free."""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import socket
import struct
from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from windlass.devstack.errors import StackError

LOOPBACK: Final = "127.0.0.1"

# Below Linux's ephemeral range (32768 to 60999): an outgoing connection of some other program cannot
# take a port of ours between two starts.
FIRST: Final = 20_000
LAST: Final = 32_000
_TRIES: Final = 200


def is_free(port: int) -> bool:
    """Whether a server could listen on ``port`` of the loopback address now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # Servers written in Go set this too: connections in TIME_WAIT do not count as taken.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
            probe.listen(1)
        except OSError:
            return False
    return True


class Claims:
    """Ports that no other stack of this user takes, whether anything listens there yet or not.

    Two stacks that start at the same time would otherwise find the same port free, and one of them fail seconds later;
    so would one that starts while a part of another is down.

    Args:
        file: in which ports are locked, the byte at a port's number for each; the same one for all stacks. Locks last
            until the context is left and every process that `fileno` was passed to has ended.
    """

    def __init__(self, file: Path) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        self._file = file.open("wb")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def fileno(self) -> int:
        """Return the descriptor that a child needs to hold the claims on."""
        return self._file.fileno()

    def take(self, port: int) -> bool:
        """Claim ``port``; False if another stack has, or something listens there."""
        # fcntl(2): locks of the open file and not of the process, since they are handed on; by struct flock.
        try:
            fcntl.fcntl(self._file, fcntl.F_OFD_SETLK, struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, port, 1, 0))
        except BlockingIOError:
            return False
        return is_free(port)


def assign(file: Path, names: Iterable[str], *, free: Callable[[int], bool]) -> dict[str, int]:
    """Return a port for each name: the one in ``file`` when still free, else a new one; update ``file``.

    Raises:
        StackError: no free port was found.
    """
    known: dict[str, int] = json.loads(file.read_text()) if file.exists() else {}
    ports: dict[str, int] = {}
    for name in names:
        port = known.get(name)
        if port is None or port in ports.values() or not free(port):
            port = _pick({*ports.values(), *known.values()}, free)
        ports[name] = port
    file.write_text(json.dumps(known | ports, indent=2) + "\n")
    return ports


def _pick(taken: set[int], free: Callable[[int], bool]) -> int:
    for _ in range(_TRIES):
        port = FIRST + secrets.randbelow(LAST - FIRST)
        if port not in taken and free(port):
            return port
    message = f"no free TCP port on {LOOPBACK} between {FIRST} and {LAST} after {_TRIES} tries"
    raise StackError(message, hint="see what listens there: ss -ltn")
