"""Ties a process to the life of the one that started it.

As a script (``python -I -S leash.py PARENT_PID [--data=BYTES] PROGRAM ARGUMENT...``) it becomes PROGRAM, which has at
most that much memory of its own (`limit_data`), and dies by SIGKILL
as soon as its parent is gone, whatever killed that. The kernel keeps the setting across ``execve``. It is a step of its
own because setting it between fork and exec in a process with threads is unsafe.

The signal fires when the *thread* that started the process ends: start leashed processes from the event loop's thread.
Imports are the bare minimum: this runs before each call of a program.
"""

import ctypes
import os
import resource
import signal
import sys

_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_PR_SET_DUMPABLE = 4

DATA = "--data="


def forbid_dumps() -> None:
    """Keep other processes of this user from this one's environment and memory (``/proc``, ptrace), and from cores.

    It holds until another program is executed.

    Raises:
        OSError: the kernel refuses.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_DUMPABLE) failed")


def die_with_parent(parent: int) -> None:
    """Ask the kernel to kill this process when process ``parent`` is gone; exit at once if it is gone already.

    Raises:
        OSError: the kernel refuses.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) failed")
    if os.getppid() != parent:
        os._exit(1)


def limit_data(size: int) -> None:
    """Bound the private memory that this process, and every program that it becomes, may have, in bytes."""
    resource.setrlimit(resource.RLIMIT_DATA, (size, size))


def main() -> None:
    """Run as a script."""
    parent, *command = sys.argv[1:]
    die_with_parent(int(parent))
    if command[0].startswith(DATA):
        limit_data(int(command.pop(0).removeprefix(DATA)))
    os.execv(command[0], command)  # noqa: S606 - the arguments are a list built by the adapter


if __name__ == "__main__":
    main()
