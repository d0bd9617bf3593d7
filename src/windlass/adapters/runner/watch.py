"""What the processes of a run use, read from /proc, and what lies in its folder."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from typing import Final, NamedTuple

_PAGE: Final = os.sysconf("SC_PAGE_SIZE")
_BLOCK: Final = 512  # bytes of st_blocks, stat(2)


class Member(NamedTuple):
    """A process below the one that looks: its parent, its group, whether it still runs."""

    pid: int
    parent: int
    group: int
    alive: bool


def family(pid: int) -> list[Member]:
    """Return all descendants of a process."""
    found: list[Member] = []
    waiting = [pid]
    while waiting:
        for child in _children(waiting.pop()):
            member = look(child)
            if member is not None:
                found.append(member)
                waiting.append(child)
    return found


def look(pid: int) -> Member | None:
    """Look at one process; None if it is gone."""
    text = _read(f"/proc/{pid}/stat")
    # proc(5): after the name in brackets, which may hold anything
    fields = text.rpartition(b")")[2].split()
    return Member(pid, int(fields[1]), int(fields[2]), fields[0] not in (b"Z", b"X")) if fields else None


def threads(pid: int) -> int:
    """Return how many threads a process has, 0 if it is gone."""
    try:
        return os.stat(f"/proc/{pid}/task").st_nlink - 2
    except OSError:
        return 0


def of_user(user: int) -> int:
    """Return how many threads there are of a user, of those that this process can see."""
    count = 0
    for name in os.listdir("/proc"):
        if name.isdecimal():
            with contextlib.suppress(OSError):
                found = os.stat(f"/proc/{name}/task")
                count += found.st_nlink - 2 if found.st_uid in (user, 0) else 0  # not dumpable ones belong to root
    return count


def memory(pids: list[int], limit: int) -> int:
    """Return the bytes that processes hold in memory; shared pages count once only where it matters, and can be told.

    Args:
        pids: the processes.
        limit: below this the cheap sum, in which shared pages count in each process, is good enough.
    """
    resident = {pid: _resident(pid) for pid in pids}
    total = sum(resident.values())
    return total if total <= limit else sum(min(_proportional(pid), own) for pid, own in resident.items())


def usage(folder: str, most: int) -> tuple[int, int]:
    """Return bytes on disk and number of files in a folder; looking ends at more than ``most`` files."""
    size = count = 0
    waiting = [folder]
    while waiting and count <= most:
        entries = _entries(folder, waiting.pop())
        if entries is None:
            return size, most + 1
        for entry in entries:
            count += 1
            with contextlib.suppress(OSError):
                found = entry.stat(follow_symlinks=False)
                size += found.st_blocks * _BLOCK
                if stat.S_ISDIR(found.st_mode):
                    waiting.append(entry.path)
            if count > most:
                break
    return size, count


def unlinked(pids: list[int], device: int) -> int:
    """Return the bytes of files on a device that have no name any more but are open in one of these processes."""
    sizes: dict[int, int] = {}
    for pid in pids:
        with contextlib.suppress(OSError):
            for name in os.listdir(f"/proc/{pid}/fd"):
                with contextlib.suppress(OSError):
                    found = os.stat(f"/proc/{pid}/fd/{name}")
                    if stat.S_ISREG(found.st_mode) and found.st_nlink == 0 and found.st_dev == device:
                        sizes[found.st_ino] = found.st_blocks * _BLOCK
    return sum(sizes.values())


def _entries(top: str, folder: str) -> list[os.DirEntry[str]] | None:
    """Return what is in a folder; None if it lies too deep to be looked at."""
    try:
        return list(os.scandir(folder))
    except PermissionError:
        with contextlib.suppress(OSError):
            return _closed_entries(top, folder)
    except OSError as error:
        return None if error.errno == errno.ENAMETOOLONG else []
    return []


def _closed_entries(top: str, folder: str) -> list[os.DirEntry[str]]:
    """Open a folder that a hook of our own user closed, and leave it open; no link is followed on the way."""
    here = os.open(top, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for name in os.path.relpath(folder, top).split("/"):
            inner = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=here)
            os.close(here)
            here = inner
        os.chmod(f"/proc/self/fd/{here}", 0o700)
        return list(os.scandir(folder))
    finally:
        os.close(here)


def _children(pid: int) -> list[int]:
    found: list[int] = []
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            found += map(int, _read(f"/proc/{pid}/task/{thread}/children").split())
    return found


def _resident(pid: int) -> int:
    fields = _read(f"/proc/{pid}/statm").split()
    return int(fields[1]) * _PAGE if fields else 0


def _proportional(pid: int) -> int:
    """The share of a process in its pages; more than any other figure where the kernel does not tell it."""
    for line in _read(f"/proc/{pid}/smaps_rollup").splitlines():
        if line.startswith(b"Pss:"):
            return int(line.split()[1]) * 1024
    return 1 << 62


def _read(path: str) -> bytes:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        parts: list[bytes] = []
        while part := os.read(descriptor, 1 << 16):
            parts.append(part)
        return b"".join(parts)
    except OSError:
        return b""
    finally:
        os.close(descriptor)
