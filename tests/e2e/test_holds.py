"""Upgrades that fail are held for an action, and good releases gone back to."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from support.installation import Installation, condition
from support.running import keep, revisions, running
from support.upgrades import HOOK, JOB, STUCK, Site, lose
from windlass.contracts.lifecycle import RollbackAction
from windlass.devstack.stack import Stack


@pytest.fixture(scope="module")
async def installation(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Installation]:
    """One running installation for all tests here; each has a package and an Application of its own."""
    async with running(stack, tmp_path_factory.mktemp("holds")) as made:
        yield made


async def test_a_hook_that_fails_holds_and_can_be_skipped(installation: Installation, tmp_path: Path) -> None:
    site = Site(installation, "skip", tmp_path)
    await site.wants("1.0.0", "hold", 1)
    await site.ready("1.0.0")
    await site.wants(HOOK, "hold", 1)
    obj = await site.rests("Held")
    held = obj["status"]["held"]
    assert (held["step"], held["cause"], held["reason"]) == (
        "AfterHelm hooks/after.sh",
        "Failed",
        "AfterHelmHooksFailed",
    )
    assert condition(obj, "Ready")["reason"] == "Held"
    assert "nextTry" not in obj["status"]["failure"]
    assert (await site.stands())["version"] == HOOK
    assert (await installation.lifecycles.skip(site.key, site.action())).accepted
    obj = await site.ready(HOOK)
    assert "held" not in obj["status"]
    assert [one["version"] for one in obj["status"]["revisions"]] == ["1.0.0"]
    await keep(installation, "skip", "hold-and-skip")


async def test_a_held_rollout_is_retried_and_then_rolled_back(installation: Installation, tmp_path: Path) -> None:
    site = Site(installation, "held", tmp_path)
    await site.wants("1.0.0", "hold", 1)
    await site.ready("1.0.0")
    await site.wants(STUCK, "hold", 1)
    await site.rests("Held")
    assert (await installation.lifecycles.retry(site.key, site.action())).accepted
    await site.rests("Upgrading")
    await site.rests("Held")
    action = RollbackAction(who="ann", why="it is late")
    assert (await installation.lifecycles.rollback(site.key, action)).accepted
    obj = await site.rests("RolledBack", version="1.0.0")
    assert [(one["action"], one.get("detail")) for one in obj["status"]["actions"]] == [
        ("retry", None),
        ("rollback", "to revision 1 (1.0.0)"),
    ]
    assert obj["status"]["actions"][-1]["why"] == "it is late"
    assert (await site.stands())["version"] == "1.0.0"
    await keep(installation, "held", "hold-retry-rollback")


async def test_a_hold_outlives_temporal(installation: Installation, tmp_path: Path) -> None:
    site = Site(installation, "lost", tmp_path)
    await site.wants("1.0.0", "hold", 1)
    await site.ready("1.0.0")
    await site.wants(JOB, "hold", 1)
    before = await site.rests("Held")
    await lose(installation, "lost")
    obj = await site.rests("Held")
    assert obj["status"]["held"] == before["status"]["held"]
    assert obj["status"]["revisions"] == before["status"]["revisions"]
    assert obj["status"]["workflow"]["runId"] != before["status"]["workflow"]["runId"]
    assert (await installation.lifecycles.rollback(site.key, RollbackAction(who="ann"))).accepted
    await site.rests("RolledBack", version="1.0.0")
    assert (await site.stands())["version"] == "1.0.0"

    await lose(installation, "lost")
    obj = await site.rests("RolledBack", version="1.0.0")
    assert obj["status"]["rejected"]["version"] == JOB
    await keep(installation, "lost", "rebuild-while-rolled-back")
    await installation.delete("lost")
    await installation.gone("lost")
    assert await revisions(installation, "lost") == []
