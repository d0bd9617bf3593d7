"""Free loopback ports that stay the same for one data directory while they are free."""

from __future__ import annotations

import json
import secrets
import socket
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

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


def assign(file: Path, names: Iterable[str], *, free: Callable[[int], bool] = is_free) -> dict[str, int]:
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
