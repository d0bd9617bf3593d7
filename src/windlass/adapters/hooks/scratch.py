"""The folder below which a worker process keeps the folders of its runs.

Run files hold values and credentials, so nothing of a run that died may stay: the guard removes a dead worker's folder
at once, and the next worker to start removes what the guard could not, after a power failure for example.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_PREFIX: Final = "worker-"


@contextmanager
def claimed_folder(root: Path) -> Generator[Path]:
    """Make a folder below ``root`` for this process, and remove those of dead ones.

    Being alive is a lock on one's folder, which the kernel drops with the process: process ids are reused.
    """
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _open_folder(root) as everybody:
        fcntl.flock(everybody, fcntl.LOCK_EX)  # nobody sweeps a folder between its making and its lock
        _sweep(root)
        own = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=root))
        descriptor = os.open(own, os.O_RDONLY | os.O_DIRECTORY)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    try:
        yield own
    finally:
        remove_folder(own)
        os.close(descriptor)


def remove_folder(folder: Path) -> None:
    """Remove ``folder``, also when a hook took away the rights to its sub-folders; absent is fine."""
    shutil.rmtree(folder, ignore_errors=True)
    if folder.exists():
        for parent, names, _ in os.walk(folder):
            for name in names:
                path = Path(parent, name)
                if not path.is_symlink():
                    path.chmod(0o700)
        shutil.rmtree(folder, ignore_errors=True)


def _sweep(root: Path) -> None:
    for folder in root.glob(f"{_PREFIX}*"):
        try:
            with _open_folder(folder) as descriptor:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                remove_folder(folder)
        except BlockingIOError:
            continue  # its worker is alive
        except FileNotFoundError:
            continue  # its guard was quicker


@contextmanager
def _open_folder(folder: Path) -> Generator[int]:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
