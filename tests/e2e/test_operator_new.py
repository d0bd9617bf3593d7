"""`windlass operator new` gives an operator that runs: written, started, seen to reconcile and to clean up."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from support.cluster import get, kubectl
from support.operators import as_account, operator
from support.waiting import eventually
from windlass.cli.operator import app
from windlass.devstack.stack import Stack

WITHIN = 60.0
"""Seconds from the command to the first object: what a new operator may take."""


@pytest.fixture
def name(stack: Stack) -> Iterator[str]:
    made = f"op-{uuid.uuid4().hex[:8]}"
    yield made
    kubectl(stack, "delete", "crd", f"{made.replace('-', '')}s.example.dev", "--ignore-not-found", "--wait=false")


async def test_an_operator_on_the_framework(stack: Stack, tmp_path: Path, name: str) -> None:
    done = CliRunner().invoke(app, ["new", name, "-o", str(tmp_path)])
    assert done.exit_code == 0, done.output
    folder = tmp_path / name
    assert sorted(file.name for file in folder.iterdir()) == [
        "README.md", "crd.yaml", "example.yaml", "main.py", "rbac.yaml", "resources.py",
    ]  # fmt: skip
    plural = f"{name.replace('-', '')}s.example.dev"
    kubectl(stack, "apply", "-f", str(folder / "rbac.yaml"))
    account = as_account(stack, name, tmp_path)
    with operator(stack, folder / "main.py", tmp_path, kubeconfig=account) as process:

        def applied() -> bool:
            assert process.process.poll() is None, process.log
            kubectl(stack, "apply", "-f", str(folder / "example.yaml"))
            return True

        await eventually(applied, WITHIN)
        await eventually(lambda: get(stack, plural, "example").get("status", {}).get("ready"), WITHIN)
        config_map = f"example-{name.replace('-', '')}"
        assert get(stack, "configmap", config_map)["data"] == {"message": "hello"}

        patch = json.dumps({"spec": {"message": "changed"}})
        kubectl(stack, "patch", plural, "example", "--type=merge", "-p", patch)
        await eventually(lambda: get(stack, "configmap", config_map)["data"] == {"message": "changed"}, WITHIN)

        kubectl(stack, "delete", "-f", str(folder / "example.yaml"), "--timeout=60s")
        assert config_map not in kubectl(stack, "get", "configmap", "-o", "name")
        assert process.stop() == 0, process.log
        assert "warning" not in process.log
    kubectl(stack, "delete", "-f", str(folder / "rbac.yaml"))
