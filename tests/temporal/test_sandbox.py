"""Runs share the modules of their workflow type, and the sandbox's restrictions hold in each of them all the same."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from uuid import uuid4

import pytest
from temporal.clock_sample import AsksForTime
from temporalio.client import Client, WorkflowFailureError
from temporalio.exceptions import ApplicationError
from temporalio.worker import Worker

from windlass.devstack.stack import Stack
from windlass.worker.sandbox import workflow_runner

pytestmark = pytest.mark.stack


@pytest.fixture(scope="module")
async def client(stack: Stack) -> Client:
    return await Client.connect(stack.temporal_address)


@pytest.fixture(scope="module")
async def queue(client: Client) -> AsyncIterator[str]:
    async with Worker(
        client,
        task_queue=f"sandbox-{uuid4()}",
        workflows=[AsksForTime],
        workflow_runner=workflow_runner(),
        workflow_failure_exception_types=[Exception],  # else the workflow task is tried for ever
    ) as worker:
        yield worker.task_queue


async def _ask(client: Client, queue: str, what: str) -> str:
    return await client.execute_workflow(AsksForTime.run, what, id=f"asks-{uuid4()}", task_queue=queue)


@pytest.mark.parametrize("what", ["time", "now", "random", "open"])
async def test_a_workflow_that_asks_the_machine_is_refused(client: Client, queue: str, what: str) -> None:
    with pytest.raises(WorkflowFailureError) as failure:
        await _ask(client, queue, what)
    cause = failure.value.cause
    assert isinstance(cause, ApplicationError)
    assert cause.type == "RestrictedWorkflowAccessError"


async def test_it_is_refused_also_while_others_run_and_begin_in_other_threads(client: Client, queue: str) -> None:
    asked = ["time" if number % 2 else "nothing" for number in range(60)]
    answers = await asyncio.gather(*(_ask(client, queue, what) for what in asked), return_exceptions=True)
    refused = [isinstance(answer, WorkflowFailureError) for answer in answers]
    assert refused == [what == "time" for what in asked]
