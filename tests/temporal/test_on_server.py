"""The whole chain against a real Temporal server."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from uuid import uuid4

import aiohttp
import pytest
import structlog
from google.protobuf import json_format
from replay.keyring import REPLAY_KEYRING
from temporal.sample import Request, Result, SampleWorkflow, work
from temporalio.client import Client, WorkflowFailureError, WorkflowHistory
from temporalio.common import SearchAttributePair, TypedSearchAttributes
from temporalio.worker import Worker
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions

from windlass.devstack.stack import Stack
from windlass.domain.errors import Actor, Category, Reason
from windlass.temporal import search_attributes
from windlass.temporal.client import TemporalTarget, connect
from windlass.temporal.codec_server import create_app, serve
from windlass.temporal.codec_token import new_token
from windlass.temporal.failures import failure_of
from windlass.temporal.interceptors import FailureInterceptor, LogContextInterceptor
from windlass.temporal.sealing import Sealer

pytestmark = pytest.mark.stack

CANARY = "canary-4711-in-clear"
UI = "http://127.0.0.1:8233"


@pytest.fixture(scope="module")
async def client(stack: Stack) -> Client:
    return await connect(TemporalTarget(address=stack.temporal_address), keyring=REPLAY_KEYRING, role="test")


@pytest.fixture(scope="module")
async def queue(client: Client) -> AsyncIterator[str]:
    restrictions = SandboxRestrictions.default.with_passthrough_modules(
        "windlass.domain", "windlass.contracts", "windlass.temporal"
    )
    async with Worker(
        client,
        task_queue=f"sample-{uuid4()}",
        workflows=[SampleWorkflow],
        activities=[work],
        workflow_runner=SandboxedWorkflowRunner(restrictions=restrictions),
        interceptors=[LogContextInterceptor("sample/"), FailureInterceptor()],
    ) as worker:
        yield worker.task_queue


async def _run(client: Client, queue: str, request: Request) -> tuple[Result, WorkflowHistory]:
    handle = await client.start_workflow(
        SampleWorkflow.run,
        request,
        id=f"sample/{uuid4()}",
        task_queue=queue,
        memo={"note": CANARY},
        static_summary=f"summary {CANARY}",
        search_attributes=TypedSearchAttributes(
            [
                SearchAttributePair(search_attributes.PACKAGE, "prod.billing"),
                SearchAttributePair(search_attributes.READY, True),
            ]
        ),
    )
    return await handle.result(), await handle.fetch_history()


def _stored(history: WorkflowHistory) -> bytes:
    return b"".join(event.SerializeToString() for event in history.events)


async def test_a_history_holds_no_input_result_summary_or_memo_in_clear(client: Client, queue: str) -> None:
    result, history = await _run(client, queue, Request(secret=CANARY))
    assert result.echo == CANARY
    assert CANARY.encode() not in _stored(history)
    # What operators filter by stays readable.
    assert b"prod.billing" in _stored(history)


async def test_a_failure_reaches_the_workflow_typed_and_the_history_encoded(client: Client, queue: str) -> None:
    result, history = await _run(client, queue, Request(secret=CANARY, fail="ours"))
    assert result.failure is not None
    assert result.failure.category is Category.PERMANENT
    assert result.failure.reason is Reason.LOAD_FAILED
    assert result.failure.actor is Actor.USER
    assert result.failure.hint == "fix it"
    # An error of ours is free of secrets by contract and so are its texts; here the canary stands for any of them.
    assert result.failure.message == f"message {CANARY}"
    assert CANARY.encode() not in _stored(history)
    assert b"LoadFailed" in _stored(history)
    assert b"Encoded failure" in _stored(history)


async def test_a_foreign_exception_leaves_its_type_and_nothing_of_its_text(client: Client, queue: str) -> None:
    with (
        structlog.testing.capture_logs([structlog.contextvars.merge_contextvars]) as lines,
        pytest.raises(WorkflowFailureError) as failure,
    ):
        await _run(client, queue, Request(secret=CANARY, fail="foreign"))
    details = failure_of(failure.value)
    assert details.reason is Reason.INTERNAL
    assert "sample.work failed with an unexpected ValueError" in details.message
    link: BaseException | None = failure.value
    while link is not None:
        assert CANARY not in str(link)
        link = link.__cause__
    (line,) = lines
    assert CANARY not in str(line)
    assert "sample.py" in line["stack"]
    assert (line["activity"], line["attempt"]) == ("sample.work", 1)
    assert line["workflow_id"] == f"sample/{line['package']}"


async def test_the_decode_endpoint_reads_what_the_server_stores(client: Client, queue: str) -> None:
    _, history = await _run(client, queue, Request(secret=CANARY))
    stored = json_format.MessageToDict(history.events[0].workflow_execution_started_event_attributes.input)
    app = create_app(Sealer(REPLAY_KEYRING), namespace="default", token=(token := new_token()), origins=[UI])
    async with (
        serve(app, port=0) as port,
        aiohttp.ClientSession() as http,
        http.post(f"http://127.0.0.1:{port}/{token}/decode", json=stored, headers={"Origin": UI}) as response,
    ):
        assert response.status == 200
        (payload,) = json_format.ParseDict(
            await response.json(), type(history.events[0].workflow_execution_started_event_attributes.input)()
        ).payloads
    assert json.loads(payload.data) == {"secret": CANARY, "fail": ""}


async def test_search_attributes_are_there_and_ensure_is_idempotent(client: Client) -> None:
    assert await search_attributes.ensure(client) == []


def test_flags_name_every_attribute_with_its_type() -> None:
    assert search_attributes.as_flags() == {
        "WindlassInstallation": "Keyword",
        "WindlassPackage": "Keyword",
        "WindlassKind": "Keyword",
        "WindlassPhase": "Keyword",
        "WindlassVersion": "Keyword",
        "WindlassReady": "Bool",
    }
