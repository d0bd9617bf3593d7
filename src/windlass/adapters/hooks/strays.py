"""Processes that a hook started and that have left its process group: daemons, whatever called ``setsid``.

They are known by their environment, which names the folder of the run and goes from parent to child. (A subreaper
would find them by their parent; but it would have to start every hook itself, or the worker would have to collect the
status of processes that it did not start.) What has put away its environment as well is not found.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_PROC: Final = Path("/proc")


def kill_strays(home: str, after: int) -> int:
    """Kill every process whose environment names ``home``; return how many there were.

    What they start in the meantime is found by calling again, until there is none.

    Args:
        home: the folder that the run, and nobody else, has in its environment.
        after: id of the run's first process; ids are given in ascending order, so that few have to be looked at.
    """
    killed = 0
    for pid in _younger(after):
        try:
            # The descriptor names one process: the id may be given to another between look and kill.
            descriptor = os.pidfd_open(pid)
        except OSError:
            continue
        try:
            if _names(pid, home):
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)
                killed += 1
        except ProcessLookupError:
            continue
        finally:
            os.close(descriptor)
    return killed


def _younger(after: int) -> Iterator[int]:
    """Yield ids of processes started after another one, which are the higher ones until the kernel begins again."""
    last = int((_PROC / "loadavg").read_text().split()[-1])  # proc(5): the id given last
    for name in os.listdir(_PROC):  # noqa: PTH208 - names alone; objects for hundreds of them cost a millisecond
        if name.isdecimal():
            pid = int(name)
            if (after < pid <= last) if last >= after else (pid > after or pid <= last):
                yield pid


def _names(pid: int, home: str) -> bool:
    try:
        environment = (_PROC / str(pid) / "environ").read_bytes()
    except OSError:
        return False  # it has ended, or is somebody else's
    folder = home.encode()
    values = (entry.partition(b"=")[2] for entry in environment.split(b"\0"))
    return any(value == folder or value.startswith(folder + b"/") for value in values)
