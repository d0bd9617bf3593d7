"""How long a deleted object of a release is gone: from the deletion to the object made anew."""

from __future__ import annotations

import asyncio
import statistics
import time
from pathlib import Path
from typing import Final

from rows import Row

from support.installation import installed, write_greeter
from support.waiting import eventually
from windlass.devstack.stack import Stack

WAIT: Final = 300.0
SETTLE_SECONDS: Final = 15.0
"""Until new revisions have been compared as a whole: what is measured is a deletion at rest."""


async def measure(stack: Stack, folder: Path, *, packages: int = 20) -> list[Row]:
    """Delete one object of each package, one after another: a second deletion of the same would count as a fight."""
    found: list[float] = []
    async with installed(stack, folder) as installation:
        write_greeter(folder / "packages", "1.0.0")
        await installation.repository(folder / "packages")
        installation.start()
        names = [f"app-{number}" for number in range(packages)]
        await asyncio.gather(*(installation.application(name, "greeter", "1.0.0") for name in names))
        for name in names:
            await installation.ready(name, "1.0.0", within=WAIT)
        await asyncio.sleep(SETTLE_SECONDS)
        for name in names:
            ref = installation.ref("ConfigMap", name)
            began = time.monotonic()
            await installation.kube.delete(ref)
            await eventually(lambda ref=ref: installation.kube.get(ref), WAIT, every=0.005)
            found.append(time.monotonic() - began)
    p95 = statistics.quantiles(found, n=20, method="inclusive")[-1]
    return [
        Row(name="drift", metric="deleted object back, p50", unit="s", value=statistics.median(found), n=packages),
        Row(name="drift", metric="deleted object back, p95", unit="s", value=p95, n=packages),
    ]
