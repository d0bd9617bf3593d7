"""How long the packages of a lost worker stand still: one of three is killed, and every package is changed at once.

Seconds count from the kill to the last package ready with its new settings.
"""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import time
from collections import Counter
from pathlib import Path
from typing import Final

from rows import Row

from support.installation import Installation, installed, write_greeter
from support.waiting import eventually
from windlass.devstack.stack import Stack
from windlass.domain.ids import shards_name
from windlass.ports.kube import ObjectRef

WAIT: Final = 120.0
"""Seconds until anything here is given up."""


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


async def measure(stack: Stack, folder: Path, *, packages: int, runs: int) -> list[Row]:
    """Kill one of three workers, several times over."""
    found = [await once(stack, folder / str(number), packages) for number in range(runs)]
    return [
        Row(name="takeover", metric="median", unit="s", value=statistics.median(found), n=runs),
        Row(name="takeover", metric="worst", unit="s", value=max(found), n=runs),
    ]
