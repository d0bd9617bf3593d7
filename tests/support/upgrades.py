"""Upgrades that succeed, and those that fail in every way they can: what tests of failure policies are about."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from support.installation import CONFIG_MAP, GREETING, ROLLOUT, Installation, write_package
from support.running import packages, shown
from windlass.contracts.lifecycle import Action
from windlass.domain.ids import package_workflow_id
from windlass.ports.kube import Object

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
            settings = {**GREETING, "stuck": {"type": "boolean", "default": version == STUCK}}
            if version == JOB:
                templates["job.yaml"] = FAILING_JOB
            write_package(
                packages(installation),
                name,
                version,
                templates=templates,
                settings=settings,
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
        return await self.installation.ready(self.name, version)

    async def rests(self, phase: str, **told: Any) -> Object:
        """Wait until the phase is reached, and ``told`` stands in status."""

        def reached(status: Object) -> bool:
            return status.get("phase") == phase and all(status.get(key) == value for key, value in told.items())

        return await self.installation.status(self.name, reached)

    async def stands(self) -> dict[str, str]:
        return await shown(self.installation, self.name)

    def ran(self) -> list[str]:
        """Take what the hooks have written down."""
        lines = self.journal.read_text().split() if self.journal.exists() else []
        self.journal.unlink(missing_ok=True)
        return lines

    def action(self, why: str = "a test") -> Action:
        return Action(who="ann", why=why)


async def lose(installation: Installation, name: str) -> None:
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
