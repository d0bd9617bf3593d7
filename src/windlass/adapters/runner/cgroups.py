"""A cgroup for each run where the runner may make them (cgroup v2, delegated): the kernel itself holds the limits then.

The runner must be alone in its cgroup, as in a container of its own: controllers are passed on only by groups without
processes, so it moves into a group below.
"""

from __future__ import annotations

import contextlib
import os
import time
from typing import Final

from windlass.adapters.runner.protocol import Limits

MOUNT: Final = "/sys/fs/cgroup"
_OWN: Final = "windlass-runner"
_RETRIES: Final = 50  # a group is busy for a moment after its last process has ended
_PAUSE: Final = 0.002  # seconds


class Cgroup:
    """The cgroup of one run.

    Raises:
        OSError: it cannot be made.
    """

    def __init__(self, parent: str, name: str, limits: Limits) -> None:
        self._path = f"{parent}/{name}"
        os.mkdir(self._path)
        try:
            _write(f"{self._path}/memory.max", str(limits.memory))
            _write(f"{self._path}/pids.max", str(limits.processes))
            _write(f"{self._path}/memory.oom.group", "1")
            with contextlib.suppress(OSError):  # without swap there is no such file
                _write(f"{self._path}/memory.swap.max", "0")
        except OSError:
            self.remove()
            raise

    def enter(self) -> None:
        """Move the calling process into the group."""
        _write(f"{self._path}/cgroup.procs", "0")

    def kill(self) -> None:
        """Kill every process in the group at once."""
        with contextlib.suppress(OSError):
            _write(f"{self._path}/cgroup.kill", "1")

    def out_of_memory(self) -> bool:
        """Say whether the kernel killed it for its memory."""
        with contextlib.suppress(OSError):
            for line in _read(f"{self._path}/memory.events").splitlines():
                if line.startswith("oom_kill "):
                    return line != "oom_kill 0"
        return False

    def remove(self) -> None:
        """Remove the group, whose processes are gone."""
        for _ in range(_RETRIES):
            try:
                os.rmdir(self._path)
            except FileNotFoundError:
                return
            except OSError:
                time.sleep(_PAUSE)
            else:
                return


def delegated(mount: str = MOUNT) -> str:
    """Return the folder in which cgroups of runs can be made, empty if this process may not; it moves to make room."""
    try:
        own = next(line[3:].strip() for line in _read("/proc/self/cgroup").splitlines() if line.startswith("0::"))
        group = f"{mount}{own}".rstrip("/")
        if own == "/.." or not {"memory", "pids"} <= set(_read(f"{group}/cgroup.controllers").split()):
            return ""
        inside = f"{group}/{_OWN}"
        os.makedirs(inside, exist_ok=True)
        _write(f"{inside}/cgroup.procs", "0")
        try:
            _write(f"{group}/cgroup.subtree_control", "+memory +pids")
        except OSError:  # somebody else is in the group
            _write(f"{group}/cgroup.procs", "0")
            os.rmdir(inside)
            return ""
    except (OSError, StopIteration):
        return ""
    return group


def _read(path: str) -> str:
    with open(path, encoding="ascii") as file:
        return file.read()


def _write(path: str, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)
