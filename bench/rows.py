"""One figure, and how figures are shown and kept."""

from __future__ import annotations

import json
import os
import platform
import re
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Row:
    """One figure; with a peer, its figure of the same run.

    Attributes:
        name: of the measure, as in ``make bench ONLY=name``.
        metric: what was measured: wall, cpu, rss, p50, ...
        unit: s, CPU s, MB, ms, events, ...
        value: ours; of several runs the median.
        n: runs or samples behind it.
        peer: what ours stands beside; empty if nothing does.
        peer_value: its figure, in the same unit.
    """

    name: str
    metric: str
    unit: str
    value: float
    n: int
    peer: str = ""
    peer_value: float | None = None

    @property
    def ratio(self) -> float | None:
        """Ours by the peer's."""
        return self.value / self.peer_value if self.peer_value else None


def median(rows: Sequence[Sequence[Row]]) -> list[Row]:
    """Return one row for each metric: the medians of several runs that brought the same metrics."""
    made: list[Row] = []
    for same in zip(*rows, strict=True):
        peers = [row.peer_value for row in same if row.peer_value is not None]
        made.append(
            Row(
                **{
                    **asdict(same[0]),
                    "value": statistics.median(row.value for row in same),
                    "peer_value": statistics.median(peers) if peers else None,
                    "n": len(same),
                }
            )
        )
    return made


def machine() -> str:
    """Return what the figures were measured on, without its name."""
    cpu = re.search(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    memory = re.search(r"^MemTotal:\s*(\d+)", Path("/proc/meminfo").read_text(), re.MULTILINE)
    gib = int(memory[1]) / 1024**2 if memory else 0.0
    model = cpu[1] if cpu else platform.machine()
    return f"{os.cpu_count()} x {model}, {gib:.0f} GiB, load {os.getloadavg()[0]:.1f} at the start"


def documents(rows: Iterable[Row], where: str) -> list[dict[str, Any]]:
    """Return rows as they stand in ``bench/results/latest.json``."""
    return [
        {
            "name": row.name,
            "metric": row.metric,
            "unit": row.unit,
            "value": _rounded(row.value),
            "peer": row.peer or None,
            "peer_value": _rounded(row.peer_value),
            "ratio": _rounded(row.ratio),
            "n": row.n,
            "machine": where,
        }
        for row in rows
    ]


def keep(file: Path, new: Sequence[Mapping[str, Any]]) -> None:
    """Write figures to ``file``; those of measures that were not made anew stay."""
    old: list[dict[str, Any]] = json.loads(file.read_text()) if file.exists() else []
    names = {row["name"] for row in new}
    kept = [row for row in old if row["name"] not in names]
    file.parent.mkdir(parents=True, exist_ok=True)
    lines = ",\n".join(f"  {json.dumps(row)}" for row in [*kept, *new])
    file.write_text(f"[\n{lines}\n]\n")


def line(row: Row) -> str:
    """Return a row as people read it."""
    text = f"{row.name:<16}{row.metric:<24}{_short(row.value):>10} {row.unit:<10}n={row.n:<5}"
    if row.peer_value is not None and row.ratio is not None:
        text += f"{row.peer:<10}{_short(row.peer_value):>10} {row.unit:<8}x{row.ratio:.2f}"
    return text.rstrip()


def _short(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.2f}"


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.4g}")
