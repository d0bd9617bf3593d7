"""`windlass operator new --kind controllerruntime` gives a controller that runs over a real NATS server."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from support.cluster import get, kubectl
from support.nats import NatsServer, nats_server
from support.operators import as_account, operator
from support.waiting import eventually
from windlass.adapters.nats.connection import connected
from windlass.adapters.nats.entities import BucketEntities, ensure_bucket
from windlass.cli.operator import app
from windlass.devstack.stack import Stack

WITHIN = 60.0
"""Seconds from the command to the first object: what a new operator may take."""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[NatsServer]:
    with nats_server(tmp_path / "nats") as running:
        yield running


async def test_a_controller_over_nats(
    stack: Stack, server: NatsServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NATS_URL", f"nats://127.0.0.1:{server.port}")
    name = f"op-{uuid.uuid4().hex[:8]}"
    done = CliRunner().invoke(app, ["new", name, "--kind", "controllerruntime", "-o", str(tmp_path)])
    assert done.exit_code == 0, done.output
    folder = tmp_path / name
    assert sorted(file.name for file in folder.iterdir()) == [
        "README.md", "controller.py", "example.json", "main.py", "put.py", "rbac.yaml",
    ]  # fmt: skip
    singular = name.replace("-", "")
    config_map = f"example-{singular}"
    async with connected(server.access) as connection:
        await ensure_bucket(connection, f"{singular}s")
        entities = BucketEntities(connection, f"{singular}s")
        kubectl(stack, "apply", "-f", str(folder / "rbac.yaml"))
        account = as_account(stack, name, tmp_path)
        with operator(stack, folder / "main.py", tmp_path, kubeconfig=account) as process:
            with operator(stack, folder / "put.py", tmp_path, "example", str(folder / "example.json")) as put:
                assert put.process.wait(WITHIN) == 0, put.log
            await eventually(lambda: get(stack, "configmap", config_map)["data"] == {"message": "hello"}, WITHIN)
            (tmp_path / "null").write_text("null")
            with operator(stack, folder / "put.py", tmp_path, "example", str(tmp_path / "null")) as put:
                assert put.process.wait(WITHIN) == 2, put.log
                assert "no JSON object" in put.log
            await entities.put("example", {"spec": {"message": "changed"}})
            await eventually(lambda: get(stack, "configmap", config_map)["data"] == {"message": "changed"}, WITHIN)
            kubectl(stack, "delete", "configmap", config_map)
            await eventually(lambda: get(stack, "configmap", config_map), WITHIN)
            await entities.delete("example")
            await eventually(lambda: config_map not in kubectl(stack, "get", "configmap", "-o", "name"), WITHIN)
            assert process.stop() == 0, process.log
            assert "warning" not in process.log
        kubectl(stack, "delete", "-f", str(folder / "rbac.yaml"))
    reported = {event["reportingComponent"] for event in get(stack, "events")["items"] if event["reason"] == "Synced"}
    assert name in reported
