"""Workers with fake activities on the embedded Temporal server: production converter, sandbox and interceptors."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from replay.keyring import REPLAY_KEYRING
from temporalio.api.enums.v1 import EventType, WorkflowTaskFailedCause
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client, WorkflowExecutionStatus
from workflows.life import Life
from workflows.world import FakeWorld

from windlass.devstack.stack import Stack
from windlass.temporal.client import TemporalTarget, connect


@pytest.fixture(scope="session")
async def temporal(stack: Stack) -> Client:
    return await connect(TemporalTarget(address=stack.temporal_address), keyring=REPLAY_KEYRING, role="test")


@pytest.fixture
async def life(temporal: Client) -> AsyncIterator[Life]:
    """A package that nobody has told of yet, with a worker; at the end no workflow task may have failed."""
    life = Life(client=temporal, world=FakeWorld())
    async with life.worker():
        yield life
        assert [str(event) for event in await life.events() if _failed(event)] == []
        if (await life.handle.describe()).status is WorkflowExecutionStatus.RUNNING:
            await life.handle.terminate("the test is over")


def _failed(event: HistoryEvent) -> bool:
    """Say whether a workflow task failed by a fault; news that arrive with the last command send it back by rights."""
    if event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_TIMED_OUT:
        return True
    news = WorkflowTaskFailedCause.WORKFLOW_TASK_FAILED_CAUSE_UNHANDLED_COMMAND
    return (
        event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED
        and event.workflow_task_failed_event_attributes.cause != news
    )
