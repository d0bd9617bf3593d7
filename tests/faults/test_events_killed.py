"""A worker is killed while a burst of changes is told to a hook: nothing that happened is lost, deletions included."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from faults.points import WAIT_SECONDS

from support.event_hooks import Journal, drop, labelled, named, put, write
from support.running import running
from support.waiting import eventually
from windlass.devstack.stack import Stack

OBJECTS = 30


@pytest.mark.timeout(6 * WAIT_SECONDS)
async def test_a_worker_killed_in_mid_burst_loses_no_change_and_no_deletion(stack: Stack, tmp_path: Path) -> None:
    journal, begun, gate = Journal(tmp_path), tmp_path / "begun", tmp_path / "gate"
    body = f"touch {begun}; while [ -e {gate} ]; do sleep 0.05; done"
    binding = labelled("burst", jqFilter=".data | {x}", executeHookOnSynchronization=False)
    async with running(stack, tmp_path) as installation:
        write(installation, "bursting", hook=journal.hook(binding, body=body))
        await installation.application("bursts", "bursting", "1.0.0")
        await installation.ready("bursts")
        for number in range(OBJECTS):
            await put(installation, f"k-{number}", "burst", x="1")
        await journal.told("Added", f"k-{OBJECTS - 1}")

        gate.touch()
        begun.unlink()
        writes = [asyncio.ensure_future(put(installation, f"k-{n}", "burst", x="2")) for n in range(OBJECTS)]
        await eventually(begun.exists, every=0.01, what="the hook runs in mid burst")
        installation.kill()
        assert not [item for item in journal.items if item["filterResult"]["x"] == "2"], "killed while the hook ran"
        gate.unlink()
        await asyncio.gather(*writes)
        await drop(installation, "k-3")
        await drop(installation, "k-4")
        await put(installation, "k-4", "burst", x="3")  # another one of the same name
        await put(installation, "k-new", "burst", x="1")
        installation.start()

        await journal.told("Deleted", "k-3", within=WAIT_SECONDS)
        await journal.told("Added", "k-new", within=WAIT_SECONDS)

        def newest() -> dict[str, str]:
            told: dict[str, str] = {}
            for item in journal.items:
                if item["watchEvent"] == "Deleted":
                    told.pop(named(item), None)
                else:
                    told[named(item)] = item["filterResult"]["x"]
            return told

        wanted = {f"k-{number}": "2" for number in range(OBJECTS)} | {"k-4": "3", "k-new": "1"}
        del wanted["k-3"]

        def all_told() -> bool:
            assert newest() == wanted
            return True

        await eventually(all_told, WAIT_SECONDS, what="everything is told")

        async def at_rest() -> bool:
            queues = (await installation.lifecycles.queues(installation.key("bursts"))).queues
            return not any(queues.values())

        await eventually(at_rest, WAIT_SECONDS, what="all queues are empty")
        told = len(journal.items)

        # Once more, with nothing under way: what was told is not told again.
        installation.kill()
        await drop(installation, "k-5")
        installation.start()
        await journal.told("Deleted", "k-5", within=WAIT_SECONDS)
        assert [named(item) for item in journal.items[told:]] == ["k-5"]
