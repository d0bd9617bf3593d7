"""What costs nothing much: packages at rest, one pass in history, the help of the program."""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from pathlib import Path
from typing import Final

from rows import Row
from usage import used

from support.installation import installed, write_greeter
from windlass.devstack.stack import Stack
from windlass.domain.ids import package_workflow_id

WAIT: Final = 900.0
SETTLE_SECONDS: Final = 20.0
"""Until what follows an installation (status, events, caches) is over."""


async def idle(stack: Stack, folder: Path, *, packages: int, seconds: float = 60.0) -> list[Row]:
    """Measure the share of a core that packages at rest use: worker with watcher, Temporal beside it."""
    async with installed(stack, folder) as installation:
        write_greeter(folder / "packages", "1.0.0")
        await installation.repository(folder / "packages")
        process = installation.start()
        names = [f"app-{number}" for number in range(packages)]
        await asyncio.gather(*(installation.application(name, "greeter", "1.0.0") for name in names))
        for name in names:
            await installation.ready(name, "1.0.0", within=WAIT)
        await asyncio.sleep(SETTLE_SECONDS)
        temporal = stack.state.parts["temporal"].pid
        async with used(process.pid) as ours, used(temporal) as theirs:
            await asyncio.sleep(seconds)
    name, n = f"idle_{packages}", packages
    return [
        Row(name=name, metric="worker cpu", unit="% core", value=100 * ours.cpu / seconds, n=n),
        Row(name=name, metric="worker rss", unit="MB", value=ours.rss, n=n),
        Row(name=name, metric="temporal cpu", unit="% core", value=100 * theirs.cpu / seconds, n=n),
        Row(name=name, metric="temporal rss", unit="MB", value=theirs.rss, n=n),
    ]


async def history_pass(stack: Stack, folder: Path) -> list[Row]:
    """Count what an installation and an upgrade add to a history."""
    async with installed(stack, folder) as installation:
        write_greeter(folder / "packages", "1.0.0", "1.1.0")
        await installation.repository(folder / "packages")
        installation.start()
        handle = installation.client.get_workflow_handle(package_workflow_id(installation.key("counted")))
        rows: list[Row] = []
        events = size = 0
        for phase, version in (("install", "1.0.0"), ("upgrade", "1.1.0")):
            await installation.application("counted", "greeter", version)
            await installation.ready("counted", version, within=WAIT)
            await asyncio.sleep(1)  # the pass ends shortly after its status is written
            info = (await handle.describe()).raw_description.workflow_execution_info
            added = (info.history_length - events, (info.history_size_bytes - size) / 1000)
            events, size = info.history_length, info.history_size_bytes
            rows += [
                Row(name="history_pass", metric=f"{phase} events", unit="events", value=added[0], n=1),
                Row(name="history_pass", metric=f"{phase} size", unit="kB", value=added[1], n=1),
            ]
    return rows


async def cli_help(stack: Stack, folder: Path, *, times: int = 21) -> list[Row]:
    """Measure `windlass --help`, beside `helm --help`."""
    del folder
    program = Path(sys.executable).with_name("windlass")
    ours, theirs = [await _wall(str(program), times), await _wall(str(stack.tool("helm")), times)]
    return [Row(name="cli_help", metric="wall", unit="ms", value=ours, n=times, peer="helm CLI", peer_value=theirs)]


async def _wall(program: str, times: int) -> float:
    found: list[float] = []
    for _ in range(times):
        began = time.monotonic()
        process = await asyncio.create_subprocess_exec(program, "--help", stdout=asyncio.subprocess.DEVNULL)
        await process.wait()
        found.append(1000 * (time.monotonic() - began))
    return statistics.median(found)
