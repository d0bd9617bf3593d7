"""Follows a package's inventory by watching everything it was made of."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncGenerator
from contextlib import aclosing
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from windlass.adapters.kube.following.reflector import Listed, list_and_watch
from windlass.cli.cluster import Cluster
from windlass.cli.inspect.endpoint import Endpoint
from windlass.cli.inspect.tree import TreeView, changes
from windlass.cli.output import console
from windlass.cli.target import address
from windlass.contracts.inspection import View
from windlass.domain.errors import PermanentError, Reason
from windlass.domain.ids import API_VERSION, PackageKey
from windlass.observers.inspection.inventory import Inventory, Kind, received

if TYPE_CHECKING:
    from windlass.contracts.objects import PackageObject

PACE: Final = 1.0
"""Seconds between two inventories at least: a rollout changes many objects at once."""

LOOK_AGAIN: Final = 5.0
"""Seconds between two inventories of a package on another cluster, which only workers can watch."""


async def inventory_of(endpoint: Endpoint, key: PackageKey) -> Inventory:
    """Return what a package has in its cluster.

    Raises:
        WindlassError: as `Endpoint.ask`.
    """
    return received(await endpoint.ask(key, View.TREE))


async def inventories(place: Cluster, endpoint: Endpoint, application: PackageObject) -> AsyncGenerator[Inventory]:
    """Yield the package's inventory now and after every change, until its object is gone.

    Changes on another cluster are looked for from time to time.
    """
    stirred = asyncio.Event()
    watches: dict[tuple[Kind, str], asyncio.Task[None]] = {}
    name, namespace = application.metadata.name, application.metadata.namespace
    itself: Kind = (API_VERSION, type(application).__name__)
    own: dict[Kind, str] = {itself: f"metadata.name={name}"}
    key, placement = place.key(address(application)), application.placement()
    elsewhere = placement.target.cluster is not None

    async def stir(kind: Kind, where: str) -> None:
        stream = list_and_watch(
            place.kube,
            *kind,
            namespace=where,
            field_selector=own.get(kind, ""),
            metadata_only=True,
        )
        async with aclosing(stream) as events:
            async for event in events:
                if isinstance(event, Listed) or event.type != "BOOKMARK":
                    stirred.set()

    try:
        while True:
            stirred.clear()
            try:
                found = await inventory_of(endpoint, key)
            except PermanentError as error:
                if error.reason is Reason.PACKAGE_NOT_FOUND:
                    return
                raise
            yield found
            watched = {(itself, namespace)} if elsewhere else found.kinds | {(itself, namespace)}
            for kind, where in watched:
                if (kind, where) not in watches:
                    watches[kind, where] = asyncio.create_task(stir(kind, where))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_AGAIN if elsewhere else None):
                    await stirred.wait()
            await asyncio.sleep(PACE)
    finally:
        for task in watches.values():
            task.cancel()
        await asyncio.gather(*watches.values(), return_exceptions=True)


async def follow_tree(place: Cluster, endpoint: Endpoint, application: PackageObject) -> None:
    """Show the tree until interrupted or until the package is gone: live on a terminal, else line by line."""
    async with aclosing(inventories(place, endpoint, application)) as stream:
        if sys.stdout.isatty():
            await _picture(stream)
        else:
            await _lines(stream)
    sys.stdout.write(f"{application.metadata.name} is gone\n")


async def _picture(stream: AsyncGenerator[Inventory]) -> None:
    from rich.live import Live

    shown: list[Inventory] = []

    def view() -> TreeView | str:
        return TreeView(shown[-1], datetime.now(UTC)) if shown else ""

    with Live(console=console(), get_renderable=view, refresh_per_second=1) as live:
        async for found in stream:
            shown[:] = [found]
            live.refresh()


async def _lines(stream: AsyncGenerator[Inventory]) -> None:
    before: Inventory | None = None
    async for found in stream:
        now = f"{datetime.now(UTC):%H:%M:%S}"
        sys.stdout.writelines(f"{now}  {line}\n" for line in changes(before, found))
        sys.stdout.flush()
        before = found
