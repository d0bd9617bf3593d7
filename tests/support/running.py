"""An installation that runs already, for tests that need no process of their own, and keeping what they did."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from replay.recorder import SWITCH, record_history

from support.installation import Installation, installed
from support.waiting import eventually
from windlass.devstack.stack import Stack
from windlass.domain.ids import package_workflow_id
from windlass.ports.kube import Object, ObjectRef


@asynccontextmanager
async def running(stack: Stack, folder: Path, **environ: str) -> AsyncGenerator[Installation]:
    """Make an installation, start it, and declare the repository `packages` for it."""
    async with installed(stack, folder / "installation", **environ) as made:
        packages(made).mkdir(exist_ok=True)
        await made.repository(packages(made))
        made.start()
        yield made


def packages(installation: Installation) -> Path:
    """Return the repository folder of an installation made by `running` or by the fixture of the same shape."""
    return installation.folder.parent / "packages"


async def keep(installation: Installation, name: str, path: str, run_id: str | None = None) -> None:
    """Keep the history of the Application's lifecycle as replay path ``path`` if histories are being recorded.

    The newest run is kept once it has come to rest or ended; ``run_id`` names an earlier one.
    """
    await keep_workflow(installation, package_workflow_id(installation.key(name)), path, run_id)


async def keep_workflow(installation: Installation, workflow_id: str, path: str, run_id: str | None = None) -> None:
    """Keep the history of any workflow; as `keep`."""
    if os.environ.get(SWITCH) != "1":
        return

    async def rests() -> bool:
        raw = (await installation.client.get_workflow_handle(workflow_id, run_id=run_id).describe()).raw_description
        return not raw.pending_activities and not raw.HasField("pending_workflow_task")

    await eventually(rests, what=f"{workflow_id} rests")
    await record_history(installation.client, workflow_id, run_id, path)


async def shown(installation: Installation, name: str) -> dict[str, str]:
    """Return the data of the ConfigMap that the greeter's chart makes, empty if there is none."""
    found = await installation.get("ConfigMap", name)
    return found["data"] if found else {}


async def events(installation: Installation, name: str) -> list[Object]:
    """Return the Kubernetes Events about the Application."""
    found = await installation.kube.list("events.k8s.io/v1", "Event", namespace=installation.namespace)
    return [one for one in found.items if one["regarding"]["name"] == name]


async def revisions(installation: Installation, name: str) -> list[str]:
    """Return the status of each stored Helm revision of the Application, oldest first."""
    found = await installation.release(name)
    return [found[number] for number in sorted(found)]


def application_ref(installation: Installation, name: str) -> ObjectRef:
    """Name an Application of the installation for requests of a test's own."""
    return installation.ref("Application", name, "windlass.dev/v1alpha1")
