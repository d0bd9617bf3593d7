"""Servers are killed under operators that live on; operators are killed, and objects go meanwhile."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import structlog
from faults.points import WAIT_SECONDS
from faults.test_servers_lost import killed
from prometheus_client import CollectorRegistry
from structlog.testing import LogCapture

from support.cluster import get, kubectl
from support.cut import wire
from support.operators import operator
from support.waiting import eventually
from windlass.adapters.kube.client import KubeClient
from windlass.adapters.kube.following.feed import KubeFeed
from windlass.adapters.kube.kubeconfig import read
from windlass.devstack.stack import Stack
from windlass.framework import Event, Failure, FrameworkMetrics, ObjectInformer

MAIN = Path(__file__).parents[2] / "examples" / "operators" / "tenant-namespaces" / "main.py"
TENANTS = [f"fault-{number}" for number in range(10)]


def apply(stack: Stack, names: list[str], **spec: Any) -> None:
    items = [
        {"apiVersion": "tenants.example.dev/v1", "kind": "Tenant", "metadata": {"name": name}, "spec": spec}
        for name in names
    ]
    kubectl(stack, "apply", "-f", "-", manifest=json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))


def ready(stack: Stack, bundle: str) -> bool:
    found = {one["metadata"]["name"]: one.get("status", {}) for one in get(stack, "tenants")["items"]}
    return all(found.get(name, {}).get("bundle") == bundle for name in TENANTS)


async def test_what_changes_while_a_server_is_lost_is_made_up_for(own_stack: Stack, tmp_path: Path) -> None:
    stack = own_stack
    with operator(stack, MAIN, tmp_path) as process:
        await eventually(lambda: not kubectl(stack, "get", "tenants", "-o", "name"), WAIT_SECONDS)
        apply(stack, TENANTS, bundle="1", quota={"pods": "1"})
        # In mid work: some namespaces are there, and not every tenant is done.
        label = "tenants.example.dev/tenant"
        await eventually(lambda: get(stack, "namespace", "-l", label)["items"], WAIT_SECONDS)
        await killed(stack, "kube-apiserver")
        await eventually(lambda: ready(stack, "1"), WAIT_SECONDS)
        apply(stack, TENANTS, bundle="2", quota={"pods": "2"})
        await eventually(lambda: ready(stack, "2"), WAIT_SECONDS)
        assert process.process.poll() is None, process.log

        process.kill()
        kubectl(stack, "delete", "tenants", *TENANTS[:3], "--wait=false")
    with operator(stack, MAIN, tmp_path) as process:
        kubectl(stack, "wait", "--for=delete", *(f"tenant/{name}" for name in TENANTS[:3]), "--timeout=55s")
        assert process.stop() == 0, process.log


def compact(stack: Stack) -> None:
    """Let etcd forget every revision but the newest."""

    def ask(path: str, body: dict[str, Any]) -> dict[str, Any]:
        url = f"{stack.state.parts['etcd'].address}{path}"
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(url, json.dumps(body).encode(), headers)  # noqa: S310 - our own loopback address
        with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310 - as above
            found: dict[str, Any] = json.load(answer)
            return found

    newest = ask("/v3/kv/range", {"key": "eA=="})["header"]["revision"]
    ask("/v3/kv/compaction", {"revision": newest, "physical": True})


@asynccontextmanager
async def informed(kube: KubeClient, namespace: str, logs: LogCapture) -> AsyncIterator[list[Event]]:
    """Give the events of the config maps in a namespace as they come."""
    events: list[Event] = []
    informer = ObjectInformer(
        feed=KubeFeed(kube, "v1", "ConfigMap", namespace=namespace, label_selector="test=compaction"),
        logger=structlog.wrap_logger(None, processors=[logs]),
        metrics=FrameworkMetrics(CollectorRegistry()),
    )

    async def follow() -> None:
        async for event in informer.watch():
            events.append(event)  # noqa: PERF401 - one by one, as they come

    task = asyncio.create_task(follow())
    try:
        yield events
    finally:
        task.cancel()
        await asyncio.wait({task})


def told(events: list[Event]) -> list[tuple[str, str]]:
    return [
        (type(event).__name__, "" if isinstance(event, Failure) else event.object["metadata"]["name"])
        for event in events
    ]


async def test_what_etcd_has_forgotten_is_made_up_for(own_stack: Stack) -> None:
    """The watch cannot go on: 410 Gone of a real API server, which has nothing older than its start and etcd."""
    stack, namespace = own_stack, "compacted"
    kubectl(stack, "create", "namespace", namespace)

    def put(name: str, value: str) -> None:
        meta = {"name": name, "namespace": namespace, "labels": {"test": "compaction"}}
        obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"value": value}}
        kubectl(stack, "apply", "-f", "-", manifest=json.dumps(obj))

    for name in ("deleted", "anew", "changed", "same"):
        put(name, "1")
    access = read(stack.kubeconfig)
    async with wire(int(access.server.rpartition(":")[2])) as cable:
        logs = LogCapture()
        far = dataclasses.replace(access, server=f"https://127.0.0.1:{cable.port}")
        async with KubeClient.from_kubeconfig(far) as kube, informed(kube, namespace, logs) as events:
            await eventually(lambda: len(events) == 4, WAIT_SECONDS)
            await cable.cut()
            kubectl(stack, "delete", "configmap", "deleted", "anew", "-n", namespace)
            put("anew", "2")
            put("changed", "2")
            compact(stack)
            await killed(stack, "kube-apiserver")
            await cable.mend()
            expected = [("Delete", "anew"), ("Delete", "deleted"), ("Update", "anew"), ("Update", "changed")]
            await eventually(lambda: sorted(told(events)[4:]) == expected, WAIT_SECONDS)
            assert [entry["event"] for entry in logs.entries].count("listed") == 2, "the watch did not simply go on"
            put("changed", "3")
            await eventually(lambda: told(events)[8:] == [("Update", "changed")], WAIT_SECONDS)
