"""Folders of runs: made, filled, read and removed, whatever a hook put into them.

Run files hold values and credentials, so nothing of a run may stay: a keeper removes the folder of its run, and the
next runner to start removes what a dead one left, after a power failure for example.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
from collections.abc import Iterable
from typing import Final

from windlass.adapters.runner.protocol import MAX_OUTPUT, Input, Output

_PREFIX: Final = "worker-"


def claim(root: str, *, shared: bool) -> tuple[str, int]:
    """Make a folder below ``root`` for this process and remove those of dead ones; return it and its lock.

    Being alive is a lock on one's folder, which ends with the last process that has it open: process ids are reused.

    Args:
        root: made if it is not there.
        shared: users of packages must be able to pass.
    """
    mode = 0o711 if shared else 0o700
    os.makedirs(root, exist_ok=True)
    os.chmod(root, mode)
    everybody = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(everybody, fcntl.LOCK_EX)  # nobody sweeps a folder between its making and its lock
        _sweep(root)
        own = os.path.join(root, _PREFIX + os.urandom(6).hex())
        os.mkdir(own, mode)
        os.chmod(own, mode)
        lock = os.open(own, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        fcntl.flock(lock, fcntl.LOCK_EX)
    finally:
        os.close(everybody)
    return own, lock


def fill(folder: str, contents: int, inputs: Iterable[Input], outputs: Iterable[str], user: int) -> str:
    """Make the folder of a run with its files, all for its user only, and return its home.

    Args:
        folder: must not exist.
        contents: descriptor of a file with the contents of ``inputs``, one after another.
        inputs: what the hook reads.
        outputs: names of what it writes.
        user: who owns it; 0 for the runner's own.

    Raises:
        OSError: the disk is full, or ``contents`` is too short.
    """
    home = f"{folder}/home"
    os.mkdir(folder, 0o700)
    os.mkdir(home, 0o700)
    offset = 0
    for name, size in (*((one.name, one.size) for one in inputs), *((name, 0) for name in outputs)):
        file = os.open(f"{folder}/{name}", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            end = offset + size
            while offset < end:
                done = os.sendfile(file, contents, offset, end - offset)
                if not done:
                    raise OSError(errno.EPROTO, "the inputs are shorter than announced")
                offset += done
            if user:
                os.fchown(file, user, user)
        finally:
            os.close(file)
    if user:
        os.chown(home, user, user)
        os.chown(folder, user, user)
    return home


def bring(folder: int, name: str, user: int, target: int) -> Output:
    """Append one output file to ``target``; say its size or what is wrong with it. Absent is empty.

    The hook may have put anything in its place: no link is followed, and a named pipe does not block. A further name of
    a file that somebody else owns would give what the hook itself cannot read.
    """
    try:
        file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except FileNotFoundError:
        return Output(0)
    except OSError as error:
        return Output(0, f"cannot be read ({error.strerror})")
    try:
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1 or found.st_uid != (user or os.geteuid()):
            return Output(0, "is not a plain file any more")
        if found.st_size > MAX_OUTPUT:
            return Output(0, f"holds more than {MAX_OUTPUT} bytes")
        size = 0
        while size < found.st_size and (done := os.sendfile(target, file, size, found.st_size - size)):
            size += done
        return Output(size)
    finally:
        os.close(file)


def remove(folder: str) -> None:
    """Remove a folder however deep it is and whatever rights a hook took away; absent is fine.

    Nothing that belongs to the run is alive any more. Folders within folders are moved up before they are emptied:
    depth then needs neither stack nor long paths.
    """
    count = 0
    waiting = [folder]
    while waiting:
        current = waiting[-1]
        inner: list[str] = []
        for entry in _opened(current):
            if not entry.is_dir(follow_symlinks=False):
                with contextlib.suppress(OSError):
                    os.unlink(entry.path)
                continue
            count += 1
            moved = f"{folder}/.{count}"
            with contextlib.suppress(OSError):
                os.chmod(entry.path, 0o700)
                os.rename(entry.path, moved)
                inner.append(moved)
        if inner and current == folder:
            waiting += inner
        elif inner:
            waiting.pop()
            _rmdir(current)
            waiting += inner
        else:
            waiting.pop()
            _rmdir(current)


def _rmdir(folder: str) -> None:
    with contextlib.suppress(OSError):
        os.rmdir(folder)


def _opened(folder: str) -> list[os.DirEntry[str]]:
    try:
        os.chmod(folder, 0o700)
        return list(os.scandir(folder))
    except OSError:
        return []


def _sweep(root: str) -> None:
    for entry in list(os.scandir(root)):
        if not entry.name.startswith(_PREFIX) or not entry.is_dir(follow_symlinks=False):
            continue
        try:
            lock = os.open(entry.path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            remove(entry.path)
        except BlockingIOError:
            continue  # its runner is alive
        finally:
            os.close(lock)
