"""How long packages are without a worker's attention after a kill -9 (targets: design.md section 8).

Seconds count from the kill; the worker is started again at once.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from functools import partial
from pathlib import Path
from typing import Final

from faults.points import Point, laid_out
from rows import Row

from support.installation import Installation, installed, write_greeter
from support.waiting import eventually
from windlass.devstack.stack import Stack
from windlass.domain.ids import package_workflow_id

WAIT: Final = 300.0
"""Seconds until anything here is given up."""


async def idle(stack: Stack, folder: Path, *, packages: int) -> list[Row]:
    """Kill a worker over packages at rest; measure until all were compared, and until all lifecycles were loaded."""
    names = [f"app-{number}" for number in range(packages)]
    async with installed(stack, folder / "installation") as installation:
        write_greeter(folder / "packages", "1.0.0")
        await installation.repository(folder / "packages")
        installation.start()
        await asyncio.gather(*(installation.application(name, "greeter", "1.0.0") for name in names))
        for name in names:
            await installation.ready(name, "1.0.0", within=WAIT)
        before = [await _length(installation, name) for name in names]

        began = time.monotonic()
        installation.kill()
        installation.start()
        await eventually(lambda: installation.log.read_text().count('"compared"') >= 2, WAIT)
        compared = time.monotonic() - began
        # Asked again where the worker is still busy with the others.
        asked = (partial(installation.lifecycles.status, installation.key(name)) for name in names)
        await asyncio.gather(*(eventually(one, WAIT) for one in asked))
        answered = time.monotonic() - began
        added = sum([await _length(installation, name) for name in names]) - sum(before)
        revisions = [await installation.release(name) for name in names]
    once = sum(found == {1: "deployed"} for found in revisions)
    figures = [
        ("compared", "s", compared),
        ("all have answered a query", "s", answered),
        ("events added", "events", added),
        ("releases as before", "releases", once),
    ]
    return [Row(name=f"restart_{packages}", metric=m, unit=u, value=v, n=packages) for m, u, v in figures]


async def upgrading(stack: Stack, folder: Path, *, runs: int) -> list[Row]:
    """Kill a worker whose upgrade is seen pending; measure until the new version is ready."""
    found: list[float] = []
    for run in range(runs):
        point = Point(
            name="pending-upgrade",
            at="(POST|PUT|PATCH) .*/configmaps/{release}$",
            activity="helm.upgrade_release",
            status="pending-upgrade",
        )
        async with laid_out(stack, folder / f"upgrade-{run}") as field:
            await field.place([point], "1.0.0", "2.0.0")
            field.start()
            await field.install("1.0.0")
            await field.reach(lambda one: one.want("2.0.0"))
            began = time.monotonic()
            ready = field.installation.ready
            await field.kill_and_restart(lambda one: ready(one.point.name, "2.0.0", within=WAIT))  # noqa: B023 - awaited here
            found.append(time.monotonic() - began)
    figures = [("ready, median", statistics.median(found)), ("ready, worst", max(found))]
    return [Row(name="recovery", metric=m, unit="s", value=v, n=runs) for m, v in figures]


async def _length(installation: Installation, name: str) -> int:
    handle = installation.client.get_workflow_handle(package_workflow_id(installation.key(name)))
    return (await handle.describe()).raw_description.workflow_execution_info.history_length
