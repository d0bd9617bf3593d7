"""Install, upgrade one value of, and uninstall many packages, beside the plain helm CLI doing the same.

Ours counts the worker process (workflows, watcher, Helm children) and Temporal; Kubernetes runs for both and is counted
for neither. Neither waits for readiness: the pods are simulated. Ours begins with the first object written and ends
when the last one says Ready for what it asks; the peer's loop ends with the last process.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Final

from rows import Row
from usage import Usage, used

from support.installation import Installation, condition, installed, write_package
from windlass.adapters.kube.client import KubeClient
from windlass.adapters.kube.following.reflector import Listed, list_and_watch
from windlass.devstack.stack import Stack
from windlass.domain.ids import API_VERSION
from windlass.ports.kube import Object, ObjectRef

PEER: Final = "helm CLI"
AT_ONCE: Final = 10
"""Helm processes beside each other, as in the measurements of the peers."""

WAIT: Final = 900.0
"""Seconds after which a phase is given up."""

PHASES: Final = ("install", "upgrade", "uninstall")

CHART: Final = {
    "config.yaml": """\
apiVersion: v1
kind: ConfigMap
metadata: {name: {{ .Release.Name | replace "." "-" }}}
data: {greeting: {{ .Values.greeting | quote }}}
""",
    "service.yaml": """\
apiVersion: v1
kind: Service
metadata: {name: {{ .Release.Name | replace "." "-" }}}
spec: {selector: {app: {{ .Release.Name }}}, ports: [{port: 80}]}
""",
    "deployment.yaml": """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: {{ .Release.Name | replace "." "-" }}}
spec:
  replicas: 1
  selector: {matchLabels: {app: {{ .Release.Name }}}}
  template:
    metadata: {labels: {app: {{ .Release.Name }}}}
    spec: {containers: [{name: main, image: "example.com/main:1"}]}
