"""``windlass retry|skip|cancel|rollback|pause|resume|dump``: what people ask lifecycles for, and their state."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated, Any

import typer

from windlass.cli.options import AllNamespaces, DataDir, DocumentFormat, Name, Namespace, Selection
from windlass.cli.output import Document, emit
from windlass.domain.errors import WindlassError

Why = Annotated[str, typer.Option("--reason", "-r", help="Why; kept in the package's status.", show_default=False)]
Wait = Annotated[bool, typer.Option(help="Wait for the lifecycle's answer.")]
Timeout = Annotated[float, typer.Option(help="Seconds to wait.")]
PATIENCE = 30.0
"""Seconds that a command waits for an answer: several times what a lifecycle needs while a worker starts anew."""


def retry(
    name: Name,
    reason: Why,
    wait: Wait = True,
    timeout: Timeout = PATIENCE,
    namespace: Namespace = "",
    data_dir: DataDir = None,
) -> None:
    """Try the failed step again now, reading the package's source anew; or the version that was rejected."""
    _ask("retry", "", reason, name, namespace, data_dir, timeout if wait else None)


def skip(
    name: Name,
    reason: Why,
    wait: Wait = True,
    timeout: Timeout = PATIENCE,
    namespace: Namespace = "",
    data_dir: DataDir = None,
) -> None:
    """Pass over the failed step: a hook, the wait for readiness, or a release that is held after it failed."""
    _ask("skip", "", reason, name, namespace, data_dir, timeout if wait else None)


def cancel(
    name: Name,
    reason: Why,
    wait: Wait = True,
    timeout: Timeout = PATIENCE,
    namespace: Namespace = "",
    data_dir: DataDir = None,
) -> None:
    """Stop the running step and hold there until `retry`, `resume`, or another wish in the object."""
    _ask("cancel", "", reason, name, namespace, data_dir, timeout if wait else None)


def rollback(
    name: Name,
    reason: Why,
    to: Annotated[
        int | None, typer.Option("--to", min=0, help="Helm revision of a good release; the last good one if absent.")
    ] = None,
    wait: Wait = True,
    timeout: Timeout = PATIENCE,
    namespace: Namespace = "",
    data_dir: DataDir = None,
) -> None:
    """Go back to a good version with its settings, and stay there until the object asks for something else."""
    detail = "" if to is None else str(to)
    _ask("rollback", detail, reason, name, namespace, data_dir, timeout if wait else None)


def pause(
    name: Name,
    reason: Why,
    before: Annotated[
        list[str] | None,
        typer.Option(
            "--before",
            "-b",
            help="Begin all steps but this one (a breakpoint): download, install, load, settings, startup, beforeHelm, "
            "run, afterHelm, stop, rollback, beforeDeleteHelm, uninstall, afterDeleteHelm. Repeatable.",
        ),
    ] = None,
    wait: Wait = True,
    timeout: Timeout = PATIENCE,
    namespace: Namespace = "",
    data_dir: DataDir = None,
) -> None:
    """Begin no further step until `resume`; what runs is finished, a removal is not held up."""
    from windlass.domain.lifecycle.policy import BREAKABLE, breakpoint_of

    for step in before or ():
        if breakpoint_of(step) is None:
            raise typer.BadParameter(f"{step} is none of {', '.join(BREAKABLE)}", param_hint="--before")
    _ask("pause", ",".join(before or ()), reason, name, namespace, data_dir, timeout if wait else None)


def resume(
    name: Name,
    reason: Why,
    everything: Annotated[bool, typer.Option("--all", help="Drop all breakpoints, not only the one reached.")] = False,
    wait: Wait = True,
    timeout: Timeout = PATIENCE,
    namespace: Namespace = "",
    data_dir: DataDir = None,
) -> None:
    """Go on after `pause` or `cancel`, or past the breakpoint that holds now."""
    _ask("resume", "all" if everything else "", reason, name, namespace, data_dir, timeout if wait else None)


def _ask(
    action: str, detail: str, reason: str, name: str, namespace: str, data_dir: Path | None, timeout: float | None
) -> None:
    from windlass.cli.actions.asking import Wish, ask
    from windlass.cli.cluster import cluster

    async def run() -> None:
        async with cluster(namespace, data_dir) as place:
            await ask(place, name, Wish(action=action, detail=detail, reason=reason, timeout=timeout))

    asyncio.run(run())


def dump(
    name: Selection = "",
    namespace: Namespace = "",
    all_namespaces: AllNamespaces = False,
    queues: Annotated[bool, typer.Option("--queues", help="Add what is left to do.")] = False,
    output: DocumentFormat = Document.YAML,
    data_dir: DataDir = None,
) -> None:
    """Show what lifecycles carry: content, hooks, conditions, failure. It holds digests, never values."""
    from windlass.cli.cluster import cluster
    from windlass.cli.target import parse_selection
    from windlass.contracts.inspection import View
    from windlass.domain.ids import Kind

    async def run() -> None:
        from windlass.cli.inspect.endpoint import inspecting

        async with cluster(namespace, data_dir) as place, inspecting(place) as endpoint:
            target = parse_selection(name)
            if target.name:
                keys = [await endpoint.key(name)]
            else:
                found = await place.packages(target.kind, all_namespaces=all_namespaces)
                keys = [one.key(place.context.installation) for one in found]
            document: dict[str, Any] = {"apps": {}, "modules": {}, **({"queues": {}} if queues else {})}
            for key in keys:
                part: dict[str, Any] = document["modules" if key.kind is Kind.MODULE else "apps"]
                try:
                    part[key.package_id] = await endpoint.ask(key, View.DUMP)
                    if queues:
                        document["queues"] |= await endpoint.ask(key, View.QUEUES)
                except WindlassError as error:
                    if target.name:
                        raise
                    # One package that does not answer must not hide the others.
                    part[key.package_id] = {"error": str(error)}
            emit(document, output)

    asyncio.run(run())
