"""Processes that die with their parent, and pids that are not mistaken for another process's."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

_PR_SET_PDEATHSIG: Final = 1  # linux/prctl.h


def spawn(argv: Sequence[str], log: Path, env: Mapping[str, str], cwd: Path) -> subprocess.Popen[bytes]:
    """Start a process that the kernel kills when the calling thread ends, and append its output to ``log``.

    The caller must be the only thread of its process: the signal comes when the *thread* ends, and code runs
    between fork and exec.

    Raises:
        OSError: the program cannot be started.
    """
    with log.open("ab") as output:
        return subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=dict(env),
            cwd=cwd,
            # Unsafe with threads only, and the supervisor has none; nothing else sets the signal early enough.
            preexec_fn=_dies_with(os.getpid()),  # noqa: PLW1509
        )


def _dies_with(parent: int) -> Callable[[], None]:
    libc = ctypes.CDLL(None, use_errno=True)

    def prepare() -> None:
        if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL) != 0 or os.getppid() != parent:
            os._exit(1)  # the parent ended between fork and prctl
        signal.pthread_sigmask(signal.SIG_SETMASK, ())

    return prepare


def started_ticks(pid: int) -> int | None:
    """Return when a process was started, in clock ticks since boot, or None when there is no such process.

    A pid together with this number names one process for as long as the machine runs. A zombie counts as gone.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # proc(5): the name in parentheses may hold spaces; state is field 3, starttime field 22.
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in {"Z", "X"} else int(fields[19])


def exit_text(returncode: int) -> str:
    """Say how a process ended, such as ``exited with code 1`` or ``was killed by SIGKILL``."""
    if returncode >= 0:
        return f"exited with code {returncode}"
    return f"was killed by {signal.Signals(-returncode).name}"


def tail(log: Path, lines: int, limit: int = 8192) -> list[str]:
    """Return the last ``lines`` lines within the last ``limit`` bytes of a log; empty when there is none."""
    try:
        with log.open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - limit))
            return file.read().decode(errors="replace").splitlines()[-lines:]
    except FileNotFoundError:
        return []
