"""Upgrades that fail are rolled back: on a real cluster, with real hooks."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from support.installation import Installation, condition
from support.running import events, keep, revisions, running
from support.upgrades import JOB, STUCK, Site
from support.waiting import eventually
from windlass.devstack.stack import Stack


@pytest.fixture(scope="module")
async def installation(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Installation]:
    """One running installation for all tests here; each has a package and an Application of its own."""
    async with running(stack, tmp_path_factory.mktemp("policy")) as made:
        yield made


async def test_a_rollout_that_never_ends_is_rolled_back_until_the_object_changes(
    installation: Installation, tmp_path: Path
) -> None:
    site = Site(installation, "back", tmp_path)
    await site.wants("1.0.0", "rollback", 2, greeting="hi")
    await site.ready("1.0.0")
    assert site.ran() == ["1.0.0"] * 2
    await site.wants(STUCK, "rollback", 2, greeting="ho")
    obj = await site.rests("RolledBack", version="1.0.0")
    assert await site.stands() == {"version": "1.0.0", "greeting": "hi"}
    assert site.ran() == [STUCK, STUCK, "1.0.0", "1.0.0"], "the hooks ran as the old version's"
    assert (await revisions(installation, "back"))[-1] == "deployed"
    ready = condition(obj, "Ready")
    assert (ready["status"], ready["reason"]) == ("False", "RolledBack")
    rejected = obj["status"]["rejected"]
    assert (rejected["version"], rejected["step"], rejected["reason"]) == (STUCK, "UpgradeRelease", "ReadinessTimeout")
    assert rejected["instead"]["revision"] == obj["status"]["release"]["revision"]

    async def told() -> bool:  # Events are recorded after the status is written
        return {"RollingBack", "RolledBack"} <= {one["reason"] for one in await events(installation, "back")}

    await eventually(told, what="Events tell of the way back")

    made = await revisions(installation, "back")
    await site.wants(STUCK, "rollback", 3, greeting="ho")  # not another version, not other settings
    await site.rests("RolledBack", observedGeneration=3)
    assert (await revisions(installation, "back"), site.ran()) == (made, []), "what was rejected is not tried again"

    await site.wants("3.0.0", "rollback", 2, greeting="ho")
    obj = await site.ready("3.0.0")
    assert "rejected" not in obj["status"]
    assert await site.stands() == {"version": "3.0.0", "greeting": "ho"}
    await keep(installation, "back", "rollback-of-an-upgrade")


async def test_a_job_that_failed_for_good_is_rolled_back_at_once_and_retried_on_order(
    installation: Installation, tmp_path: Path
) -> None:
    site = Site(installation, "job", tmp_path)
    await site.wants("1.0.0", "rollback")
    await site.ready("1.0.0")
    await site.wants(JOB, "rollback")
    obj = await site.rests("RolledBack", version="1.0.0")
    assert obj["status"]["rejected"]["reason"] == "ResourceFailed"
    assert obj["status"]["release"]["revision"] == 3, "one try"
    answer = await installation.lifecycles.retry(site.key, site.action("the database was mended"))
    assert (answer.accepted, answer.message) == (True, f"{JOB} is tried again")
    obj = await installation.status(
        "job", lambda status: (status.get("release") or {}).get("revision") == 5 and status["phase"] == "RolledBack"
    )
    assert [one["action"] for one in obj["status"]["actions"]] == ["retry"]
    assert await site.stands() == {"version": "1.0.0", "greeting": "hello"}


async def test_settings_that_do_not_work_go_back_to_those_before(installation: Installation, tmp_path: Path) -> None:
    site = Site(installation, "settings", tmp_path)
    await site.wants("1.0.0", "rollback", 1, greeting="one")
    await site.ready("1.0.0")
    await site.wants("1.0.0", "rollback", 1, greeting="two", stuck=True)
    await site.rests("RolledBack", version="1.0.0")
    assert await site.stands() == {"version": "1.0.0", "greeting": "one"}
    await site.wants("1.0.0", "rollback", 1, greeting="much too long for this schema")
    obj = await installation.status(
        "settings", lambda status: (status.get("rejected") or {}).get("reason") == "ValidationFailed"
    )
    await site.rests("RolledBack")
    await site.wants("1.0.0", "rollback", 1, greeting="one")
    obj = await site.ready("1.0.0")
    assert "rejected" not in obj["status"]
    await keep(installation, "settings", "rollback-of-settings")


async def test_a_worker_that_dies_on_the_way_back_is_not_missed(installation: Installation, tmp_path: Path) -> None:
    site = Site(installation, "killed", tmp_path)
    await site.wants("1.0.0", "rollback", 1, greeting="hi")
    await site.ready("1.0.0")
    (tmp_path / "hold-1.0.0").touch()
    await site.wants(JOB, "rollback", 1, greeting="ho")
    obj = await site.rests("RollingBack", step="Startup hooks/note.sh")
    assert condition(obj, "Ready")["reason"] == "RollingBack"
    installation.kill()
    (tmp_path / "hold-1.0.0").unlink()
    installation.start()
    obj = await site.rests("RolledBack", version="1.0.0")
    assert await site.stands() == {"version": "1.0.0", "greeting": "hi"}
    assert obj["status"]["release"]["revision"] == 3, "one release of each"
    assert obj["status"]["rejected"]["version"] == JOB
