"""What pools cost: packages installed by one process that does everything, and by one process for each kind of work.

Seconds count from the first package applied to the last one ready; packages have a hook and a chart of one object.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import time
from pathlib import Path
from typing import Final

from rows import Row

from support.installation import CONFIG_MAP, GREETING, installed, write_package
from windlass.devstack.stack import Stack

WAIT: Final = 300.0
"""Seconds until anything here is given up."""

HOOK: Final = """\
#!/bin/sh
[ "$1" = --config ] && echo '{"configVersion": "v1", "beforeHelm": 1}'
exit 0
"""

SHAPES: Final[dict[str, tuple[str, tuple[str, ...]]]] = {
    # name: (pools, the roles of the processes)
    "one_process": ("", ("all",)),
    "pools_one_process": ("helm", ("all",)),
    "pools": ("helm", ("workflows", "helm", "watcher")),
}


async def shape(stack: Stack, folder: Path, name: str, packages: int) -> list[Row]:
    """Install packages in one shape; wall time of all, CPU of all our processes."""
    pools, roles = SHAPES[name]
    names = [f"app-{number}" for number in range(packages)]
    processes: list[subprocess.Popen[bytes]] = []
    async with installed(stack, folder, WINDLASS_POOLS=pools) as installation:
        repository = folder.parent / f"packages-{name}"
        write_package(
            repository,
            "greeter",
            "1.0.0",
            templates={"config.yaml": CONFIG_MAP},
            settings=GREETING,
            hooks={"before.sh": HOOK},
        )
        await installation.repository(repository)
        for role in roles:
            processes.append(installation.start(role, data=role))
            installation.process = None
        try:
            await installation.application("warm", "greeter", "1.0.0")
            await installation.ready("warm", within=WAIT)
            before = sum(_cpu(process.pid) for process in processes)
            began = time.monotonic()
            await asyncio.gather(*(installation.application(one, "greeter", "1.0.0") for one in names))
            for one in names:
                await installation.ready(one, within=WAIT)
            wall = time.monotonic() - began
            used = sum(_cpu(process.pid) for process in processes) - before
        finally:
            for process in processes:
                process.kill()
                process.wait()
    figures = (("wall", wall), ("cpu_without_children", used))
    return [
        Row(name=f"roles_{name}", metric=metric, unit="s", value=round(value, 2), n=packages)
        for metric, value in figures
    ]


def _cpu(pid: int) -> float:
    """Return the CPU seconds of a process; Helm children and hooks that still run count for themselves."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def measure(stack: Stack, folder: Path, *, packages: int) -> list[Row]:
    """Install the same packages in every shape."""
    return [row for one in SHAPES for row in await shape(stack, folder / one, one, packages)]
