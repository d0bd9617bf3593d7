"""System calls that Python does not have, through ctypes."""

from __future__ import annotations

import ctypes
import os
from typing import Final

_libc: Final = ctypes.CDLL(None, use_errno=True)

# linux/prctl.h
_PR_SET_PDEATHSIG: Final = 1
_PR_SET_DUMPABLE: Final = 4
_PR_SET_CHILD_SUBREAPER: Final = 36
_PR_SET_NO_NEW_PRIVS: Final = 38

# linux/capability.h
CHOWN: Final = 0
DAC_OVERRIDE: Final = 1
FOWNER: Final = 3
KILL: Final = 5
SETGID: Final = 6
SETUID: Final = 7
SYS_ADMIN: Final = 21

_CLONE_NEWNS: Final = 0x20000  # linux/sched.h

# linux/mount.h
MS_BIND: Final = 4096
MS_REC: Final = 16384
MS_PRIVATE: Final = 1 << 18


def syscall(number: int, *arguments: int | bytes | None) -> int:
    """Make a system call by its number.

    Raises:
        OSError: it failed.
    """
    words = [ctypes.c_long(word) if isinstance(word, int) else word for word in arguments]
    result = _libc.syscall(ctypes.c_long(number), *words)
    if result < 0:
        raise _error()
    return result


def forbid_dumps() -> None:
    """Take away from other processes of this user what they could read of this one through ``/proc`` and ptrace."""
    _prctl(_PR_SET_DUMPABLE, 0)


def adopt_orphans() -> None:
    """Make descendants whose parent ends children of this process."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def signal_at_parents_death(number: int) -> None:
    """Be sent a signal when the parent is gone, also after exec; cleared by a change of user."""
    _prctl(_PR_SET_PDEATHSIG, number)


def gain_no_privileges() -> None:
    """Give up for good what setuid programs would give; Landlock demands it."""
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)


def capable(*wanted: int) -> bool:
    """Say whether this process has all these capabilities."""
    with open("/proc/self/status", encoding="ascii", errors="replace") as status:
        for line in status:
            if line.startswith("CapEff:"):
                held = int(line.split()[1], 16)
                return all(held >> number & 1 for number in wanted)
    return False


def leave_mount_namespace() -> None:
    """Get mounts of one's own: what is mounted from now on only this process and its children see.

    Raises:
        OSError: EPERM, not permitted.
    """
    if _libc.unshare(_CLONE_NEWNS) != 0:
        raise _error()
    mount("none", "/", "", MS_REC | MS_PRIVATE)


def mount(source: str, target: str, kind: str, flags: int, options: str = "") -> None:
    """Attach a file system (manual page "mount", section 2).

    Raises:
        OSError: it failed.
    """
    words = (os.fsencode(source), os.fsencode(target), os.fsencode(kind) or None)
    if _libc.mount(*words, ctypes.c_ulong(flags), os.fsencode(options) or None) != 0:
        raise _error()


def _prctl(option: int, value: int) -> None:
    if _libc.prctl(option, ctypes.c_ulong(value), ctypes.c_ulong(0), ctypes.c_ulong(0), ctypes.c_ulong(0)) != 0:
        raise _error()


def _error() -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number))
