"""Follows a package's inventory by watching everything it was made of."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator
from contextlib import aclosing
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from windlass.adapters.kube.following.reflector import Listed, list_and_watch
from windlass.cli.cluster import Cluster
from windlass.cli.inspect.inventory import Inventory, Kind, take_inventory
from windlass.cli.inspect.tree import TreeView, changes
from windlass.cli.output import console
from windlass.cli.target import address
from windlass.domain.errors import PermanentError, Reason
from windlass.domain.ids import API_VERSION

if TYPE_CHECKING:
    from windlass.contracts.objects import PackageObject

PACE: Final = 1.0
"""Seconds between two inventories at least: a rollout changes many objects at once."""

_SECRET: Final[Kind] = ("v1", "Secret")


async def inventories(place: Cluster, application: PackageObject) -> AsyncGenerator[Inventory]:
    """Yield the package's inventory now and after every change, until its object is gone."""
    stirred = asyncio.Event()
    watches: dict[tuple[Kind, str], asyncio.Task[None]] = {}
    name, namespace = application.metadata.name, application.metadata.namespace
    itself: Kind = (API_VERSION, type(application).__name__)
    own: dict[Kind, str] = {itself: f"metadata.name={name}"}
    release = place.release(application)
    labels: dict[Kind, str] = {_SECRET: f"owner=helm,name={release.name}"}

    async def stir(kind: Kind, where: str) -> None:
        stream = list_and_watch(
            place.kube,
            *kind,
            namespace=where,
            field_selector=own.get(kind, ""),
            label_selector=labels.get(kind, ""),
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
                found = await take_inventory(place, await place.package(address(application)))
            except PermanentError as error:
                if error.reason is Reason.PACKAGE_NOT_FOUND:
                    return
                raise
            yield found
            for kind, where in found.kinds | {(itself, namespace), (_SECRET, release.namespace)}:
                if (kind, where) not in watches:
                    watches[kind, where] = asyncio.create_task(stir(kind, where))
            await stirred.wait()
            await asyncio.sleep(PACE)
    finally:
        for task in watches.values():
            task.cancel()
        await asyncio.gather(*watches.values(), return_exceptions=True)


async def follow_tree(place: Cluster, application: PackageObject) -> None:
    """Show the tree until interrupted or until the package is gone: live on a terminal, else line by line."""
    async with aclosing(inventories(place, application)) as stream:
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
