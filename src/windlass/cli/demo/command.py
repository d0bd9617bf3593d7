"""``windlass demo``: packages live a whole life on the embedded stack, before your eyes."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final
from urllib.parse import quote

import typer

from windlass.cli.output import console
from windlass.domain.errors import Actor, PermanentError, Reason

if TYPE_CHECKING:
    from windlass.cli.context import Context
    from windlass.devstack.stack import Stack

INHERITED: Final = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "NO_COLOR", "XDG_CACHE_HOME", "XDG_DATA_HOME")
"""What the demo's worker sees of your environment: your own cluster, Temporal and settings are none of its business."""


def demo(
    once: Annotated[bool, typer.Option("--once", help="Stop the stack again at the end.")] = False,
    packages: Annotated[
        Path | None, typer.Option(help="Folder with other versions of the packages webapp, cache and vault.")
    ] = None,
    data_dir: Annotated[Path | None, typer.Option(help="Data directory of the stack.")] = None,
) -> None:
    """Watch packages being installed, reconfigured, upgraded under kill -9, and uninstalled.

    Starts the embedded stack unless it runs, and leaves it running. Every line shown was seen in the cluster or in a
    workflow's history; exit code 0 means that every check was met.
    """
    from windlass.devstack.paths import examples_dir

    began = time.monotonic()
    typer.echo("Windlass demo: real packages on a real Kubernetes API (its pods are simulated), run by Temporal.")
    packages = packages or examples_dir() / "packages"
    if not (packages / "webapp").is_dir():
        raise PermanentError(
            Reason.PACKAGE_NOT_FOUND,
            f"the demo's packages are not in {packages}",
            hint="name a folder that holds webapp, cache and vault, or leave --packages out",
            actor=Actor.USER,
        )
    stack, ours = _stack(data_dir)
    stop = once and ours
    try:
        links = asyncio.run(_play(stack, packages.absolute()))
    finally:
        if stop:
            typer.echo("Stopping the stack.")
            stack.stop()
    typer.echo(f"\nEvery step was seen to have happened, in {time.monotonic() - began:.0f} s.")
    if not stop:
        _farewell(stack, data_dir, links)


def _stack(data_dir: Path | None) -> tuple[Stack, bool]:
    """Return the stack, and whether it was started here."""
    from windlass.devstack import paths
    from windlass.devstack.stack import Stack
    from windlass.devstack.state import is_running

    folder = paths.data_dir(data_dir)
    if is_running(folder):
        typer.echo(f"The stack in {folder} runs already.")
        return Stack.attach(folder), False
    typer.echo(f"Starting the stack in {folder}:")
    return Stack.start(folder, detach=True, report=typer.echo), True


async def _play(stack: Stack, packages: Path) -> dict[str, str]:
    """Tell the story; return the page of each package's workflow by name."""
    from windlass import __version__
    from windlass.adapters.kube.client import KubeClient
    from windlass.cli.cluster import Cluster
    from windlass.cli.demo.screen import screen
    from windlass.cli.demo.stage import Stage
    from windlass.cli.demo.story import NAMESPACE, PACKAGES, play, prepare
    from windlass.cli.demo.worker import Worker
    from windlass.domain.ids import package_workflow_id

    context = _context(stack)
    worker = Worker(stack.data_dir / "demo", {**context.environ, **stack.worker_env})
    client = await context.connect("demo")
    kube = KubeClient.from_kubeconfig(stack.kubeconfig, user_agent=f"windlass-demo/{__version__}")
    async with kube:
        place = Cluster(context=context, kube=kube, namespace=NAMESPACE)
        try:
            with screen(console(), sys.stdout) as show:
                stage = Stage(place, client, worker, show)
                await prepare(stage, packages)
                await play(stage)
        finally:
            await asyncio.to_thread(worker.stop)
    if not context.ui:
        return {}
    workflows = {name: package_workflow_id(place.key(name)) for name in PACKAGES}
    return {
        name: f"{context.ui}/workflows/{quote(workflow, safe='')}/{stage.runs.get(name, '')}"
        for name, workflow in workflows.items()
    }


def _context(stack: Stack) -> Context:
    """Return a context that knows the embedded stack and nothing of the user's own cluster and Temporal."""
    from windlass.cli.context import INSTALLATION as INSTALLATION_VARIABLE
    from windlass.cli.context import Context
    from windlass.cli.demo.story import INSTALLATION
    from windlass.temporal import digest_key, keyring

    payload_keys, digest_file = stack.data_dir / "keyring.yaml", stack.data_dir / "digest-key"
    keyring.Keyring.load_or_create(payload_keys)
    digest_key.DigestKey.load_or_create(digest_file)
    environ = {
        **{name: os.environ[name] for name in INHERITED if name in os.environ},
        **stack.env,
        "TEMPORAL_NAMESPACE": "default",
        INSTALLATION_VARIABLE: INSTALLATION,
        keyring.ENVIRONMENT_FILE: str(payload_keys),
        digest_key.ENVIRONMENT_FILE: str(digest_file),
        "WINDLASS_HELM": str(stack.tool("helm")),
        "WINDLASS_TEMPORAL_UI": stack.ui_url,
    }
    return Context(data_dir=stack.data_dir, environ=environ, stack=stack)


def _farewell(stack: Stack, data_dir: Path | None, links: dict[str, str]) -> None:
    where = f" --data-dir {stack.data_dir}" if data_dir else ""
    lines = ["", "Read each life step by step in the Temporal UI:"]
    lines += [f"  {name:<6} {link}" for name, link in links.items()]
    lines += [
        "",
        "The stack runs on. Next:",
        f"  export KUBECONFIG={stack.kubeconfig}",
        f"  windlass worker --role all{where}     # in a second terminal",
        "  for f in examples/applications/*.yaml; do",
        f'    sed "s#/opt/windlass#$PWD#" $f | windlass apply{where} -f -',
        "  done",
        f"  windlass watch{where} -n shop",
        f"  windlass down{where}",
    ]
    typer.echo("\n".join(lines))
