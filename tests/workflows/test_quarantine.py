"""What a lifecycle says of parts of its package that do not work beside it, and of steps that change workers."""

from __future__ import annotations

from typing import Any

import pytest
from workflows.life import Life

from support.waiting import eventually
from windlass.contracts.lifecycle import FaultyPart, Quarantined
from windlass.temporal.failures import handed_over

INFORMER = FaultyPart(part="informer", reason="ValueError", cause="ValueError at x.py:1")
COMPARISON = FaultyPart(part="drift", reason="RecursionError", cause="RecursionError at y.py:2")


async def tell(life: Life, source: str, *parts: FaultyPart) -> None:
    assert await life.lifecycles.quarantined(life.key, Quarantined(source=source, parts=parts))


async def shown(life: Life, status: str, *words: str, without: str = "-") -> Any:
    """Wait until the newest status says so; return the condition."""

    def said() -> Any:
        newest = life.world.statuses[-1].status
        found = [one for one in newest.conditions or [] if one.type == "Quarantined"]
        return [
            one
            for one in found
            if one.status == status
            and all(word in one.message for word in words)
            and without not in one.message.split()
        ]

    [condition] = await eventually(said, what=f"Quarantined {status}: {words}")
    return condition


async def test_a_broken_part_is_a_condition_and_the_package_stays_ready(life: Life) -> None:
    await life.changed()
    await life.rests()
    assert "Quarantined" not in [one.type for one in life.world.statuses[-1].status.conditions or []]
    await tell(life, "worker", INFORMER)
    condition = await shown(life, "True", "informer", "x.py:1")
    assert condition.reason == "PartFailed"
    conditions = life.world.statuses[-1].status.conditions or []
    assert [one.status for one in conditions if one.type == "Ready"] == ["True"]
    await tell(life, "worker")
    await shown(life, "False")
    notes = [note.reason for request in life.world.statuses for note in request.notes]
    assert [reason for reason in notes if reason.startswith("Quarantine")] == ["Quarantined", "QuarantineEnded"]


async def test_processes_speak_of_their_own_parts_only(life: Life) -> None:
    await life.changed()
    await life.rests()
    await tell(life, "worker", INFORMER)
    await tell(life, "watcher", COMPARISON)
    await shown(life, "True", "informer", "drift")
    await tell(life, "worker")
    await shown(life, "True", "drift", without="informer:")
    await tell(life, "watcher")
    await shown(life, "False")


async def test_what_status_says_already_is_not_written_again(life: Life) -> None:
    await life.changed()
    await life.rests()
    await tell(life, "worker", INFORMER)
    await shown(life, "True", "informer")
    written = len(life.world.statuses)
    await tell(life, "worker", INFORMER)
    await tell(life, "watcher", COMPARISON)
    await shown(life, "True", "drift")
    assert len(life.world.statuses) == written + 1


async def test_nothing_is_said_of_parts_that_work(life: Life) -> None:
    await life.changed()
    await life.rests()
    written = len(life.world.statuses)
    await tell(life, "worker")
    await life.status()
    assert len(life.world.statuses) == written


@pytest.mark.parametrize("times", [1, 2])
async def test_a_step_that_changes_workers_is_no_failure(life: Life, times: int) -> None:
    life.world.fail("helm.upgrade_release", *[handed_over("the worker has lost the Lease of the shard")] * times)
    await life.changed()
    await life.rests()
    for request in life.world.statuses:
        assert request.status.failure is None
        assert "LeaseLost" not in {one.reason for one in request.status.conditions or []}
        assert "LeaseLost" not in {note.reason for note in request.notes}
