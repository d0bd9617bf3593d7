"""Actions for single steps of a lifecycle, and for a release of before: on a real cluster, with real hooks."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from support.installation import Installation, condition
from support.running import keep, running
from support.upgrades import Site, lose
from windlass.contracts.lifecycle import PauseAction, ResumeAction, RollbackAction
from windlass.devstack.stack import Stack


@pytest.fixture(scope="module")
async def installation(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Installation]:
    """One running installation for all tests here; each has a package and an Application of its own."""
    async with running(stack, tmp_path_factory.mktemp("steps")) as made:
        yield made


async def test_a_good_revision_can_be_gone_back_to(installation: Installation, tmp_path: Path) -> None:
    site = Site(installation, "chosen", tmp_path)
    for version, greeting in (("1.0.0", "one"), ("1.1.0", "two"), ("3.0.0", "three")):
        await site.wants(version, greeting=greeting)
        await site.ready(version)
    refused = await installation.lifecycles.rollback(site.key, RollbackAction(who="ann", to=8))
    assert not refused.accepted
    assert refused.message == "revision 8 is no good release; there are: 1 (1.0.0), 2 (1.1.0), 3 (3.0.0)"
    assert (await installation.lifecycles.rollback(site.key, RollbackAction(who="ann", to=1, why="older"))).accepted
    await site.rests("RolledBack", version="1.0.0")
    assert await site.stands() == {"version": "1.0.0", "greeting": "one"}
    assert (await installation.lifecycles.rollback(site.key, RollbackAction(who="ann", to=2))).accepted
    await site.rests("RolledBack", version="1.1.0")
    assert await site.stands() == {"version": "1.1.0", "greeting": "two"}
    assert (await installation.lifecycles.retry(site.key, site.action())).accepted
    await site.ready("3.0.0")
    assert await site.stands() == {"version": "3.0.0", "greeting": "three"}
    await keep(installation, "chosen", "requested-rollback")


async def test_a_rollout_is_cancelled_and_goes_on_when_ordered(installation: Installation, tmp_path: Path) -> None:
    site = Site(installation, "stop", tmp_path)
    await installation.application("stop", "stop", "1.0.0", settings={"stuck": True})  # would wait for ten minutes
    await installation.status("stop", lambda status: status.get("progress"))
    answer = await installation.lifecycles.cancel(site.key, site.action("wrong cluster"))
    assert answer.accepted, answer.message
    obj = await site.rests("Held")
    assert (obj["status"]["held"]["step"], obj["status"]["held"]["cause"]) == ("UpgradeRelease", "Cancelled")
    assert condition(obj, "Ready")["message"].startswith("UpgradeRelease was cancelled")
    assert "failure" not in obj["status"]
    assert (await installation.lifecycles.resume(site.key, ResumeAction(who="ann"))).accepted
    await installation.status("stop", lambda status: status.get("progress"))
    await site.wants("1.0.0")
    obj = await site.ready("1.0.0")
    assert [(one["action"], one.get("detail")) for one in obj["status"]["actions"]] == [
        ("cancel", "UpgradeRelease"),
        ("resume", None),
    ]
    await keep(installation, "stop", "cancelled-step")


async def test_a_breakpoint_holds_before_the_release_and_outlives_temporal(
    installation: Installation, tmp_path: Path
) -> None:
    site = Site(installation, "point", tmp_path)
    await site.wants("1.0.0")
    await site.ready("1.0.0")
    answer = await installation.lifecycles.pause(site.key, PauseAction(who="ann", why="to look", before=("run",)))
    assert (answer.accepted, answer.message) == (True, "the lifecycle holds before UpgradeRelease")
    site.ran()
    await site.wants("1.1.0")
    obj = await site.rests("Paused", step="Breakpoint")
    assert obj["status"]["breakpoints"] == ["UpgradeRelease"]
    assert (await site.stands(), site.ran()) == ({"version": "1.0.0", "greeting": "hello"}, ["1.1.0"] * 2)

    await lose(installation, "point")
    obj = await site.rests("Paused", step="Breakpoint")
    assert condition(obj, "Ready")["reason"] == "Breakpoint"
    assert (await site.stands())["version"] == "1.0.0"
    assert (await installation.lifecycles.resume(site.key, ResumeAction(who="ann"))).accepted
    obj = await site.ready("1.1.0")
    assert "breakpoints" not in obj["status"]
    await keep(installation, "point", "breakpoint")
