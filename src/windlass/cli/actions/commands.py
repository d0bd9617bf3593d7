"""``windlass retry|skip|cancel|rollback|pause|resume|dump``: orders to lifecycles, and their state."""

from __future__ import annotations

import asyncio
import getpass
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from windlass.cli.options import AllNamespaces, DataDir, DocumentFormat, Name, Namespace, Selection
from windlass.cli.output import Document, emit
from windlass.domain.errors import Actor, PermanentError, Reason, WindlassError

if TYPE_CHECKING:
    from windlass.contracts.lifecycle import OrderResult
    from windlass.domain.ids import PackageKey
    from windlass.runtime.packages import PackageLifecycles

    type Send = Callable[[PackageLifecycles, PackageKey], Awaitable[OrderResult]]

Why = Annotated[str, typer.Option("--reason", "-r", help="Why; kept with the order.", show_default=False)]
Who = Annotated[str, typer.Option("--who", help="Who orders it; you if absent.")]


def retry(name: Name, reason: Why, who: Who = "", namespace: Namespace = "", data_dir: DataDir = None) -> None:
    """Try the failed step again now, reading the package's source anew; or the version that was rejected."""
    from windlass.contracts.lifecycle import Order

    order = Order(who=_who(who), why=reason)
    _give("retry", name, namespace, data_dir, lambda lifecycles, key: lifecycles.retry(key, order))


def skip(name: Name, reason: Why, who: Who = "", namespace: Namespace = "", data_dir: DataDir = None) -> None:
    """Pass over the failed step: a hook, the wait for readiness, or a release that is held after it failed."""
    from windlass.contracts.lifecycle import Order

    order = Order(who=_who(who), why=reason)
    _give("skip", name, namespace, data_dir, lambda lifecycles, key: lifecycles.skip(key, order))


def cancel(name: Name, reason: Why, who: Who = "", namespace: Namespace = "", data_dir: DataDir = None) -> None:
    """Stop the running step and hold there until `retry`, `resume`, or another wish in the object."""
    from windlass.contracts.lifecycle import Order

    order = Order(who=_who(who), why=reason)
    _give("cancel", name, namespace, data_dir, lambda lifecycles, key: lifecycles.cancel(key, order))


def rollback(
    name: Name,
    reason: Why,
    to: Annotated[
        int | None, typer.Option("--to", min=0, help="Helm revision of a good release; the last good one if absent.")
    ] = None,
    who: Who = "",
    namespace: Namespace = "",
    data_dir: DataDir = None,
) -> None:
    """Go back to a good version with its settings, and stay there until the object asks for something else."""
    from windlass.contracts.lifecycle import RollbackOrder

    order = RollbackOrder(who=_who(who), why=reason, to=to)
    _give("rollback", name, namespace, data_dir, lambda lifecycles, key: lifecycles.rollback(key, order))


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
    who: Who = "",
    namespace: Namespace = "",
    data_dir: DataDir = None,
) -> None:
    """Begin no further step until `resume`; what runs is finished, a removal is not held up."""
    from windlass.contracts.lifecycle import PauseOrder
    from windlass.domain.lifecycle.policy import BREAKABLE, breakpoint_of

    for step in before or ():
        if breakpoint_of(step) is None:
            raise typer.BadParameter(f"{step} is none of {', '.join(BREAKABLE)}", param_hint="--before")
    order = PauseOrder(who=_who(who), why=reason, before=tuple(before or ()))
    _give("pause", name, namespace, data_dir, lambda lifecycles, key: lifecycles.pause(key, order))


def resume(
    name: Name,
    reason: Why,
    everything: Annotated[bool, typer.Option("--all", help="Drop all breakpoints, not only the one reached.")] = False,
    who: Who = "",
    namespace: Namespace = "",
    data_dir: DataDir = None,
) -> None:
    """Go on after `pause` or `cancel`, or past the breakpoint that holds now."""
    from windlass.contracts.lifecycle import ResumeOrder

    order = ResumeOrder(who=_who(who), why=reason, everything=everything)
    _give("resume", name, namespace, data_dir, lambda lifecycles, key: lifecycles.resume(key, order))


def _who(who: str) -> str:
    return who or getpass.getuser()


def _give(order: str, name: str, namespace: str, data_dir: Path | None, send: Send) -> None:
    """Send an order and say what came of it.

    Raises:
        PermanentError: VALIDATION_FAILED, it changes nothing; says why.
    """
    from windlass.cli.cluster import cluster

    async def run() -> None:
        async with cluster(namespace, data_dir) as place, place.context.lifecycles() as lifecycles:
            await place.package(name)
            answer = await send(lifecycles, place.key(name))
            if not answer.accepted:
                raise PermanentError(
                    Reason.VALIDATION_FAILED,
                    f"{order} changes nothing: {answer.message}",
                    hint=f"{name} is in phase {answer.phase}, step {answer.step}",
                    actor=Actor.USER,
                )
            typer.echo(f"{name}: {answer.message} (phase {answer.phase}, step {answer.step})")

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
