"""Upgrades that fail, under each policy, and the orders for single steps: on a real cluster, with real hooks."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from support.installation import CONFIG_MAP, GREETING, Installation, condition, write_package
from support.running import events, keep, packages, revisions, running, shown
from support.waiting import eventually
from windlass.contracts.lifecycle import Order, PauseOrder, ResumeOrder, RollbackOrder
from windlass.devstack.stack import Stack
from windlass.domain.ids import package_workflow_id
from windlass.ports.kube import Object

ROLLOUT = """\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ .Release.Name | replace "." "-" }}
spec:
  selector:
    matchLabels: {app: {{ .Release.Name }}}
  template:
    metadata:
      labels: {app: {{ .Release.Name }}}
      annotations:
        windlass.dev/stage: {{ if or .Values.stuck (hasPrefix "2.0" .Chart.Version) }}stuck{{ else }}fine{{ end }}
    spec:
      containers: [{name: main, image: example.invalid/none}]
"""
FAILING_JOB = """\
apiVersion: batch/v1
kind: Job
metadata:
  name: {{ .Release.Name | replace "." "-" }}-migrate
spec:
  backoffLimit: 0
  template:
    metadata:
      annotations: {windlass.dev/stage: fail}
    spec:
      restartPolicy: Never
      containers: [{name: main, image: example.invalid/none}]
