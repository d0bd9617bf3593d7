"""A client of the embedded API server, a namespace of one test's own, and a scripted API server for faults."""

from __future__ import annotations

from collections.abc import AsyncIterator
from uuid import uuid4

import pytest_asyncio

from support.scripted_api import ScriptedApi, scripted_api
from windlass.adapters.kube.client import KubeClient
from windlass.devstack.stack import Stack
from windlass.ports.kube import ObjectRef


@pytest_asyncio.fixture(scope="session")
async def kube(stack: Stack) -> AsyncIterator[KubeClient]:
    async with KubeClient.from_kubeconfig(stack.kubeconfig, qps=1000, burst=1000, user_agent="tests/1") as client:
        yield client


@pytest_asyncio.fixture
async def namespace(kube: KubeClient) -> AsyncIterator[str]:
    name = f"kube-{uuid4().hex[:8]}"
    await kube.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    yield name
    await kube.delete(ObjectRef(api_version="v1", kind="Namespace", name=name))


@pytest_asyncio.fixture
async def api() -> AsyncIterator[ScriptedApi]:
    async with scripted_api() as scripted:
        yield scripted
