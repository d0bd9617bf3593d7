"""A Helm client on the embedded stack and a namespace per test."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from adapters.helm.scenes import FIRST, OWNER, Charts, Cluster, Requests, write_chart

from support.faults import HoldingProxy
from support.ledgers import RememberingHelm
from support.targets import at_home
from windlass.adapters.kube.client import KubeClient
from windlass.adapters.targets.caller import CallerTargets
from windlass.devstack.stack import Stack
from windlass.ports.helm import ReleaseRef, ReleaseRequest
from windlass.ports.kube import ObjectRef


@pytest.fixture(scope="session")
async def kube(stack: Stack) -> AsyncIterator[KubeClient]:
    async with KubeClient.from_kubeconfig(stack.kubeconfig, qps=1000, burst=1000) as client:
        yield client


@pytest.fixture(scope="session")
async def helm(
    stack: Stack, kube: KubeClient, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[RememberingHelm]:
    scratch = tmp_path_factory.mktemp("helm")
    program = Path(stack.tool("helm"))
    targets = CallerTargets(kube, stack.kubeconfig)
    async with RememberingHelm(targets=targets, helm=program, scratch=scratch, pool_size=2) as client:
        yield client


@pytest.fixture
async def proxy(stack: Stack) -> AsyncIterator[HoldingProxy]:
    """Before the API server, for operations that a test stops in the middle."""
    async with HoldingProxy(stack).serving() as serving:
        yield serving


@pytest.fixture
async def namespace(kube: KubeClient) -> AsyncIterator[str]:
    name = f"helm-{uuid4().hex[:8]}"
    await kube.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    yield name
    await kube.delete(ObjectRef(api_version="v1", kind="Namespace", name=name))


@pytest.fixture
def ref(namespace: str) -> ReleaseRef:
    return ReleaseRef(target=at_home(namespace), name="web")


@pytest.fixture
def cluster(stack: Stack, kube: KubeClient, ref: ReleaseRef) -> Cluster:
    return Cluster(stack, kube, ref.namespace, ref.name)


@pytest.fixture
def chart(tmp_path: Path) -> Charts:
    def write(*templates: str, name: str = "web", **files: str) -> Path:
        return write_chart(tmp_path / name, *templates, **files)

    return write


@pytest.fixture
def request_for(ref: ReleaseRef) -> Requests:
    def build(
        chart: Path, digest: str = FIRST, *, has_hooks: bool = False, timeout: float = 60.0, **values: Any
    ) -> ReleaseRequest:
        return ReleaseRequest(
            ref=ref,
            owner=OWNER,
            chart=chart,
            chart_has_hooks=has_hooks,
            values=values,
            digest=digest,
            timeout=timeout,
        )

    return build
