"""Temporal is killed after a run of an event hook was journalled, and before Temporal knows of its end."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from faults.points import WAIT_SECONDS
from faults.servers import back
from faults.servers import killed as kill_part

from support.event_hooks import Journal, labelled, named, put, write
from support.faults import Hold, HoldingProxy
from support.installation import Installation, installed
from support.running import packages
from support.waiting import eventually
from windlass.devstack.stack import Stack
from windlass.domain.ids import SYSTEM_NAMESPACE, record_name
from windlass.ports.kube import ObjectRef

pytestmark = pytest.mark.timeout(6 * WAIT_SECONDS)


@pytest.fixture
async def installation(own_stack: Stack, tmp_path: Path) -> AsyncIterator[Installation]:
    """An installation with no process running yet, on the stack whose parts may be killed."""
    async with installed(own_stack, tmp_path / "installation") as made:
        packages(made).mkdir()
        await made.repository(packages(made))
        yield made


async def watching(installation: Installation, journal: Journal, body: str) -> None:
    """Install a package whose hook follows ConfigMaps, and let it be told of a first one."""
    binding = labelled("told", jqFilter=".data | {x}", executeHookOnSynchronization=False)
    write(installation, "telling", hook=journal.hook(binding, body=body))
    await installation.application("tells", "telling", "1.0.0")
    await installation.ready("tells")
    await put(installation, "before", "told", x="1")
    await journal.told("Added", "before")
    await at_rest(installation)


async def at_rest(installation: Installation) -> None:
    async def empty() -> bool:
        queues = (await installation.lifecycles.queues(installation.key("tells"))).queues
        return not any(queues.values())

    await eventually(empty, WAIT_SECONDS, what="all queues are empty")


async def told_once(installation: Installation, journal: Journal) -> None:
    """Tell of one more object: it and everything before it were told once, in order."""
    await put(installation, "after", "told", x="1")
    await journal.told("Added", "after", within=WAIT_SECONDS)
    await at_rest(installation)
    assert [(item["watchEvent"], named(item)) for item in journal.items] == [
        ("Added", name) for name in ("before", "during", "after")
    ]


async def record(installation: Installation) -> str:
    """Return the version of the state Secret, in which runs are journalled."""
    key = installation.key("tells")
    ref = ObjectRef(api_version="v1", kind="Secret", namespace=SYSTEM_NAMESPACE, name=record_name(key))
    found = await installation.kube.get(ref)
    return found["metadata"]["resourceVersion"] if found else ""


async def test_a_short_run_whose_workflow_task_is_lost_is_not_repeated(
    own_stack: Stack, installation: Installation, tmp_path: Path
) -> None:
    # Temporal is killed while the hook runs: nothing of the workflow task that began the run is ever stored. The hook
    # asks for it, since it may not signal processes of others itself.
    journal, armed, killed = Journal(tmp_path), tmp_path / "armed", tmp_path / "killed"
    pid = own_stack.pids["temporal"]
    installation.start()
    asks = f"if [ -e {armed} ]; then rm {armed}; until [ -e {killed} ]; do sleep 0.005; done; fi"
    await watching(installation, journal, body=asks)
    before = await record(installation)
    armed.touch()
    await put(installation, "during", "told", x="1")
    await eventually(lambda: not armed.exists(), WAIT_SECONDS, every=0.002, what="the hook asks for the kill")
    os.kill(pid, signal.SIGKILL)
    killed.touch()
    await journal.told("Added", "during", within=WAIT_SECONDS)

    async def journalled() -> bool:
        return await record(installation) != before

    await eventually(journalled, every=0.01, what="the run is journalled")
    await back(own_stack, "temporal", pid)
    await told_once(installation, journal)


@pytest.mark.parametrize("also", [False, True], ids=["temporal", "temporal-and-worker"])
async def test_a_long_run_that_was_journalled_is_not_repeated(
    own_stack: Stack, installation: Installation, tmp_path: Path, *, also: bool
) -> None:
    journal = Journal(tmp_path)
    async with HoldingProxy(own_stack).serving() as proxy:
        installation.start(**proxy.environ(installation.folder))
        await watching(installation, journal, body="true")
        # The API server has the journal, the worker does not know: the run goes on below its remote activity.
        secret = f"(PUT|PATCH) .*/secrets/{record_name(installation.key('tells'))}$"
        hold = proxy.hold(Hold(at=secret, answered=True))
        await put(installation, "during", "told", x="1")
        await eventually(lambda: hold.holding, WAIT_SECONDS, what="the run is journalled")
        await kill_part(own_stack, "temporal")
        if also:
            installation.kill()
            installation.start()
        proxy.release()
        await told_once(installation, journal)
