"""`windlass tree|events|history` on a package with real workloads."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any, Final

import pytest
import yaml
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import DeleteWorkflowExecutionRequest

from support.command import LIMIT, done, started, user_name, windlass
from support.installation import Installation, write_package
from support.running import packages, running
from support.waiting import eventually
from windlass.devstack.stack import Stack
from windlass.domain.ids import package_workflow_id

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
            await installation.lifecycles.pause(installation.key("followed"), installation.action())
            await until("PauseRequested")
            await installation.lifecycles.resume(installation.key("followed"), installation.action())
            await installation.application("followed", "server", "1.1.0")
            # A pod that did not exist when the command was started.
            await until("Created pod: ")


async def story(installation: Installation, name: str, *options: str) -> list[dict[str, Any]]:
    ran = await done(installation, "history", name, "-o", "json", *options)
    told = json.loads(ran.out)
    assert told["forgotten"] == []
    return told["entries"]


async def test_a_history_tells_what_happened_by_whom_and_why(installation: Installation) -> None:
    await installation.application("past", "server", "1.0.0")
    await installation.ready("past", "1.0.0")
    await done(installation, "pause", "past", "--reason", "audit")
    await done(installation, "resume", "past", "--reason", "audited")
    await windlass(installation, "resume", "past", "-n", installation.namespace, "--reason", "again")
    await installation.application("past", "server", "1.1.0", settings={"replicas": 9})
    await installation.status("past", lambda status: status.get("failure"), within=LIMIT)
    await installation.application("past", "server", "1.1.0")
    await installation.ready("past", "1.1.0", within=LIMIT)

    me = await user_name(installation.kube)
    entries = await story(installation, "past")
    assert [one["time"] for one in entries if one["kind"] != "condition"] == sorted(
        one["time"] for one in entries if one["kind"] != "condition"
    )
    actions = [(one["what"], one["result"], one["who"], one["why"]) for one in entries if one["kind"] == "action"]
    assert actions == [
        ("pause", "done", me, "audit"),
        ("resume", "done", me, "audited"),
        ("resume", "refused", me, "again"),
    ]
    steps = [(one["what"], one["result"]) for one in entries if one["kind"] == "step"]
    assert steps.index(("UpgradeRelease", "done")) < steps.index(("ApplySettings", "failed"))
    assert steps[-1] == ("UpgradeRelease", "done")
    failed = next(one for one in entries if one.get("result") == "failed")
    assert "replicas" in failed["why"]
    assert all(one["seconds"] > 0 for one in entries if one["what"] == "UpgradeRelease")
    releases = [(one["what"], one["result"]) for one in entries if one["kind"] == "release"]
    assert releases == [("revision 1", "superseded"), ("revision 2", "deployed")]
    assert {one["kind"] for one in entries} == {"run", "signal", "step", "action", "release", "condition"}
    shown = await done(installation, "history", "past")
    assert shown.lines[0].split() == ["TIME", "KIND", "WHAT", "RESULT", "TOOK", "WHY"]
    assert any(f"{me}: audited" in line for line in shown.lines)


async def test_a_history_goes_over_runs_and_says_what_retention_has_taken(
    stack: Stack, tmp_path_factory: pytest.TempPathFactory
) -> None:
    async with running(stack, tmp_path_factory.mktemp("runs"), WINDLASS_CONTINUE_AFTER_EVENTS="30") as short:
        for version in ("1.0.0", "1.1.0"):
            write_package(packages(short), "server", version, templates={"d.yaml": DEPLOYMENT}, settings=REPLICAS)
        await short.application("runs", "server", "1.0.0")
        await short.ready("runs", "1.0.0", within=LIMIT)
        await short.application("runs", "server", "1.1.0")
        await short.ready("runs", "1.1.0", within=LIMIT)

        async def several_runs() -> list[str]:
            entries = await story(short, "runs")
            return [one["what"] for one in entries if one["kind"] == "run"]

        runs = await eventually(several_runs, LIMIT)
        assert runs[0] == "the lifecycle begins"
        assert set(runs[1:]) == {"a new run goes on"}
        assert [one["what"] for one in await story(short, "runs")].count("UpgradeRelease") == 2

        # What retention does after days: the oldest run goes.
        handles = [one async for one in short.client.list_workflows(f"WorkflowId = '{workflow_id(short, 'runs')}'")]
        oldest = min(handles, key=lambda one: one.start_time)
        request = DeleteWorkflowExecutionRequest(
            namespace=short.client.namespace,
            workflow_execution=WorkflowExecution(workflow_id=oldest.id, run_id=oldest.run_id),
        )
        await short.client.workflow_service.delete_workflow_execution(request)

        async def forgotten() -> str:
            ran = await windlass(short, "history", "runs", "-n", short.namespace)
            assert ran.code == 0
            return ran.err

        told = await eventually(forgotten, LIMIT)
        assert told.startswith("not known any more: steps and signals before ")
        await done(short, "history", "runs", "--since", "1s")


def workflow_id(installation: Installation, name: str) -> str:
    return package_workflow_id(installation.key(name))


async def test_a_history_is_read_without_keyring_and_temporal(installation: Installation) -> None:
    await installation.application("alone", "server", "1.0.0")
    await installation.ready("alone", "1.0.0")
    nowhere = installation.folder / "nowhere"
    nowhere.mkdir()
    ran = await windlass(
        installation,
        *("history", "alone", "-n", installation.namespace),
        TEMPORAL_ADDRESS="127.0.0.1:1",
        WINDLASS_KEYRING_FILE="",
        WINDLASS_DATA=str(nowhere),
    )
    assert (ran.code, ran.err) == (0, "")
    assert any(line.split()[1:4] == ["release", "revision", "1"] for line in ran.lines)
    assert any("UpgradeRelease" in line for line in ran.lines)


# -- render ----------------------------------------------------------------------------------------------------------


def rendered(text: str) -> dict[str, dict[str, Any]]:
    return {one["kind"]: one for one in yaml.safe_load_all(text)}


async def test_render_shows_what_would_be_applied_and_applies_nothing(installation: Installation) -> None:
    await installation.application("drawn", "server", "1.0.0")
    await installation.ready("drawn", "1.0.0")
    now = rendered((await done(installation, "render", "drawn")).out)["Deployment"]
    assert now["metadata"]["namespace"] == installation.namespace
    assert now["spec"]["replicas"] == 2
    more = await done(installation, "render", "drawn", "--version", "1.1.0", "--set", "replicas=3")
    then = rendered(more.out)["Deployment"]
    assert then["spec"]["replicas"] == 3
    assert then["spec"]["template"]["spec"]["containers"][0]["image"].endswith(":1.1.0")
    listed = json.loads((await done(installation, "render", "drawn", "-o", "json")).out)
    assert [one["kind"] for one in listed["items"]] == ["Deployment"]
    assert await installation.release("drawn") == {1: "deployed"}
    bad = await windlass(installation, "render", "drawn", "-n", installation.namespace, "--set", "replicas=9")
    assert bad.code == 1
    assert "replicas" in bad.err


async def test_render_hides_secrets(installation: Installation) -> None:
    text = "kind: Secret\napiVersion: v1\nmetadata: {name: s}\nstringData: {key: {{ .Values.key }}}\n---\n"
    text += "kind: ConfigMap\napiVersion: v1\nmetadata: {name: c}\ndata: {url: 'https://{{ .Values.key }}@host'}\n"
    write_package(
        packages(installation), "hidden", "1.0.0", templates={"a.yaml": text}, settings={"key": {"type": "string"}}
    )
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "keys", "namespace": installation.namespace}}
    await installation.apply({**secret, "stringData": {"values.yaml": "key: canary-of-render"}})
    await installation.application("hidden", "hidden", "1.0.0", valuesFrom=[{"kind": "Secret", "name": "keys"}])
    await installation.ready("hidden", "1.0.0")
    shown = await done(installation, "render", "hidden")
    assert "canary-of-render" not in shown.out
    assert rendered(shown.out)["ConfigMap"]["data"]["url"].startswith("https://(hidden")
