"""The example operator `tenant-namespaces`, as people run it, on the real API server."""

from __future__ import annotations

import json
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from support.cluster import get, kubectl
from support.operators import OperatorProcess, operator
from support.waiting import eventually
from windlass.devstack.stack import Stack

MAIN = Path(__file__).parents[2] / "examples" / "operators" / "tenant-namespaces" / "main.py"
WITHIN = 60.0


@pytest.fixture
def running(stack: Stack, tmp_path: Path) -> Iterator[OperatorProcess]:
    with operator(stack, MAIN, tmp_path) as process:
        yield process


@pytest.fixture
async def name(stack: Stack, running: OperatorProcess) -> AsyncIterator[str]:
    def served() -> bool:
        assert running.process.poll() is None, running.log
        kubectl(stack, "get", "tenants")
        return True

    await eventually(served, WITHIN)
    made = f"t-{uuid.uuid4().hex[:8]}"
    yield made
    if running.process.poll() is None:
        kubectl(stack, "delete", "tenant", made, "--ignore-not-found", "--timeout=60s")
        assert running.stop() == 0, running.log


def apply(stack: Stack, name: str, **spec: Any) -> None:
    tenant = {"apiVersion": "tenants.example.dev/v1", "kind": "Tenant", "metadata": {"name": name}, "spec": spec}
    kubectl(stack, "apply", "-f", "-", manifest=json.dumps(tenant))


def status(stack: Stack, name: str) -> dict[str, Any]:
    tenant = get(stack, "tenant", name)
    found = tenant.get("status", {})
    return found if found.get("observedGeneration") == tenant["metadata"]["generation"] else {}


def names(stack: Stack, kind: str, tenant: str) -> list[str]:
    return sorted(one["metadata"]["name"] for one in get(stack, kind, "-n", f"tenant-{tenant}")["items"])


async def test_a_tenant_gets_what_its_bundle_says_and_changes_with_it(stack: Stack, name: str) -> None:
    apply(stack, name, bundle="1", quota={"pods": "5", "services": "2"}, admins=["ada"])
    await eventually(lambda: status(stack, name).get("ready"), WITHIN)
    assert names(stack, "networkpolicy", name) == ["own-traffic"]
    assert names(stack, "rolebinding", name) == ["admins"]
    assert get(stack, "resourcequota", "tenant", "-n", f"tenant-{name}")["spec"]["hard"] == {
        "pods": "5",
        "services": "2",
    }

    apply(stack, name, bundle="2", quota={"pods": "7"}, admins=["ada"], viewers=["grace"])
    await eventually(lambda: status(stack, name).get("bundle") == "2", WITHIN)
    assert names(stack, "networkpolicy", name) == ["own-egress", "own-traffic"]
    assert names(stack, "rolebinding", name) == ["admins", "viewers"]
    assert get(stack, "resourcequota", "tenant", "-n", f"tenant-{name}")["spec"]["hard"] == {"pods": "7"}
    enforced = get(stack, "namespace", f"tenant-{name}")["metadata"]["labels"]["pod-security.kubernetes.io/enforce"]
    assert enforced == "restricted"

    apply(stack, name, bundle="2", quota={"pods": "7"}, admins=[], viewers=["grace"])
    await eventually(lambda: names(stack, "rolebinding", name) == ["viewers"], WITHIN)


async def test_a_deleted_tenant_goes_when_its_namespace_has(stack: Stack, name: str) -> None:
    apply(stack, name, quota={"pods": "1"})
    await eventually(lambda: status(stack, name).get("ready"), WITHIN)
    assert get(stack, "tenant", name)["metadata"]["finalizers"] == ["tenants.example.dev/namespaces"]
    kubectl(stack, "delete", "tenant", name, "--timeout=60s")
    assert get(stack, "namespace", "-l", f"tenants.example.dev/tenant={name}")["items"] == []


async def test_a_deletion_while_the_operator_is_down_is_made_up_for(
    stack: Stack, name: str, running: OperatorProcess, tmp_path: Path
) -> None:
    apply(stack, name, quota={"pods": "1"})
    await eventually(lambda: status(stack, name).get("ready"), WITHIN)
    running.kill()
    kubectl(stack, "delete", "tenant", name, "--wait=false")
    assert get(stack, "namespace", f"tenant-{name}")["status"]["phase"] == "Active"
    with operator(stack, MAIN, tmp_path):
        kubectl(stack, "wait", "--for=delete", f"tenant/{name}", "--timeout=60s")
    assert get(stack, "namespace", "-l", f"tenants.example.dev/tenant={name}")["items"] == []
