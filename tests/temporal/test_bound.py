"""Payloads are bound to their workflow, on a real server: whatever belongs there arrives, and nothing else does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from uuid import uuid4

import pytest
from replay.keyring import REPLAY_KEYRING
from temporal.bound_sample import Child, Parent, Teller, Waiting, again, echo, endless
from temporalio.api.common.v1 import Payload
from temporalio.client import (
    Client,
    WithStartWorkflowOperation,
    WorkflowFailureError,
    WorkflowHandle,
    WorkflowQueryFailedError,
    WorkflowUpdateFailedError,
)
from temporalio.common import RawValue, WorkflowIDConflictPolicy
from temporalio.converter import WorkflowSerializationContext
from temporalio.worker import Replayer, Worker

from support.strangers import stranger_at
from support.waiting import eventually
from windlass.devstack.stack import Stack
from windlass.domain.errors import PermanentError, Reason
from windlass.temporal.client import TemporalTarget, connect
from windlass.temporal.converter import converter_for, data_converter
from windlass.temporal.failures import failure_of
from windlass.temporal.interceptors import FailureInterceptor
from windlass.worker.sandbox import workflow_runner

pytestmark = pytest.mark.stack

TEXT = "text-0815"
GARBAGE = {
    "plain": Payload(metadata={"encoding": b"json/plain"}, data=b'"from a stranger"'),
    "unknown key": Payload(metadata={"encoding": b"binary/windlass.v1", "windlass-key": b"nobodys"}, data=b"x" * 40),
    "no encoding": Payload(data=b"x"),
    "the marker": Payload(metadata={"encoding": b"windlass/refused"}, data=b"{}"),
}


@pytest.fixture(scope="module")
def refusals() -> list[None]:
    """One entry for each payload that the worker refused."""
    return []


@pytest.fixture(scope="module")
async def client(stack: Stack, refusals: list[None]) -> Client:
    return await connect(
        TemporalTarget(address=stack.temporal_address),
        keyring=REPLAY_KEYRING,
        role="test",
        on_refusal=lambda: refusals.append(None),
    )


@pytest.fixture(scope="module")
async def stranger(stack: Stack) -> Client:
    return await stranger_at(stack.temporal_address, REPLAY_KEYRING)


@pytest.fixture(scope="module")
async def queue(client: Client) -> AsyncIterator[str]:
    async with Worker(
        client,
        task_queue=f"bound-{uuid4()}",
        workflows=[Parent, Child, Teller, Waiting],
        activities=[echo, again, endless],
        workflow_runner=workflow_runner(),
        interceptors=[FailureInterceptor()],
    ) as worker:
        yield worker.task_queue


async def begun(client: Client, queue: str, runs: int = 1) -> WorkflowHandle[Parent, list[str]]:
    return await client.start_workflow(
        Parent.run,
        args=[TEXT, runs],
        id=f"bound/{uuid4()}",
        task_queue=queue,
        memo={"note": TEXT},
        static_summary=TEXT,
    )


async def ended(handle: WorkflowHandle[Parent, list[str]]) -> list[str]:
    await handle.signal(Parent.end)
    async with asyncio.timeout(20):
        return await handle.result()


async def test_everything_that_belongs_to_a_workflow_arrives(client: Client, queue: str) -> None:
    handle = await begun(client, queue, runs=2)

    async def goes_on() -> bool:
        return (await handle.describe()).run_id != handle.first_execution_run_id

    await eventually(goes_on)
    await handle.signal(Parent.tell, "signalled")
    assert await handle.execute_update(Parent.ask, TEXT) == f"asked {TEXT}"
    assert (await handle.query(Parent.what, TEXT)).startswith(TEXT)
    assert (await (await handle.describe()).memo())["note"] == TEXT
    await client.execute_workflow(Teller.run, args=[handle.id, "told"], id=f"teller/{uuid4()}", task_queue=queue)
    seen = await ended(handle)
    assert seen[:6] == [TEXT, TEXT, TEXT, TEXT, TEXT, f"child {TEXT}"]
    assert "told" in seen


async def test_signal_and_update_arrive_with_the_start(client: Client, queue: str) -> None:
    handle = await client.start_workflow(
        Parent.run,
        args=[TEXT, 1],
        id=f"bound/{uuid4()}",
        task_queue=queue,
        memo={"note": TEXT},
        start_signal="tell",
        start_signal_args=["first"],
    )
    assert "first" in await ended(handle)
    operation = WithStartWorkflowOperation(
        Parent.run,
        args=[TEXT, 1],
        id=f"bound/{uuid4()}",
        task_queue=queue,
        memo={"note": TEXT},
        id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
    )
    asked = await client.execute_update_with_start_workflow(Parent.ask, TEXT, start_workflow_operation=operation)
    assert asked == f"asked {TEXT}"
    await ended(await operation.workflow_handle())


@pytest.mark.parametrize("kind", GARBAGE)
async def test_a_hostile_signal_is_dropped_and_the_workflow_goes_on(
    client: Client, stranger: Client, queue: str, refusals: list[None], kind: str
) -> None:
    handle = await begun(client, queue)
    before = len(refusals)
    await stranger.get_workflow_handle(handle.id).signal("tell", RawValue(GARBAGE[kind]))
    await handle.signal(Parent.tell, "from a friend")
    assert (await ended(handle))[6:] == ["from a friend"]
    assert len(refusals) > before


async def test_a_signal_copied_from_another_workflow_is_dropped(client: Client, stranger: Client, queue: str) -> None:
    one, other = await begun(client, queue), await begun(client, queue)
    [action] = await converter_for(client, one.id).encode(["action"])
    for target in (one, other):
        await stranger.get_workflow_handle(target.id).signal("tell", RawValue(action))
    assert (await ended(one))[6:] == ["action"]
    assert (await ended(other))[6:] == []


@pytest.mark.parametrize("kind", GARBAGE)
async def test_a_hostile_update_is_refused_with_a_typed_error(
    client: Client, stranger: Client, queue: str, kind: str
) -> None:
    handle = await begun(client, queue)
    with pytest.raises(WorkflowUpdateFailedError) as refusal:
        await stranger.get_workflow_handle(handle.id).execute_update("ask", RawValue(GARBAGE[kind]))
    assert failure_of(refusal.value).reason is Reason.STATE_REJECTED
    assert await handle.execute_update(Parent.ask, TEXT) == f"asked {TEXT}"
    assert (await ended(handle))[6:] == []


@pytest.mark.parametrize("kind", GARBAGE)
async def test_a_hostile_start_fails_at_once_and_leaves_its_id_free(
    client: Client, stranger: Client, queue: str, kind: str
) -> None:
    id_ = f"bound/{uuid4()}"
    await stranger.start_workflow("Bound", args=[RawValue(GARBAGE[kind]), 1], id=id_, task_queue=queue)
    async with asyncio.timeout(20):
        with pytest.raises(WorkflowFailureError) as failure:
            await client.get_workflow_handle(id_).result()
    assert failure_of(failure.value).reason is Reason.STATE_REJECTED
    handle = await client.start_workflow(Parent.run, args=[TEXT, 1], id=id_, task_queue=queue, memo={"note": TEXT})
    assert (await ended(handle))[0] == TEXT


async def test_a_start_copied_from_another_workflow_fails(client: Client, stranger: Client, queue: str) -> None:
    """Otherwise two lifecycles could be made to work on one package."""
    handle = await begun(client, queue)
    copied = [RawValue(payload) for payload in await converter_for(client, handle.id).encode([TEXT, 1])]
    await stranger.start_workflow("Bound", args=copied, id=f"{handle.id}-2", task_queue=queue)
    async with asyncio.timeout(20):
        with pytest.raises(WorkflowFailureError) as failure:
            await client.get_workflow_handle(f"{handle.id}-2").result()
    assert failure_of(failure.value).reason is Reason.STATE_REJECTED
    await ended(handle)


async def test_a_query_of_a_stranger_changes_nothing(client: Client, stranger: Client, queue: str) -> None:
    handle = await begun(client, queue)
    with pytest.raises(WorkflowQueryFailedError):
        await stranger.get_workflow_handle(handle.id).query("what", "x")
    assert await handle.query(Parent.what, TEXT) == f"{TEXT} 0"
    await ended(handle)


async def test_another_namespace_does_not_open_it(client: Client) -> None:
    elsewhere = data_converter(REPLAY_KEYRING).with_context(WorkflowSerializationContext("team-b", "w"))
    with pytest.raises(PermanentError, match="does not decrypt"):
        await converter_for(client, "w").decode(await elsewhere.encode([TEXT]))


async def test_a_setting_lets_the_signal_of_a_person_in(stack: Stack, stranger: Client) -> None:
    open_client = await connect(
        TemporalTarget(address=stack.temporal_address), keyring=REPLAY_KEYRING, role="test", accept_plain=True
    )
    async with Worker(
        open_client,
        task_queue=f"open-{uuid4()}",
        workflows=[Parent, Child],
        activities=[echo, again],
        workflow_runner=workflow_runner(),
    ) as worker:
        handle = await begun(open_client, worker.task_queue)
        await stranger.get_workflow_handle(handle.id).signal("tell", "from a person")
        assert (await ended(handle))[6:] == ["from a person"]


async def test_a_history_with_hostile_signals_replays(client: Client, stranger: Client, queue: str) -> None:
    handle = await begun(client, queue)
    for payload in GARBAGE.values():
        await stranger.get_workflow_handle(handle.id).signal("tell", RawValue(payload))
    await ended(handle)
    replayer = Replayer(
        workflows=[Parent],
        workflow_runner=workflow_runner(),
        data_converter=data_converter(REPLAY_KEYRING),
        namespace=client.namespace,
    )
    await replayer.replay_workflow(await handle.fetch_history())


async def test_an_activity_completed_by_a_stranger_ends_the_run_and_stalls_nothing(
    client: Client, stranger: Client, queue: str
) -> None:
    """It costs a run, as terminating it would; a lifecycle is begun anew by the watcher."""
    handle = await client.start_workflow(Waiting.run, id=f"bound/{uuid4()}", task_queue=queue)

    async def completed() -> bool:
        await stranger.get_async_activity_handle(workflow_id=handle.id, run_id=None, activity_id="1").complete("x")
        return True

    await eventually(completed)
    async with asyncio.timeout(20):
        with pytest.raises(WorkflowFailureError) as failure:
            await handle.result()
    assert failure_of(failure.value).reason is Reason.STATE_REJECTED
