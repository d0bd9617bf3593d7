"""What processes use: CPU seconds and memory of whole process trees, read from /proc."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

SAMPLE_SECONDS: Final = 0.25
"""Between two looks at memory; a helm process lives about that long."""

_TICKS: Final = os.sysconf("SC_CLK_TCK")


@dataclass
class Usage:
    """CPU seconds between begin and end, and the most memory seen at once in MB (shared pages counted once)."""

    cpu: float = 0.0
    rss: float = 0.0


def family(roots: Iterable[int]) -> set[int]:
    """Return the processes of the trees below ``roots`` that live now."""
    parents: dict[int, int] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal() and (fields := _stat(int(folder.name))) is not None:
            parents[int(folder.name)] = int(fields[1])
    found = {root for root in roots if root in parents}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found


def cpu_seconds(roots: Iterable[int]) -> float:
    """Return what the trees have used so far, ended and awaited children included."""
    ticks = 0
    for pid in family(roots):
        if (fields := _stat(pid)) is not None:
            ticks += sum(int(one) for one in fields[11:15])
    return ticks / _TICKS


def memory(roots: Iterable[int]) -> float:
    """Return the proportional set size of the trees in MB."""
    total = 0
    for pid in family(roots):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
                if line.startswith("Pss:"):
                    total += int(line.split()[1])
    return total / 1000


@asynccontextmanager
async def used(*roots: int) -> AsyncGenerator[Usage]:
    """Measure the process trees below ``roots`` meanwhile; the result is complete once the block is left."""
    usage = Usage()
    before = cpu_seconds(roots)

    async def sample() -> None:
        while True:
            usage.rss = max(usage.rss, memory(roots))
            await asyncio.sleep(SAMPLE_SECONDS)

    sampling = asyncio.create_task(sample())
    try:
        yield usage
    finally:
        sampling.cancel()
        await asyncio.gather(sampling, return_exceptions=True)
        usage.cpu = cpu_seconds(roots) - before


def _stat(pid: int) -> list[str] | None:
    """Return the fields of /proc/PID/stat behind the name: state, parent, ..."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    return text.rpartition(")")[2].split()
