"""How fast and how well combined a package's hook hears of changes (targets: design.md section 8).

Everything is on: sandbox, payload codec, a jq filter, snapshots of another binding, the journal in the state Secret.
The hook is a shell script whose first act is to note the time, so its process start is what is measured.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rows import Row
from temporalio.api.enums.v1 import EventType

from support.installation import CONFIG_MAP, GREETING, Installation, write_package
from support.running import packages, running
from support.waiting import eventually
from windlass.devstack.stack import Stack
from windlass.domain.ids import package_workflow_id

WAIT: Final = 120.0
"""Seconds until anything here is given up."""

SLOW: Final = 3
"""Seconds of the slow run of the burst."""


@dataclass(frozen=True, kw_only=True)
class Run:
    """One run of the hook: when its process started and ended, in seconds since the epoch, and the newest it saw."""

    started: float
    ended: float
    newest: int


class Field:
    """One package whose hook follows the ConfigMaps with its label, and notes when it ran and what it saw."""

    def __init__(self, installation: Installation, notes: Path) -> None:
        self.installation = installation
        self._notes = notes
        self._read = 0
        self._runs: list[Run] = []

    async def write(self, name: str, number: int) -> float:
        """Write one ConfigMap through the API; return when the request was sent."""
        sent = time.time()
        await self.installation.apply(
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {
                    "name": name,
                    "namespace": self.installation.namespace,
                    "labels": {"app": "watched"},
                },
                "data": {"number": str(number), "padding": "x" * 500},
            }
        )
        return sent

    def runs(self) -> list[Run]:
        """Return the runs so far; only what was noted since the last call is read: looking must cost nothing."""
        if self._notes.exists() and self._notes.stat().st_size > self._read:
            with self._notes.open("rb") as notes:
                notes.seek(self._read)
                new = notes.read()
            whole = new[: new.rfind(b"\n") + 1]
            self._read += len(whole)
            self._runs += map(_run, whole.decode().splitlines())
        return list(self._runs)

    async def sees(self, number: int) -> list[Run]:
        """Wait until a run has seen ``number``; return all runs."""

        def seen() -> list[Run]:
            runs = self.runs()
            return runs if any(run.newest >= number for run in runs) else []

        return await eventually(seen, WAIT, every=0.002, what=f"a run that saw {number}")

    async def failed_tasks(self) -> int:
        """Count the workflow tasks of the lifecycle's runs that failed or timed out."""
        workflow_id = package_workflow_id(self.installation.key("listens"))
        bad = {EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED, EventType.EVENT_TYPE_WORKFLOW_TASK_TIMED_OUT}
        count = 0
        async for execution in self.installation.client.list_workflows(f"WorkflowId = '{workflow_id}'"):
            handle = self.installation.client.get_workflow_handle(workflow_id, run_id=execution.run_id)
            count += sum(event.event_type in bad for event in (await handle.fetch_history()).events)
        return count


def _run(line: str) -> Run:
    started, ended, context = line.split(" ", 2)
    numbers = [int(item["filterResult"]["number"]) for item in json.loads(context) if "filterResult" in item]
    return Run(started=float(started), ended=float(ended), newest=max(numbers, default=-1))


@asynccontextmanager
async def field(stack: Stack, folder: Path, *, slow: bool = False) -> AsyncGenerator[Field]:
    """Make an installation with the package installed and told of what exists."""
    notes, trigger = folder / "notes", folder / "slow"
    watched = {
        "name": "watched",
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "labelSelector": {"matchLabels": {"app": "watched"}},
        "jqFilter": ".data | {number}",
        "includeSnapshotsFrom": ["others"],
    }
    others = {
        "name": "others",
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "labelSelector": {"matchLabels": {"app": "others"}},
        "executeHookOnEvent": [],
        "executeHookOnSynchronization": False,
    }
    config = json.dumps({"configVersion": "v1", "kubernetes": [watched, others]})
    delay = f"[ -e {trigger} ] && {{ rm {trigger}; sleep {SLOW}; }}\n" if slow else ""
    hook = (
        f"#!/bin/bash\nif [ \"$1\" = --config ]; then echo '{config}'; exit 0; fi\n"
        f'started=$EPOCHREALTIME\n{delay}echo "$started $EPOCHREALTIME $(<"$BINDING_CONTEXT_PATH")" >> {notes}\n'
    )
    async with running(stack, folder) as installation:
        write_package(
            packages(installation),
            "listener",
            "1.0.0",
            templates={"config.yaml": CONFIG_MAP},
            settings=GREETING,
            hooks={"listen.sh": hook},
        )
        for number in range(20):
            metadata: dict[str, Any] = {
                "name": f"other-{number}",
                "namespace": installation.namespace,
                "labels": {"app": "others"},
            }
            await installation.apply(
                {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": "b"}}
            )
        await installation.application("listens", "listener", "1.0.0")
        await installation.ready("listens", within=WAIT)
        yield Field(installation, notes)


async def latency(stack: Stack, folder: Path, *, events: int) -> list[Row]:
    """Write one object at a time; measure from the request to the start of the hook's process."""
    async with field(stack, folder) as laid:
        for number in range(10):  # connections and caches are warm in a worker that lives
            await laid.write("one", number)
            await laid.sees(number)
        found: list[float] = []
        for number in range(10, 10 + events):
            await asyncio.sleep(0.02)
            sent = await laid.write("one", number)
            runs = await laid.sees(number)
            found.append(1000 * (runs[-1].started - sent))
        failed = await laid.failed_tasks()
    cuts = statistics.quantiles(found, n=100)
    return [
        Row(name="event_latency", metric="p50", unit="ms", value=round(cuts[49], 1), n=events),
        Row(name="event_latency", metric="p95", unit="ms", value=round(cuts[94], 1), n=events),
        Row(name="event_latency", metric="failed_workflow_tasks", unit="count", value=failed, n=events),
    ]


async def burst(stack: Stack, folder: Path, *, writes: int) -> list[Row]:
    """Write many objects at once, to an idle hook and to one that is running for three seconds."""
    rows: list[Row] = []
    async with field(stack, folder, slow=True) as laid:
        for case, slow in (("idle", False), ("busy", True)):
            first = 0 if case == "idle" else 10_000
            busy_until = 0.0
            if slow:
                before = len(laid.runs())
                (folder / "slow").touch()
                await laid.write("slow", first)
                await eventually(lambda: not (folder / "slow").exists(), WAIT, every=0.01)
            before = len(laid.runs())
            limit = asyncio.Semaphore(20)

            async def one(number: int, limit: asyncio.Semaphore = limit) -> float:
                async with limit:
                    await laid.write(f"burst-{number % 100}", number)
                return time.time()

            done = await asyncio.gather(*(one(first + number) for number in range(1, writes + 1)))
            runs = (await laid.sees(first + writes))[before:]
            if slow:
                busy_until = runs[0].ended
                runs = runs[1:]
            last = next(run for run in runs if run.newest >= first + writes)
            late = last.started - max(*done, busy_until)
            rows += [
                Row(name="event_burst", metric=f"{case}_runs", unit="count", value=len(runs), n=writes),
                Row(name="event_burst", metric=f"{case}_last", unit="ms", value=round(1000 * late, 1), n=writes),
            ]
        failed = await laid.failed_tasks()
    return [*rows, Row(name="event_burst", metric="failed_workflow_tasks", unit="count", value=failed, n=writes)]
