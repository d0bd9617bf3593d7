"""Runs the measures and writes their figures: ``make bench``, ``make bench ONLY=install_100,idle_200 RUNS=5``.

A measure is an ``async def (stack, folder, **options) -> list[Row]`` in a module of this folder and stands in
`MEASURES`. Each run has its own folder; with ``WINDLASS_TEST_STACK=DIR`` they use the stack that runs there.
"""

from __future__ import annotations

import argparse
import asyncio
import fnmatch
import importlib
import os
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from rows import Row, documents, keep, line, machine, median

from support.installation import WRITABLE
from support.stack import session_stack
from windlass.devstack.stack import Stack

LATEST: Final = Path(__file__).parent / "results" / "latest.json"


@dataclass(frozen=True, kw_only=True)
class Measure:
    """One measure, and the names of the figures that it brings.

    Attributes:
        names: for ``ONLY``.
        module: of this folder.
        function: in it.
        options: for it.
        repeated: whether it is run several times for a median; others take many samples themselves.
    """

    names: tuple[str, ...]
    module: str
    function: str = "measure"
    options: dict[str, Any] = field(default_factory=dict[str, Any])
    repeated: bool = False


MEASURES: Final = (
    Measure(names=("cli_help",), module="quiet", function="cli_help"),
    Measure(names=("history_pass",), module="quiet", function="history_pass"),
    Measure(names=("install_10",), module="releases", options={"packages": 10, "phases": ("install",)}, repeated=True),
    Measure(
        names=("install_100", "upgrade_100", "uninstall_100"),
        module="releases",
        options={"packages": 100},
        repeated=True,
    ),
    Measure(
        names=("install_300",), module="releases", options={"packages": 300, "phases": ("install",)}, repeated=True
    ),
    Measure(names=("idle_200",), module="quiet", function="idle", options={"packages": 200}),
    Measure(
        names=("idle_1000",),
        module="many",
        options={"packages": 1000, "first": 200, "cache": 300, "seconds": 60.0},
    ),
    Measure(names=("restart_200",), module="recovery", function="idle", options={"packages": 200}),
    Measure(names=("event_latency",), module="events", function="latency", options={"events": 200}),
    Measure(names=("event_burst",), module="events", function="burst", options={"writes": 300}),
    Measure(names=("takeover",), module="takeover", options={"packages": 12, "runs": 3}),
    Measure(names=("roles",), module="roles", options={"packages": 20}),
    Measure(names=("drift",), module="drift"),
    Measure(names=("plan_1000x10",), module="plan_1000x10", options={"runs": 15}),
    Measure(names=("operator",), module="operators", options={"objects": 1000, "samples": 500}),
    Measure(names=("recovery",), module="recovery", function="upgrading", options={"runs": 10}),
)


async def run(measure: Measure, stack: Stack, folder: Path, runs: int) -> list[Row]:
    """Run one measure, several times if it wants that; return the medians."""
    function = getattr(importlib.import_module(measure.module), measure.function)
    found: list[list[Row]] = []
    for number in range(runs if measure.repeated else 1):
        place = folder / f"{measure.names[0]}-{number}"
        place.mkdir()
        place.chmod(0o777)  # hooks run as users of their own, and note here what is measured
        found.append(await function(stack, place, **measure.options))
    return median(found) if measure.repeated else found[0]


def chosen(only: str) -> list[Measure]:
    """Return the measures that bring a figure named in ``only`` (comma-separated, with * and ?); all if it is empty.

    Raises:
        SystemExit: a name is not known.
    """
    patterns = [one for one in only.replace(" ", ",").split(",") if one]
    names = [name for measure in MEASURES for name in measure.names]
    if unknown := [one for one in patterns if not fnmatch.filter(names, one)]:
        raise SystemExit(f"bench: there is no {', '.join(unknown)}; there are: {', '.join(names)}")
    return [
        measure
        for measure in MEASURES
        if not patterns or any(fnmatch.filter(measure.names, pattern) for pattern in patterns)
    ]


def main() -> None:
    """Measure, show, keep."""
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("--only", default="", help="names of figures, comma-separated")
    parser.add_argument("--runs", type=int, default=3, help="runs behind a median")
    parser.add_argument("--results", type=Path, default=LATEST, help="file for the figures")
    options = parser.parse_args()
    measures = chosen(options.only)
    where = machine()
    sys.stdout.write(f"{where}\n")
    with tempfile.TemporaryDirectory(prefix="windlass-bench-") as name, session_stack(Path(name) / "stack") as stack:
        os.environ[WRITABLE] = name
        Path(name).chmod(0o711)

        async def all_of_them() -> None:
            for measure in measures:
                rows = await run(measure, stack, Path(name), options.runs)
                sys.stdout.writelines(f"{line(row)}\n" for row in rows)
                sys.stdout.flush()
                # At once: a later measure that fails takes nothing away.
                keep(options.results, documents(rows, where))

        asyncio.run(all_of_them())


if __name__ == "__main__":
    main()
