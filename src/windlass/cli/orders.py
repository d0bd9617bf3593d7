"""``windlass retry|pause|resume|dump``: orders to lifecycles, and their state."""

from __future__ import annotations

import asyncio
import getpass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from windlass.cli.options import AllNamespaces, DataDir, DocumentFormat, Name, Namespace, Selection
from windlass.cli.output import Document, emit
from windlass.domain.errors import Actor, PermanentError, Reason, WindlassError

Why = Annotated[str, typer.Option("--reason", "-r", help="Why; kept with the order.", show_default=False)]
Who = Annotated[str, typer.Option("--who", help="Who orders it; you if absent.")]


class OrderName(StrEnum):
    """Orders a lifecycle takes."""

    RETRY = "retry"
    PAUSE = "pause"
    RESUME = "resume"


def retry(name: Name, reason: Why, who: Who = "", namespace: Namespace = "", data_dir: DataDir = None) -> None:
    """Try the failed step again now, reading the package's source anew if it could not be loaded."""
    _order(OrderName.RETRY, name, reason, who, namespace, data_dir)


def pause(name: Name, reason: Why, who: Who = "", namespace: Namespace = "", data_dir: DataDir = None) -> None:
    """Begin no further step until `resume`; what runs is finished, a removal is not held up."""
    _order(OrderName.PAUSE, name, reason, who, namespace, data_dir)


def resume(name: Name, reason: Why, who: Who = "", namespace: Namespace = "", data_dir: DataDir = None) -> None:
    """Go on after `pause`."""
    _order(OrderName.RESUME, name, reason, who, namespace, data_dir)


def _order(order: OrderName, name: str, reason: str, who: str, namespace: str, data_dir: Path | None) -> None:
    from windlass.cli.cluster import cluster
    from windlass.contracts.lifecycle import Order

    async def run() -> None:
        async with cluster(namespace, data_dir) as place, place.context.lifecycles() as lifecycles:
            await place.package(name)
            given = Order(who=who or getpass.getuser(), why=reason)
            send = {
                OrderName.RETRY: lifecycles.retry,
                OrderName.PAUSE: lifecycles.pause,
                OrderName.RESUME: lifecycles.resume,
            }[order]
            answer = await send(place.key(name), given)
            if not answer.accepted:
                raise PermanentError(
                    Reason.VALIDATION_FAILED,
                    f"{order.value} changes nothing: {answer.message}",
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
    from windlass.cli.dumps import package_dump, queue_dump
    from windlass.cli.target import parse_selection
    from windlass.domain.ids import Kind

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