""",
}
SETTINGS: Final = {"greeting": {"type": "string", "default": "hello"}}

type Measured = tuple[float, Usage]
"""Seconds, and what was used."""


async def measure(stack: Stack, folder: Path, *, packages: int, phases: Sequence[str] = PHASES) -> list[Row]:
    """Run the phases, the peer first; rows are called ``install_100`` and so on."""
    for name in ("helm", "windlass"):
        (folder / name).mkdir()
    theirs = await _helm(stack, folder / "helm", packages, phases)
    ours = await _windlass(stack, folder / "windlass", packages, phases)
    rows: list[Row] = []
    for phase in phases:
        (wall, usage), (peer_wall, peer_usage) = ours[phase], theirs[phase]
        figures = (
            ("wall", "s", wall, peer_wall),
            ("cpu", "CPU s", usage.cpu, peer_usage.cpu),
            ("rss", "MB", usage.rss, peer_usage.rss),
        )
        rows += [
            Row(
                name=f"{phase}_{packages}", metric=metric, unit=unit, value=value, n=1, peer=PEER, peer_value=peer_value
            )
            for metric, unit, value, peer_value in figures
        ]
    return rows


# -- ours ------------------------------------------------------------------------------------------------------------


async def _windlass(stack: Stack, folder: Path, packages: int, phases: Sequence[str]) -> dict[str, Measured]:
    names = [f"app-{number}" for number in range(packages)]
    found: dict[str, Measured] = {}
    async with installed(stack, folder) as installation:
        write_package(folder / "packages", "server", "1.0.0", templates=CHART, settings=SETTINGS)
        await installation.repository(folder / "packages")
        process = installation.start()
        # The first package pays for what starts once, as somebody's installation has long since.
        await installation.application("first", "server", "1.0.0", wait=False)
        await installation.ready("first", "1.0.0", within=WAIT)
        roots = (process.pid, _temporal(stack))
        for phase in phases:
            async with used(*roots) as usage:
                began = time.monotonic()
                await _phase(installation, names, phase)
                wall = time.monotonic() - began
            found[phase] = (wall, usage)
    return found


async def _phase(installation: Installation, names: Sequence[str], phase: str) -> None:
    wanted = set(names)
    if phase == "uninstall":
        done = asyncio.create_task(_until(installation, lambda apps: not wanted & apps.keys()))
        await asyncio.gather(*(installation.delete(name) for name in names))
    else:
        settings = {"greeting": phase}
        await asyncio.gather(
            *(installation.application(name, "server", "1.0.0", wait=False, settings=settings) for name in names)
        )
        done = asyncio.create_task(
            _until(installation, lambda apps: wanted <= {name for name, one in apps.items() if _is_ready(one, phase)})
        )
    async with asyncio.timeout(WAIT):
        await done


def _is_ready(obj: Object, greeting: str) -> bool:
    status: Object = obj.get("status") or {}
    seen: Object = status.get("seen") or {}
    current = seen.get("generation") == obj["metadata"]["generation"]
    asked = obj["spec"].get("settings", {}).get("greeting") == greeting
    return asked and current and condition(obj, "Ready")["status"] == "True"


async def _until(installation: Installation, reached: Callable[[dict[str, Object]], bool]) -> None:
    """Watch the Applications until they are as they should be."""
    apps: dict[str, Object] = {}
    stream = list_and_watch(installation.kube, API_VERSION, "Application", namespace=installation.namespace)
    async with aclosing(stream) as events:
        async for event in events:
            if isinstance(event, Listed):
                apps = {item["metadata"]["name"]: item for item in event.items}
            elif event.type == "DELETED":
                apps.pop(event.object["metadata"]["name"], None)
            elif event.type != "BOOKMARK":
                apps[event.object["metadata"]["name"]] = event.object
            if reached(apps):
                return


def _temporal(stack: Stack) -> int:
    return stack.state.parts["temporal"].pid


# -- the helm CLI ----------------------------------------------------------------------------------------------------


async def _helm(stack: Stack, folder: Path, packages: int, phases: Sequence[str]) -> dict[str, Measured]:
    chart = write_package(folder, "server", "1.0.0", templates=CHART, settings=SETTINGS, extra={"values.yaml": "{}"})
    namespace = f"helm-{os.getpid()}-{packages}-{time.monotonic_ns() % 10**6}"
    names = [f"app-{number}" for number in range(packages)]
    helm = str(stack.tool("helm"))
    env = {**os.environ, **stack.env, "HELM_CACHE_HOME": str(folder / "cache"), "HELM_CONFIG_HOME": str(folder)}
    slots = asyncio.Semaphore(AT_ONCE)

    async def run(*arguments: str) -> None:
        async with slots:
            process = await asyncio.create_subprocess_exec(
                helm,
                *arguments,
                "--namespace",
                namespace,
                env=env,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.PIPE,
            )
            _, error = await process.communicate()
            if process.returncode:
                raise RuntimeError(f"helm {arguments[0]}: {error.decode()}")

    lines: dict[str, Callable[[str], tuple[str, ...]]] = {
        "install": lambda name: ("install", name, str(chart), "--set", "greeting=install"),
        "upgrade": lambda name: ("upgrade", name, str(chart), "--set", "greeting=upgrade"),
        "uninstall": lambda name: ("uninstall", name),
    }
    found: dict[str, Measured] = {}
    async with _namespace(stack, namespace):
        for phase in phases:
            before = os.times()
            async with used(os.getpid()) as usage:
                began = time.monotonic()
                await asyncio.gather(*(run(*lines[phase](name)) for name in names))
                wall = time.monotonic() - began
            after = os.times()
            # Of the processes only: what the loop itself uses is no part of helm.
            usage.cpu = after.children_user + after.children_system - before.children_user - before.children_system
            found[phase] = (wall, usage)
    return found


@asynccontextmanager
async def _namespace(stack: Stack, name: str) -> AsyncGenerator[None]:
    async with KubeClient.from_kubeconfig(stack.kubeconfig, user_agent="bench") as kube:
        await kube.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        try:
            yield
        finally:
            await kube.delete(ObjectRef(api_version="v1", kind="Namespace", name=name))
