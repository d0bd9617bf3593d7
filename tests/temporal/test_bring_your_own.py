"""A Temporal server that knows nothing of Windlass, and its command-line tool."""

from __future__ import annotations

import asyncio
import base64
import json
import socket
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import pytest
from google.protobuf.duration_pb2 import Duration
from replay.keyring import REPLAY_KEYRING
from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.operatorservice.v1 import AddSearchAttributesRequest
from temporalio.api.workflowservice.v1 import RegisterNamespaceRequest
from temporalio.client import Client
from temporalio.common import SearchAttributePair, TypedSearchAttributes

from support.waiting import eventually
from windlass.devstack.stack import Stack
from windlass.domain.errors import PermanentError, WindlassError
from windlass.temporal import search_attributes
from windlass.temporal.client import TemporalTarget, connect
from windlass.temporal.codec_server import create_app, serve
from windlass.temporal.codec_token import new_token
from windlass.temporal.sealing import Sealer

pytestmark = pytest.mark.stack

CANARY = "canary-of-the-tool"


@pytest.fixture(scope="module")
async def address(stack: Stack) -> AsyncIterator[str]:
    """The address of a server in memory, without search attributes."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = await asyncio.create_subprocess_exec(
        stack.tool("temporal"),
        *("server", "start-dev", "--headless", "--ip", "127.0.0.1", "--port", str(port), "--log-level", "never"),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        yield f"127.0.0.1:{port}"
    finally:
        server.kill()
        await server.wait()


async def _connected(address: str, namespace: str = "default") -> Client:
    async def attempt() -> Client | None:
        try:
            return await connect(
                TemporalTarget(address=address, namespace=namespace), keyring=REPLAY_KEYRING, role="test", timeout=2
            )
        except WindlassError:
            return None

    client = await eventually(attempt, what=f"namespace {namespace} answers")
    assert client is not None
    return client


async def test_missing_search_attributes_are_registered_once_and_then_usable(address: str) -> None:
    client = await _connected(address)
    assert await search_attributes.ensure(client) == list(search_attributes.as_flags())
    assert await eventually(lambda: _nothing_missing(client))

    async def started() -> str:
        attributes = TypedSearchAttributes([SearchAttributePair(search_attributes.PHASE, "Running")])
        handle = await client.start_workflow(
            "Nobody", id=f"sa/{uuid4()}", task_queue="nobody", search_attributes=attributes
        )
        return handle.id

    workflow_id = await eventually(started, what="a workflow with our attributes starts")
    found = eventually(
        lambda: _ids(client, f"{search_attributes.PHASE.name} = 'Running'"), 20, what="it is found by its phase"
    )
    assert workflow_id in await found


async def _nothing_missing(client: Client) -> bool:
    return await search_attributes.ensure(client) == []


async def _ids(client: Client, query: str) -> list[str]:
    return [found.id async for found in client.list_workflows(query)]


async def test_an_attribute_of_another_type_is_named_with_what_to_do(address: str) -> None:
    base = await _connected(address)
    retention = Duration()
    retention.FromTimedelta(timedelta(days=1))
    await base.workflow_service.register_namespace(
        RegisterNamespaceRequest(namespace="typed", workflow_execution_retention_period=retention)
    )
    client = await _connected(address, "typed")
    wrong = {search_attributes.READY.name: IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD}

    async def added() -> bool:
        request = AddSearchAttributesRequest(namespace="typed", search_attributes=wrong)
        await client.operator_service.add_search_attributes(request)
        return True

    await eventually(added)

    async def refused() -> PermanentError | None:
        try:
            await search_attributes.ensure(client)
        except PermanentError as error:
            return error
        return None

    refusal = await eventually(refused)
    assert refusal is not None
    assert "WindlassReady of Temporal namespace 'typed' is not of type Bool" in str(refusal)
    assert "search-attribute remove --name WindlassReady" in str(refusal)


async def test_the_temporal_tool_reads_payloads_through_the_endpoint(stack: Stack, address: str) -> None:
    client = await _connected(address)
    workflow_id = f"tool/{uuid4()}"
    await client.start_workflow("Nobody", {"secret": CANARY}, id=workflow_id, task_queue="nobody")
    app = create_app(Sealer(REPLAY_KEYRING), namespace="default", token=(token := new_token()), origins=[])
    async with serve(app, port=0) as port:
        shown = ["workflow", "show", "--workflow-id", workflow_id, "--output", "json", "--address", address]
        assert CANARY not in await _input(stack.tool("temporal"), *shown)
        endpoint = f"http://127.0.0.1:{port}"
        bearer = ["--codec-endpoint", endpoint, "--codec-auth", f"Bearer {token}"]
        assert CANARY in await _input(stack.tool("temporal"), *shown, *bearer)
        assert CANARY in await _input(stack.tool("temporal"), *shown, "--codec-endpoint", f"{endpoint}/{token}")


async def _input(tool: Path, *arguments: str) -> str:
    """Return the data of the workflow's input as the tool shows it."""
    process = await asyncio.create_subprocess_exec(
        tool, *arguments, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    output, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()
    (payload,) = json.loads(output)["events"][0]["workflowExecutionStartedEventAttributes"]["input"]["payloads"]
    return base64.b64decode(payload["data"]).decode(errors="replace")