"""
SETTINGS = {**GREETING, "stuck": {"type": "boolean", "default": False}}
GOOD = ("1.0.0", "1.1.0", "3.0.0")
STUCK, JOB, HOOK = "2.0.0", "2.1.0", "2.2.0"
"""Versions whose pods never become ready, whose Job fails for good, whose hook fails for ever."""


class Site:
    """One Application of a package of its own, whose hooks write down which version ran them for what."""

    def __init__(self, installation: Installation, name: str, folder: Path) -> None:
        self.installation = installation
        self.name = name
        self.journal = folder / "journal"
        self.key = installation.key(name)
        for version in (*GOOD, STUCK, JOB, HOOK):
            templates = {"config.yaml": CONFIG_MAP, "rollout.yaml": ROLLOUT}
            if version == JOB:
                templates["job.yaml"] = FAILING_JOB
            write_package(
                packages(installation),
                name,
                version,
                templates=templates,
                settings=SETTINGS,
                hooks={
                    "note.sh": self._hook(
                        "onStartup: 1\nbeforeHelm: 1",
                        f"while [ -e {folder}/hold-{version} ]; do sleep 0.05; done; echo {version} >> {self.journal}",
                    ),
                    "after.sh": self._hook("afterHelm: 1", "exit 3" if version == HOOK else "true"),
                },
            )

    @staticmethod
    def _hook(bindings: str, body: str) -> str:
        return f"#!/bin/sh\n[ \"$1\" = --config ] && echo 'configVersion: v1\n{bindings}' && exit 0\n{body}\n"

    async def wants(self, version: str, policy: str = "", attempts: int | None = None, **settings: Any) -> None:
        more: dict[str, Any] = {"upgrade": {"onFailure": policy}} if policy else {}
        more |= {"settings": settings} if settings else {}
        if attempts is not None:
            more["upgrade"]["attempts"] = attempts
        await self.installation.application(self.name, self.name, version, timeouts={"readiness": "2s"}, **more)

    async def ready(self, version: str) -> Object:
        return await self.installation.ready(self.name, version, within=45)

    async def rests(self, phase: str, **told: Any) -> Object:
        """Wait until the phase is reached, and ``told`` stands in status."""

        def reached(status: Object) -> bool:
            return status.get("phase") == phase and all(status.get(key) == value for key, value in told.items())

        return await self.installation.status(self.name, reached, within=45)

    async def stands(self) -> dict[str, str]:
        return await shown(self.installation, self.name)

    def ran(self) -> list[str]:
        """Take what the hooks have written down."""
        lines = self.journal.read_text().split() if self.journal.exists() else []
        self.journal.unlink(missing_ok=True)
        return lines

    def order(self, why: str = "a test") -> Order:
        return Order(who="ann", why=why)


@pytest.fixture(scope="module")
async def installation(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Installation]:
    """One running installation for all tests here; each has a package and an Application of its own."""
    async with running(stack, tmp_path_factory.mktemp("policy")) as made:
        yield made


async def test_a_rollout_that_never_ends_is_rolled_back_until_the_object_changes(
    installation: Installation, tmp_path: Path
) -> None:
    site = Site(installation, "back", tmp_path)
    await site.wants("1.0.0", "rollback", 2, greeting="hi")
    await site.ready("1.0.0")
    assert site.ran() == ["1.0.0"] * 2
    await site.wants(STUCK, "rollback", 2, greeting="ho")
    obj = await site.rests("RolledBack", version="1.0.0")
    assert await site.stands() == {"version": "1.0.0", "greeting": "hi"}
    assert site.ran() == [STUCK, STUCK, "1.0.0", "1.0.0"], "the hooks ran as the old version's"
    assert (await revisions(installation, "back"))[-1] == "deployed"
    ready = condition(obj, "Ready")
    assert (ready["status"], ready["reason"]) == ("False", "RolledBack")
    rejected = obj["status"]["rejected"]
    assert (rejected["version"], rejected["step"], rejected["reason"]) == (STUCK, "UpgradeRelease", "ReadinessTimeout")
    assert rejected["instead"]["revision"] == obj["status"]["release"]["revision"]

    async def told() -> bool:  # Events are recorded after the status is written
        return {"RollingBack", "RolledBack"} <= {one["reason"] for one in await events(installation, "back")}

    await eventually(told, what="Events tell of the way back")

    made = await revisions(installation, "back")
    await site.wants(STUCK, "rollback", 3, greeting="ho")  # not another version, not other settings
    await site.rests("RolledBack", observedGeneration=3)
    assert (await revisions(installation, "back"), site.ran()) == (made, []), "what was rejected is not tried again"

    await site.wants("3.0.0", "rollback", 2, greeting="ho")
    obj = await site.ready("3.0.0")
    assert "rejected" not in obj["status"]
    assert await site.stands() == {"version": "3.0.0", "greeting": "ho"}
    await keep(installation, "back", "rollback-of-an-upgrade")


async def test_a_job_that_failed_for_good_is_rolled_back_at_once_and_retried_on_order(
    installation: Installation, tmp_path: Path
) -> None:
    site = Site(installation, "job", tmp_path)
    await site.wants("1.0.0", "rollback")
    await site.ready("1.0.0")
    await site.wants(JOB, "rollback")
    obj = await site.rests("RolledBack", version="1.0.0")
    assert obj["status"]["rejected"]["reason"] == "ResourceFailed"
    assert obj["status"]["release"]["revision"] == 3, "one try"
    answer = await installation.lifecycles.retry(site.key, site.order("the database was mended"))
    assert (answer.accepted, answer.message) == (True, f"{JOB} is tried again")
    obj = await installation.status(
        "job", lambda status: (status.get("release") or {}).get("revision") == 5 and status["phase"] == "RolledBack"
    )
    assert [one["order"] for one in obj["status"]["orders"]] == ["retry"]
    assert await site.stands() == {"version": "1.0.0", "greeting": "hello"}


async def test_settings_that_do_not_work_go_back_to_those_before(installation: Installation, tmp_path: Path) -> None:
    site = Site(installation, "settings", tmp_path)
    await site.wants("1.0.0", "rollback", 1, greeting="one")
    await site.ready("1.0.0")
    await site.wants("1.0.0", "rollback", 1, greeting="two", stuck=True)
    await site.rests("RolledBack", version="1.0.0")
    assert await site.stands() == {"version": "1.0.0", "greeting": "one"}
    await site.wants("1.0.0", "rollback", 1, greeting="much too long for this schema")
    obj = await installation.status(
        "settings", lambda status: (status.get("rejected") or {}).get("reason") == "ValidationFailed"
    )
    await site.rests("RolledBack")
    await site.wants("1.0.0", "rollback", 1, greeting="one")
    obj = await site.ready("1.0.0")
    assert "rejected" not in obj["status"]
    await keep(installation, "settings", "rollback-of-settings")


async def test_a_hook_that_fails_holds_and_can_be_skipped(installation: Installation, tmp_path: Path) -> None:
    site = Site(installation, "skip", tmp_path)
    await site.wants("1.0.0", "hold", 1)
    await site.ready("1.0.0")
    await site.wants(HOOK, "hold", 1)
    obj = await site.rests("Held")
    held = obj["status"]["held"]
    assert (held["step"], held["cause"], held["reason"]) == (
        "AfterHelm hooks/after.sh",
        "Failed",
        "AfterHelmHooksFailed",
    )
    assert condition(obj, "Ready")["reason"] == "Held"
    assert "nextTry" not in obj["status"]["failure"]
    assert (await site.stands())["version"] == HOOK
    assert (await installation.lifecycles.skip(site.key, site.order())).accepted
    obj = await site.ready(HOOK)
    assert "held" not in obj["status"]
    assert [one["version"] for one in obj["status"]["revisions"]] == ["1.0.0"]
    await keep(installation, "skip", "hold-and-skip")


async def test_a_held_rollout_is_retried_and_then_rolled_back(installation: Installation, tmp_path: Path) -> None:
    site = Site(installation, "held", tmp_path)
    await site.wants("1.0.0", "hold", 1)
    await site.ready("1.0.0")
    await site.wants(STUCK, "hold", 1)
    await site.rests("Held")
    assert (await installation.lifecycles.retry(site.key, site.order())).accepted
    await site.rests("Upgrading")
    await site.rests("Held")
    order = RollbackOrder(who="ann", why="it is late")
    assert (await installation.lifecycles.rollback(site.key, order)).accepted
    obj = await site.rests("RolledBack", version="1.0.0")
    assert [(one["order"], one.get("detail")) for one in obj["status"]["orders"]] == [
        ("retry", None),
        ("rollback", "to revision 1 (1.0.0)"),
    ]
    assert obj["status"]["orders"][-1]["why"] == "it is late"
    assert (await site.stands())["version"] == "1.0.0"
    await keep(installation, "held", "hold-retry-rollback")


async def test_a_good_revision_can_be_gone_back_to(installation: Installation, tmp_path: Path) -> None:
    site = Site(installation, "chosen", tmp_path)
    for version, greeting in (("1.0.0", "one"), ("1.1.0", "two"), ("3.0.0", "three")):
        await site.wants(version, greeting=greeting)
        await site.ready(version)
    refused = await installation.lifecycles.rollback(site.key, RollbackOrder(who="ann", to=8))
    assert not refused.accepted
    assert refused.message == "revision 8 is no good release; there are: 1 (1.0.0), 2 (1.1.0), 3 (3.0.0)"
    assert (await installation.lifecycles.rollback(site.key, RollbackOrder(who="ann", to=1, why="older"))).accepted
    await site.rests("RolledBack", version="1.0.0")
    assert await site.stands() == {"version": "1.0.0", "greeting": "one"}
    assert (await installation.lifecycles.rollback(site.key, RollbackOrder(who="ann", to=2))).accepted
    await site.rests("RolledBack", version="1.1.0")
    assert await site.stands() == {"version": "1.1.0", "greeting": "two"}
    assert (await installation.lifecycles.retry(site.key, site.order())).accepted
    await site.ready("3.0.0")
    assert await site.stands() == {"version": "3.0.0", "greeting": "three"}
    await keep(installation, "chosen", "ordered-rollback")


async def test_a_rollout_is_cancelled_and_goes_on_when_ordered(installation: Installation, tmp_path: Path) -> None:
    site = Site(installation, "stop", tmp_path)
    await installation.application("stop", "stop", "1.0.0", settings={"stuck": True})  # would wait for ten minutes
    await installation.status("stop", lambda status: status.get("progress"))
    answer = await installation.lifecycles.cancel(site.key, site.order("wrong cluster"))
    assert answer.accepted, answer.message
    obj = await site.rests("Held")
    assert (obj["status"]["held"]["step"], obj["status"]["held"]["cause"]) == ("UpgradeRelease", "Cancelled")
    assert condition(obj, "Ready")["message"].startswith("UpgradeRelease was cancelled")
    assert "failure" not in obj["status"]
    assert (await installation.lifecycles.resume(site.key, ResumeOrder(who="ann"))).accepted
    await installation.status("stop", lambda status: status.get("progress"))
    await site.wants("1.0.0")
    obj = await site.ready("1.0.0")
    assert [(one["order"], one.get("detail")) for one in obj["status"]["orders"]] == [
        ("cancel", "UpgradeRelease"),
        ("resume", None),
    ]
    await keep(installation, "stop", "cancelled-step")


async def test_a_breakpoint_holds_before_the_release_and_outlives_temporal(
    installation: Installation, tmp_path: Path
) -> None:
    site = Site(installation, "point", tmp_path)
    await site.wants("1.0.0")
    await site.ready("1.0.0")
    answer = await installation.lifecycles.pause(site.key, PauseOrder(who="ann", why="to look", before=("run",)))
    assert (answer.accepted, answer.message) == (True, "the lifecycle holds before UpgradeRelease")
    site.ran()
    await site.wants("1.1.0")
    obj = await site.rests("Paused", step="Breakpoint")
    assert obj["status"]["breakpoints"] == ["UpgradeRelease"]
    assert (await site.stands(), site.ran()) == ({"version": "1.0.0", "greeting": "hello"}, ["1.1.0"] * 2)

    await _lose(installation, "point")
    obj = await site.rests("Paused", step="Breakpoint")
    assert condition(obj, "Ready")["reason"] == "Breakpoint"
    assert (await site.stands())["version"] == "1.0.0"
    assert (await installation.lifecycles.resume(site.key, ResumeOrder(who="ann"))).accepted
    obj = await site.ready("1.1.0")
    assert "breakpoints" not in obj["status"]
    await keep(installation, "point", "breakpoint")


async def test_a_hold_outlives_temporal(installation: Installation, tmp_path: Path) -> None:
    site = Site(installation, "lost", tmp_path)
    await site.wants("1.0.0", "hold", 1)
    await site.ready("1.0.0")
    await site.wants(JOB, "hold", 1)
    before = await site.rests("Held")
    await _lose(installation, "lost")
    obj = await site.rests("Held")
    assert obj["status"]["held"] == before["status"]["held"]
    assert obj["status"]["revisions"] == before["status"]["revisions"]
    assert obj["status"]["workflow"]["runId"] != before["status"]["workflow"]["runId"]
    assert (await installation.lifecycles.rollback(site.key, RollbackOrder(who="ann"))).accepted
    await site.rests("RolledBack", version="1.0.0")
    assert (await site.stands())["version"] == "1.0.0"

    await _lose(installation, "lost")
    obj = await site.rests("RolledBack", version="1.0.0")
    assert obj["status"]["rejected"]["version"] == JOB
    await keep(installation, "lost", "rebuild-while-rolled-back")
    await installation.delete("lost")
    await installation.gone("lost")
    assert await revisions(installation, "lost") == []


async def test_a_worker_that_dies_on_the_way_back_is_not_missed(installation: Installation, tmp_path: Path) -> None:
    site = Site(installation, "killed", tmp_path)
    await site.wants("1.0.0", "rollback", 1, greeting="hi")
    await site.ready("1.0.0")
    (tmp_path / "hold-1.0.0").touch()
    await site.wants(JOB, "rollback", 1, greeting="ho")
    obj = await site.rests("RollingBack", step="Startup hooks/note.sh")
    assert condition(obj, "Ready")["reason"] == "RollingBack"
    installation.kill()
    (tmp_path / "hold-1.0.0").unlink()
    installation.start()
    obj = await site.rests("RolledBack", version="1.0.0")
    assert await site.stands() == {"version": "1.0.0", "greeting": "hi"}
    assert obj["status"]["release"]["revision"] == 3, "one release of each"
    assert obj["status"]["rejected"]["version"] == JOB


async def _lose(installation: Installation, name: str) -> None:
    """End the lifecycle as if Temporal had lost it, and wait for the one that is rebuilt."""
    before = await installation.object(name)
    assert before is not None
    handle = installation.client.get_workflow_handle(package_workflow_id(installation.key(name)))
    await handle.terminate("as if Temporal had lost it")
    await installation.kube.patch(
        installation.ref("Application", name, before["apiVersion"]),
        {"metadata": {"annotations": {"touched": before["metadata"]["resourceVersion"]}}},
        kind="merge",
    )
    await installation.status(name, lambda status: status["workflow"]["runId"] != before["status"]["workflow"]["runId"])
