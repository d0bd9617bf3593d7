"""The API server and NATS are killed in the middle of a controller's work; deletions happen while it hears nothing."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from faults.test_servers_lost import killed

from support.cluster import get, kubectl
from support.nats import nats_server
from support.waiting import eventually
from windlass.adapters.kube.client import KubeClient
from windlass.adapters.kube.following.informer import KubeObjects
from windlass.adapters.nats.connection import connected
from windlass.adapters.nats.entities import BucketEntities, ensure_bucket
from windlass.controllerruntime import ControllerRuntime, Informer, selector
from windlass.devstack.stack import Stack
from windlass.domain.errors import WindlassError
from windlass.ports.entities import Document
from windlass.ports.kube import ObjectRef

WITHIN = 120.0
KIND = "Note"


class Notes:
    """An `IController`: every note becomes a ConfigMap."""

    def __init__(self, runtime: ControllerRuntime, kube: KubeClient, primary: BucketEntities, namespace: str) -> None:
        self.runtime = runtime
        self.kube = kube
        self.primary = primary
        self.namespace = namespace
        self.failed = 0
        runtime.set_custom_controller(self)

    async def run(self, threadiness: int, stop: asyncio.Event) -> None:
        await self.runtime.run(threadiness, stop)

    async def sync_handler(self, key: str) -> None:
        ref = ObjectRef(api_version="v1", kind="ConfigMap", namespace=self.namespace, name=key)
        try:
            found = await self.primary.get(key)
            if found is None:
                await self.kube.delete(ref)
                return
            wanted = {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": key, "namespace": self.namespace},
                "data": {"n": str((found.document or {})["n"])},
            }
            await self.kube.apply(self.runtime.owned(wanted, key), field_manager="notes")
        except WindlassError:
            self.failed += 1
            raise

    async def handle_secondary(self, obj: Document) -> None:
        self.runtime.enqueue_owner(obj)

    async def garbage_secondaries(self) -> None:
        await self.runtime.sweep()

    async def clean(self) -> None:
        """Nothing is held."""


@pytest.fixture
async def kube(own_stack: Stack) -> AsyncIterator[KubeClient]:
    async with KubeClient.from_kubeconfig(own_stack.kubeconfig) as client:
        yield client


async def test_both_servers_are_killed_in_the_middle_of_work(
    own_stack: Stack, kube: KubeClient, tmp_path: Path
) -> None:
    namespace = f"notes-{uuid.uuid4().hex[:8]}"
    kubectl(own_stack, "create", "namespace", namespace)
    with nats_server(tmp_path / "nats") as server:
        async with connected(server.access) as link:
            await ensure_bucket(link, "notes")
            primary = BucketEntities(link, "notes")
            objects = Informer(KubeObjects(kube, "v1", "ConfigMap", label_selector=selector(KIND)))
            runtime = ControllerRuntime(
                "notes", KIND, primary, kube=kube, secondary_informers=[objects], resync=3600, sync_timeout=WITHIN
            )
            controller = Notes(runtime, kube, primary, namespace)
            stop = asyncio.Event()
            task = asyncio.create_task(controller.run(4, stop))
            for n in range(60):
                await primary.put(f"n{n}", {"n": n})
            await eventually(lambda: len(objects) > 5, WITHIN)

            # The API server goes while notes change and go.
            killing = asyncio.create_task(killed(own_stack, "kube-apiserver"))
            await eventually(lambda: controller.failed > 0 or killing.done(), WITHIN)
            for n in range(0, 60, 3):
                await primary.put(f"n{n}", {"n": 100 + n})
            for n in range(1, 60, 6):
                await primary.delete(f"n{n}")
            await killing

            # NATS goes while somebody deletes what the controller made.
            server.kill()
            kubectl(own_stack, "delete", "configmap", "n0", "n2", "-n", namespace)
            server.start()

            wanted = {f"n{n}": str(100 + n if n % 3 == 0 else n) for n in range(60) if n % 6 != 1}

            def arrived() -> bool:
                found = get(own_stack, "configmap", "-n", namespace, "-l", selector(KIND))["items"]
                return {one["metadata"]["name"]: one["data"]["n"] for one in found} == wanted

            await eventually(arrived, WITHIN, every=0.5)
            assert not task.done()
            assert not [item for item in objects if "managedFields" in (item.document or {})["metadata"]]
            stop.set()
            await asyncio.wait_for(task, WITHIN)
    kubectl(own_stack, "delete", "namespace", namespace, "--wait=false")
