"""Helm operations in workers of their own."""

from __future__ import annotations

import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from faults.subjects import Subject

from support.installation import Installation, installed
from support.waiting import eventually
from windlass.devstack.stack import Stack
from windlass.domain.ids import pool_queue

WITHIN = 60.0


@pytest.fixture
async def installation(stack: Stack, tmp_path: Path) -> AsyncIterator[Installation]:
    async with installed(stack, tmp_path / "installation", WINDLASS_POOLS="helm") as made:
        await made.repository(tmp_path / "packages")
        yield made


@pytest.fixture
def processes(installation: Installation) -> Iterator[dict[str, subprocess.Popen[bytes]]]:
    """One process for each role."""
    running: dict[str, subprocess.Popen[bytes]] = {}
    for role in ("workflows", "helm", "watcher"):
        running[role] = installation.start(role, data=role)
        installation.process = None
    yield running
    for process in running.values():
        process.kill()
        process.wait()


async def queues(installation: Installation, name: str) -> dict[str, str]:
    """Return activity type to the task queue that it was scheduled on."""
    history = await installation.history(name)
    scheduled = [
        event.activity_task_scheduled_event_attributes
        for event in history.events
        if event.HasField("activity_task_scheduled_event_attributes")
    ]
    return {one.activity_type.name: one.task_queue.name for one in scheduled}


async def test_each_kind_of_work_is_done_where_it_belongs(
    installation: Installation, processes: dict[str, subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    subject = Subject("shop", tmp_path / "packages", tmp_path / "shop")
    subject.write("1.0.0", "2.0.0")
    await installation.application("shop", "shop", "1.0.0")
    await installation.ready("shop", "1.0.0", within=WITHIN)
    found = await queues(installation, "shop")
    assert found["hook.run"] != pool_queue(installation.name, "helm")
    assert found["helm.upgrade_release"] == pool_queue(installation.name, "helm")

    # The process with the hooks dies in the middle of one; the next one runs it again, and the two never meet.
    subject.clear()
    subject.hold("beforeHelm")
    await installation.application("shop", "shop", "2.0.0")
    await eventually(lambda: subject.wrote("beforeHelm started 2.0.0"), WITHIN)
    processes["workflows"].kill()
    processes["workflows"].wait()
    processes["workflows"] = installation.start("workflows", data="other")
    installation.process = None
    await eventually(lambda: subject.journal().count("beforeHelm started 2.0.0") == 2, WITHIN)
    subject.go_on()
    await installation.ready("shop", "2.0.0", within=WITHIN)
    assert not [line for line in subject.journal() if "meets" in line]
    await installation.delete("shop")
    await installation.gone("shop", within=WITHIN)


async def test_a_running_installation_goes_over_to_pools_and_back(installation: Installation, tmp_path: Path) -> None:
    subject = Subject("shop", tmp_path / "packages", tmp_path / "shop")
    subject.write("1.0.0", "2.0.0", "3.0.0")
    for version, pools in (("1.0.0", ""), ("2.0.0", "helm"), ("3.0.0", "")):
        installation.start("all", WINDLASS_POOLS=pools)
        await installation.application("shop", "shop", version)
        await installation.ready("shop", version, within=WITHIN)
        queue = (await queues(installation, "shop"))["helm.upgrade_release"]
        assert (queue == pool_queue(installation.name, "helm")) == bool(pools)
        assert installation.stop() == 0


async def test_an_unknown_pool_is_refused(installation: Installation) -> None:
    process = installation.start("all", WINDLASS_POOLS="helm,hocks")
    await eventually(lambda: process.poll() is not None)
    assert process.returncode == 1
    assert "set it to helm" in installation.log.read_text()
