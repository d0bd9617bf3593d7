"""Somebody who may write to Temporal's namespace and has no key: what they send costs nothing but itself."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from temporalio.api.common.v1 import Payload
from temporalio.client import Client, WorkflowExecutionStatus, WorkflowUpdateFailedError
from temporalio.common import RawValue

from support.installation import Installation, write_greeter
from support.running import packages, running
from support.strangers import stranger_at
from support.waiting import eventually
from windlass.contracts.lifecycle import DESIRED_CHANGED
from windlass.devstack.stack import Stack
from windlass.domain.errors import Reason
from windlass.domain.ids import package_workflow_id
from windlass.temporal.converter import converter_for
from windlass.temporal.failures import failure_of
from windlass.temporal.sealing import ENCODING, KEY_ID

HOSTILE = {
    "plain": Payload(metadata={"encoding": b"json/plain"}, data=b'{"seen": {"uid": "u"}}'),
    "cut short": Payload(metadata={"encoding": ENCODING, KEY_ID: b"nobodys"}, data=b"x"),
}


@pytest.fixture(scope="module")
async def installation(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Installation]:
    async with running(stack, tmp_path_factory.mktemp("strangers")) as made:
        write_greeter(packages(made), "1.0.0", "1.1.0")
        yield made


@pytest.fixture(scope="module")
async def stranger(installation: Installation) -> Client:
    return await stranger_at(installation.stack.temporal_address, installation.keyring)


async def failed_tasks(installation: Installation, name: str) -> int:
    """Return how often a workflow task of the lifecycle's present run failed."""
    events = (await installation.history(name)).events
    return sum(event.HasField("workflow_task_failed_event_attributes") for event in events)


async def test_a_lifecycle_goes_on_after_hostile_signals_and_updates(
    installation: Installation, stranger: Client
) -> None:
    await installation.application("left", "greeter", "1.0.0")
    await installation.application("right", "greeter", "1.0.0")
    await installation.ready("left")
    await installation.ready("right")
    left, right = (package_workflow_id(installation.key(name)) for name in ("left", "right"))
    handle = stranger.get_workflow_handle(left)
    [copied] = await converter_for(installation.client, right).encode([{"seen": {"uid": "u"}}])
    for payload in (*HOSTILE.values(), copied):
        await handle.signal(DESIRED_CHANGED, RawValue(payload))
        await handle.signal("release_drifted", RawValue(payload))
        with pytest.raises(WorkflowUpdateFailedError) as refusal:
            await handle.execute_update("pause", RawValue(payload))
        assert failure_of(refusal.value).reason is Reason.STATE_REJECTED
    await installation.application("left", "greeter", "1.1.0")
    await installation.ready("left", "1.1.0")
    assert await failed_tasks(installation, "left") == 0


async def test_a_lifecycle_that_a_stranger_began_is_begun_anew(installation: Installation, stranger: Client) -> None:
    """The watcher looks for lifecycles that do not run; nobody has to tell it."""
    await installation.application("begun", "greeter", "1.0.0")
    await installation.ready("begun")
    handle = stranger.get_workflow_handle(package_workflow_id(installation.key("begun")))
    described = await handle.describe()
    await handle.terminate("by a stranger")
    forged = await stranger.start_workflow(
        "PackageLifecycle",
        RawValue(HOSTILE["plain"]),
        id=handle.id,
        task_queue=described.task_queue,
    )
    await installation.application("begun", "greeter", "1.1.0")
    await installation.ready("begun", "1.1.0")

    async def refused() -> bool:
        run = stranger.get_workflow_handle(forged.id, run_id=forged.first_execution_run_id)
        return (await run.describe()).status is WorkflowExecutionStatus.FAILED

    async with asyncio.timeout(30):
        assert await eventually(refused)
