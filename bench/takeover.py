"""How long the packages of a lost worker stand still: one of three is killed, and every package is changed at once.

Run with ``PYTHONPATH=tests python bench/takeover.py``; with ``WINDLASS_TEST_STACK=DIR`` it uses the stack that runs
there. Prints a table of figures; ``--json`` prints one object a row instead: name, metric, unit, value, n. Seconds
count from the kill to the last package ready with its new settings.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from support.installation import Installation, installed, write_greeter
from support.stack import session_stack
from support.waiting import eventually
from windlass.devstack.stack import Stack
from windlass.domain.ids import shards_name
from windlass.ports.kube import ObjectRef

WAIT: Final = 120.0
"""Seconds until anything here is given up."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One figure; ``n`` is how many runs stand behind it."""

    name: str
    metric: str
    unit: str
    value: float
    n: int


async def once(stack: Stack, folder: Path, packages: int) -> float:
    """Kill one of three workers; return the seconds until every package has its new settings."""
    names = [f"app-{number}" for number in range(packages)]
    processes: list[subprocess.Popen[bytes]] = []
    async with installed(stack, folder / "installation") as installation:
        write_greeter(folder / "packages", "1.0.0")
        await installation.repository(folder / "packages")
        for name, role in (("watching", "watcher"), ("one", "worker"), ("two", "worker"), ("three", "worker")):
            processes.append(installation.start(role, data=name))
            installation.process = None
        try:
            await eventually(lambda: _shared(installation), WAIT)
            for name in names:
                await installation.application(name, "greeter", "1.0.0")
            for name in names:
                await installation.ready(name, within=WAIT)
            began = time.monotonic()
            processes[1].kill()
            settings = {"greeting": "again"}
            await asyncio.gather(
                *(installation.application(name, "greeter", "1.0.0", settings=settings) for name in names)
            )
            for name in names:
                await installation.ready(name, within=WAIT)
            return time.monotonic() - began
        finally:
            for process in processes:
                process.kill()
                process.wait()


async def _shared(installation: Installation) -> bool:
    ref = ObjectRef(
        api_version="v1", kind="ConfigMap", namespace="windlass-system", name=shards_name(installation.name)
    )
    data = ((await installation.kube.get(ref)) or {}).get("data") or {}
    owners = Counter(owner for key, owner in data.items() if key.startswith("shard-"))
    return sorted(owners.values()) == [2, 3, 3]


def main() -> None:
    """Measure some runs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--packages", type=int, default=12)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, session_stack(Path(name) / "stack") as stack:
        runs = range(options.runs)
        found = [asyncio.run(once(stack, Path(name) / str(run), options.packages)) for run in runs]
    for metric, value in (("median", statistics.median(found)), ("worst", max(found))):
        row = Row(name="takeover", metric=metric, unit="s", value=round(value, 2), n=len(found))
        text = json.dumps(asdict(row)) if options.json else f"{row.name:<12}{metric:<10}{value:>8.2f} s  n={row.n}"
        sys.stdout.write(f"{text}\n")


if __name__ == "__main__":
    main()
