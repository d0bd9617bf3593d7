"""Why a part of the stack ended, in words: from how it ended and from the last lines of its log.

Programs say what is wrong in texts only, so texts are looked at; nothing but what people read depends on it.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final


@dataclass(frozen=True, slots=True)
class Cause:
    """What is wrong, and what to do; ``advice`` is empty when the log's own words are the best there is."""

    text: str
    advice: str = ""


_SHELL_NOT_EXECUTABLE: Final = 126  # POSIX: found and cannot be executed; 127: not found
_SHELL_NOT_FOUND: Final = 127

_SIGNALS: Final = {
    signal.SIGKILL: Cause("somebody killed it (SIGKILL)"),
    signal.SIGTERM: Cause("somebody asked it to stop"),
    signal.SIGINT: Cause("somebody asked it to stop"),
    signal.SIGSEGV: Cause(
        "it crashed", "if its program was replaced, remove it from the cache: windlass doctor says where"
    ),
    signal.SIGBUS: Cause("a file that it had mapped has become shorter, or the disk fails", "see `dmesg` and `df -h`"),
    signal.SIGILL: Cause("its program was built for another processor", "remove it from the cache and build it here"),
    signal.SIGABRT: Cause("it gave up; its log says why"),
    signal.SIGXFSZ: Cause("it may not write files that large (ulimit -f)", "raise the limit"),
}

_OUT_OF_MEMORY: Final = Cause(
    "the kernel has killed a process for want of memory, probably this one",
    "see `dmesg` and `free -m`; the embedded stack takes about 1 GB",
)

_DAMAGED: Final = Cause(
    "its data is damaged",
    "keep a copy, then start afresh in another --data-dir, or remove this part's data; Windlass rebuilds lifecycles "
    "from the cluster, but nothing rebuilds the cluster",
)

_LOGGED: Final = (
    (
        r"address already in use",
        Cause("its port is taken by another program", "stop that program: `ss -ltnp` shows it"),
    ),
    (r"no space left on device|disk is full|ENOSPC|disk full", Cause("the disk is full", "make room: `df -h`")),
    (
        r"disk quota exceeded",
        Cause("the disk quota of this user is used up", "make room, or use another --data-dir"),
    ),
    (
        r"disk image is malformed|is not a database|crc mismatch|invalid database|wal: .*corrupt|data corruption",
        _DAMAGED,
    ),
    (r"database is locked", Cause("another process has its data open", "stop the other one: `fuser` shows it")),
    (r"too many open files", Cause("it may not open more files", "raise `ulimit -n`")),
    (r"cannot allocate memory|out of memory", Cause("there is too little memory", "stop something: `free -m`")),
    (r"read-only file system", Cause("its data lies on a disk that is read-only", "use another --data-dir")),
    (
        r"permission denied|operation not permitted",
        Cause("it may not read or write something", "see who owns the data directory; it wants to be yours"),
    ),
    (r"exec format error", Cause("its program was built for another processor", "remove it and build it here")),
    (
        r"certificate has expired",
        Cause("its certificate has expired", "windlass down, then windlass up makes new ones"),
    ),
    (
        r"unknown (?:flag|command|shorthand)|flag provided but not defined",
        Cause(
            "its program does not know our options: it is another version", "windlass doctor says which one was taken"
        ),
    ),
)


def memory_kills() -> int:
    """Return how many processes the kernel has killed for want of memory since it started; 0 if it does not say."""
    try:
        lines = Path("/proc/vmstat").read_text().splitlines()
    except OSError:
        return 0  # not Linux
    return next((int(line.split()[1]) for line in lines if line.startswith("oom_kill ")), 0)


def cause(returncode: int, lines: Sequence[str], *, out_of_memory: bool = False) -> Cause | None:
    """Return why a process ended, None if nothing is known of it.

    Args:
        returncode: its exit code, or the signal's number made negative.
        lines: the end of its log; the last line that is known counts.
        out_of_memory: whether the kernel has killed a process for want of memory meanwhile.
    """
    for line in reversed(lines):
        for pattern, found in _LOGGED:
            if re.search(pattern, line, re.IGNORECASE):
                return found
    if returncode == -signal.SIGKILL and out_of_memory:
        return _OUT_OF_MEMORY
    if returncode < 0:
        return _SIGNALS.get(signal.Signals(-returncode))
    if returncode in (_SHELL_NOT_EXECUTABLE, _SHELL_NOT_FOUND):
        return Cause("its program cannot be executed", "windlass doctor says which one was taken")
    return None


def death(part: str, ended: str, found: Cause | None, lines: Sequence[str], *, shown: int, again: int) -> str:
    """Return what people are told of a death: how, how often, why, what to do, and the end of the log.

    Args:
        part: its name.
        ended: how it ended (`windlass.devstack.process.exit_text`).
        found: why.
        lines: the end of its log.
        shown: how many of them are told.
        again: how often it has died in a row, this time included.
    """
    times = f", {again} times in a row" if again > 1 else ""
    if found is None:
        return "\n".join([f"{part} {ended}{times}; the end of its log:", *lines[-shown:]])
    advice = [f"what to do: {found.advice}"] if found.advice else []
    return "\n".join([f"{part} {ended}{times}: {found.text}", *advice, "the end of its log:", *lines[-shown:]])
