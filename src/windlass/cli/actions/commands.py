"""``windlass retry|skip|cancel|adopt|rollback|pause|resume|dump``: what people ask lifecycles for, and their state."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from windlass.cli.options import AllNamespaces, DataDir, DocumentFormat, Name, Namespace, Selection, taking
from windlass.cli.output import Document, emit
from windlass.domain.errors import WindlassError

PATIENCE = 30.0
"""Seconds that a command waits for an answer: several times what a lifecycle needs while a worker starts anew."""


@dataclass(frozen=True, kw_only=True)
class How:
    """How an action is asked for, whichever it is."""

    reason: Annotated[
        str, typer.Option("--reason", "-r", help="Why; kept in the package's status.", show_default=False)
    ]
    wait: Annotated[bool, typer.Option(help="Wait for the lifecycle's answer.")] = True
    timeout: Annotated[float, typer.Option(help="Seconds to wait.")] = PATIENCE
    namespace: Namespace = ""
    data_dir: DataDir = None


@taking("how", How)
def retry(name: Name, *, how: How) -> None:
    """Try the failed step again now, reading the package's source anew; or the version that was rejected."""
    _ask("retry", "", name, how)


@taking("how", How)
def skip(name: Name, *, how: How) -> None:
    """Pass over the failed step: a hook, the wait for readiness, or a release that is held after it failed."""
    _ask("skip", "", name, how)


@taking("how", How)
def cancel(name: Name, *, how: How) -> None:
    """Stop the running step and hold there until `retry`, `resume`, or another wish in the object."""
    _ask("cancel", "", name, how)


@taking("how", How)
def adopt(
    name: Name,
    fingerprint: Annotated[
        str, typer.Option(help="Fingerprint in the package's condition; what was last told of if absent.")
    ] = "",
    *,
    how: How,
) -> None:
    """Take over a release that somebody else made or changed, and go on from there; look at it first."""
    _ask("adopt", fingerprint, name, how)


@taking("how", How)
def rollback(
    name: Name,
    to: Annotated[
        int | None, typer.Option("--to", min=0, help="Helm revision of a good release; the last good one if absent.")
    ] = None,
    *,
    how: How,
) -> None:
    """Go back to a good version with its settings, and stay there until the object asks for something else."""
    detail = "" if to is None else str(to)
    _ask("rollback", detail, name, how)


@taking("how", How)
def pause(
    name: Name,
    before: Annotated[
        list[str] | None,
        typer.Option(
            "--before",
            "-b",
            help="Begin all steps but this one (a breakpoint): download, install, load, settings, startup, beforeHelm, "
            "run, afterHelm, stop, rollback, beforeDeleteHelm, uninstall, afterDeleteHelm. Repeatable.",
        ),
    ] = None,
    *,
    how: How,
) -> None:
    """Begin no further step until `resume`; what runs is finished, a removal is not held up."""
    from windlass.domain.lifecycle.policy import BREAKABLE, breakpoint_of

    for step in before or ():
        if breakpoint_of(step) is None:
            raise typer.BadParameter(f"{step} is none of {', '.join(BREAKABLE)}", param_hint="--before")
    _ask("pause", ",".join(before or ()), name, how)


@taking("how", How)
def resume(
    name: Name,
    everything: Annotated[bool, typer.Option("--all", help="Drop all breakpoints, not only the one reached.")] = False,
    *,
    how: How,
) -> None:
    """Go on after `pause` or `cancel`, or past the breakpoint that holds now."""
    _ask("resume", "all" if everything else "", name, how)


def _ask(action: str, detail: str, name: str, how: How) -> None:
    from windlass.cli.actions.asking import Wish, ask
    from windlass.cli.cluster import cluster

    async def run() -> None:
        timeout = how.timeout if how.wait else None
        async with cluster(how.namespace, how.data_dir) as place:
            await ask(place, name, Wish(action=action, detail=detail, reason=how.reason, timeout=timeout))

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
    from windlass.domain.ids import Kind
    from windlass.runtime.dumps import package_dump, queue_dump

    async def run() -> None:
        now = datetime.now(UTC)
        async with cluster(namespace, data_dir) as place, place.context.lifecycles() as lifecycles:
            target = parse_selection(name)
            if target.name:
                found = [await place.package(name)]
            else:
                found = await place.packages(target.kind, all_namespaces=all_namespaces)
            document: dict[str, Any] = {"apps": {}, "modules": {}, **({"queues": {}} if queues else {})}
            for one in found:
                key = one.key(place.context.installation)
                part: dict[str, Any] = document["modules" if key.kind is Kind.MODULE else "apps"]
                try:
                    part[key.package_id] = package_dump(await lifecycles.dump(key), one)
                    if queues:
                        for queue, steps in (await lifecycles.queues(key)).queues.items():
                            document["queues"][queue] = queue_dump(steps, now)
                except WindlassError as error:
                    if target.name:
                        raise
                    # One package that does not answer must not hide the others.
                    part[key.package_id] = {"error": str(error)}
            emit(document, output)

    asyncio.run(run())
