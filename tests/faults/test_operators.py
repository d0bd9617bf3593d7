"""The API server is killed under an operator that lives on; the operator is killed, and objects go meanwhile."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from faults.points import WAIT_SECONDS
from faults.test_servers_lost import killed

from support.cluster import get, kubectl
from support.operators import operator
from support.waiting import eventually
from windlass.devstack.stack import Stack

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
