"""Workers with fake activities on the embedded Temporal server: production converter, sandbox and interceptors."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from replay.keyring import REPLAY_KEYRING
from temporalio.client import Client, WorkflowExecutionStatus
from workflows.life import Life
from workflows.world import FakeWorld

from support.histories import cost
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
        found = cost(await life.events())
        assert found.failed_tasks == 0, found
        if (await life.handle.describe()).status is WorkflowExecutionStatus.RUNNING:
            await life.handle.terminate("the test is over")
