"""``windlass retry|pause|resume|dump``: orders to lifecycles, and their state."""

from __future__ import annotations

import asyncio
import getpass
from enum import StrEnum
from typing import Annotated, Any

import typer

from windlass.cli.cluster import cluster
from windlass.cli.options import DataDir, Format, Name, Namespace
from windlass.cli.output import Output, emit
from windlass.domain.errors import Actor, PermanentError, Reason, WindlassError

Why = Annotated[str, typer.Option("--reason", "-r", help="Why; kept with the order.")]
Who = Annotated[str, typer.Option("--who", help="Who orders it; you if absent.")]


class OrderName(StrEnum):
    """Orders a lifecycle takes."""

    RETRY = "retry"
    PAUSE = "pause"
    RESUME = "resume"


def retry(name: Name, reason: Why = "", who: Who = "", namespace: Namespace = "", data_dir: DataDir = None) -> None:
    """Try the failed step again now, reading the package's source anew if it could not be loaded."""
    _order(OrderName.RETRY, name, reason, who, namespace, data_dir)


def pause(name: Name, reason: Why = "", who: Who = "", namespace: Namespace = "", data_dir: DataDir = None) -> None:
    """Begin no further step until `resume`; what runs is finished, a removal is not held up."""
    _order(OrderName.PAUSE, name, reason, who, namespace, data_dir)


def resume(name: Name, reason: Why = "", who: Who = "", namespace: Namespace = "", data_dir: DataDir = None) -> None:
    """Go on after `pause`."""
    _order(OrderName.RESUME, name, reason, who, namespace, data_dir)


def _order(order: OrderName, name: str, reason: str, who: str, namespace: str, data_dir: Any) -> None:
    from windlass.contracts.lifecycle import Order

    async def run() -> None:
        async with cluster(namespace, data_dir) as place, place.context.lifecycles() as lifecycles:
            await place.application(name)
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
    name: Annotated[str, typer.Argument(help="Name of one Application; all of the namespace if absent.")] = "",
    namespace: Namespace = "",
    queues: Annotated[bool, typer.Option(help="Show what is left to do instead of the state.")] = False,
    output: Format = Output.YAML,
    data_dir: DataDir = None,
) -> None:
    """Show what lifecycles carry, or with --queues what they have left to do. It holds digests, never values."""

    async def run() -> None:
        async with cluster(namespace, data_dir) as place, place.context.lifecycles() as lifecycles:
            names = [name] if name else [one.metadata.name for one in await place.applications()]
            found: dict[str, Any] = {}
            for one in names:
                key = place.key(one)
                try:
                    if queues:
                        view = await lifecycles.queues(key)
                        found.update(view.model_dump(mode="json")["queues"])
                    else:
                        found[key.package_id] = (await lifecycles.dump(key)).model_dump(mode="json", exclude={"key"})
                except WindlassError as error:
                    if name:
                        raise
                    found[key.package_id] = {"error": str(error)}
            document = {"queues": found} if queues else {"apps": found, "modules": {}}
            emit(document, Output.JSON if output is Output.JSON else Output.YAML)

    asyncio.run(run())
