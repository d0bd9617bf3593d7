"""`windlass tree|events|history` on a package with real workloads."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any, Final

import pytest
import yaml

from support.command import LIMIT, done, started, windlass
from support.installation import Installation, write_package
from support.running import packages, running
from support.waiting import eventually
from windlass.devstack.stack import Stack

DEPLOYMENT: Final = """\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ .Release.Name | replace "." "-" }}
spec:
  replicas: {{ .Values.replicas }}
  selector: {matchLabels: {app: {{ .Release.Name }}}}
  template:
    metadata: {labels: {app: {{ .Release.Name }}}}
    spec: {containers: [{name: main, image: "example.com/main:{{ .Chart.Version }}"}]}
"""
REPLICAS: Final = {"replicas": {"type": "integer", "default": 2, "maximum": 3}}


@pytest.fixture(scope="module")
async def installation(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Installation]:
    async with running(stack, tmp_path_factory.mktemp("insight")) as made:
        for version in ("1.0.0", "1.1.0"):
            templates = {"deployment.yaml": DEPLOYMENT}
            write_package(packages(made), "server", version, templates=templates, settings=REPLICAS)
        yield made


def kinds(node: dict[str, Any]) -> list[str]:
    return [node["kind"], *(kind for child in node.get("children", []) for kind in kinds(child))]


async def test_a_tree_goes_down_to_the_pods(installation: Installation) -> None:
    await installation.application("tree", "server", "1.0.0")
    await installation.ready("tree", "1.0.0")
    root = json.loads((await done(installation, "tree", "tree", "-o", "json")).out)
    assert kinds(root) == ["Application", "Release", "Deployment", "ReplicaSet", "Pod", "Pod"]
    assert {root["state"], root["children"][0]["children"][0]["state"]} == {"current"}
    shown = (await done(installation, "tree", "tree")).lines
    assert len(shown) == 7
    assert sum("Pod/" in line for line in shown) == 2

    # The ReplicaSet of an earlier rollout holds nothing any more and is not shown.
    await installation.application("tree", "server", "1.1.0", settings={"replicas": 1})
    await installation.ready("tree", "1.1.0")

    async def rolled_out() -> bool:
        found = yaml.safe_load((await done(installation, "tree", "tree", "-o", "yaml")).out)
        return kinds(found) == ["Application", "Release", "Deployment", "ReplicaSet", "Pod"]

    await eventually(rolled_out, LIMIT)


async def test_a_tree_is_followed_line_by_line_until_the_package_is_gone(installation: Installation) -> None:
    await installation.application("grown", "server", "1.0.0")
    await installation.ready("grown", "1.0.0")
    async with started(installation, "tree", "grown", "-n", installation.namespace, "--watch") as process:
        assert process.stdout is not None
        lines: list[str] = []

        async def until(word: str) -> None:
            while not lines or word not in lines[-1]:
                lines.append((await process.stdout.readline()).decode())  # type: ignore[union-attr]
                assert lines[-1], "".join(lines)

        async with asyncio.timeout(LIMIT):
            await until("Pod/")
            await installation.application("grown", "server", "1.0.0", settings={"replicas": 3})
            await until("revision 2")
            await installation.delete("grown")
            await until("grown is gone")
        assert await process.wait() == 0


async def test_events_of_the_object_and_of_everything_below_it(installation: Installation) -> None:
    await installation.application("told", "server", "1.0.0")
    await installation.application("told-too", "server", "1.0.0")
    await installation.ready("told", "1.0.0")
    await installation.ready("told-too", "1.0.0")

    async def all_there() -> bool:
        found = json.loads((await done(installation, "events", "told", "-o", "json")).out)
        about = {one["object"]["name"] for one in found}
        assert not any("told-too" in name for name in about)
        return {one["object"]["kind"] for one in found} == {"Application", "Deployment", "ReplicaSet", "Pod"}

    await eventually(all_there, LIMIT)
    shown = await done(installation, "events", "told", "--since", "1h")
    assert shown.lines[0].split() == ["AGE", "TYPE", "REASON", "OBJECT", "NOTE"]
    assert any("UpgradeRelease" in line for line in shown.lines)
    none = await windlass(installation, "events", "told", "-n", installation.namespace, "--since", "0s")
    assert (none.code, none.out, none.err) == (0, "", "No events of told.\n")


async def test_events_are_followed(installation: Installation) -> None:
    await installation.application("followed", "server", "1.0.0")
    await installation.ready("followed", "1.0.0")
    async with started(installation, "events", "followed", "-n", installation.namespace, "-w") as process:
        assert process.stdout is not None

        async def until(word: str) -> None:
            while word not in (line := (await process.stdout.readline()).decode()):  # type: ignore[union-attr]
                assert line

        async with asyncio.timeout(LIMIT):
            await until("installed revision 1")
            await installation.lifecycles.pause(installation.key("followed"), installation.order())
            await until("OrderedPause")
            await installation.lifecycles.resume(installation.key("followed"), installation.order())
            await installation.application("followed", "server", "1.1.0")
            # A pod that did not exist when the command was started.
            await until("Created pod: ")
