"""Who a process is, so that it can take its own Leases back at once after a restart, and nobody else can."""

from __future__ import annotations

import fcntl
import hashlib
import re
import secrets
import socket
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from windlass.domain.errors import Actor, PermanentError, Reason

BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")

_NOT_IN_NAMES: Final = re.compile(r"[^a-z0-9]")


@contextmanager
def claimed(folder: Path, part: str) -> Generator[str]:
    """Hold ``folder`` alone, and yield an identity that is the same after a restart.

    Whoever has the identity takes its Leases at once, so it must say that the process which had it before is dead. The
    lock says so, and only to processes of the same running machine that see the same folder. Therefore the identity is
    made from a mark in the folder and from the machine's boot id, not from names alone: a pod that was deleted by force
    may live on another node, or in a folder of its own, while its successor has the same name.

    Args:
        folder: of this process alone; it exists.
        part: which process of the folder.

    Raises:
        PermanentError: INTERNAL, another process holds it.
    """
    path = folder / f"{part}.lock"
    with path.open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise PermanentError(
                Reason.INTERNAL,
                f"another {part} process uses {folder}",
                hint="stop it, or give this one a --work-dir of its own",
                actor=Actor.ADMIN,
            ) from None
        lock.seek(0)
        mark = lock.read().strip()
        if not mark:
            mark = secrets.token_hex(8)
            lock.write(mark)
            lock.flush()
        told = hashlib.sha256("\0".join((str(path.absolute()), mark, _boot_id())).encode()).hexdigest()[:8]
        yield f"{_NOT_IN_NAMES.sub('-', socket.gethostname().lower())}-{told}"


def _boot_id() -> str:
    try:
        return BOOT_ID.read_text().strip()
    except OSError:
        return ""  # not Linux: a machine for development
