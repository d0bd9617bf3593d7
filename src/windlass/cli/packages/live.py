"""Follows packages by watch: a live table on a terminal, one line per change elsewhere."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator
from contextlib import aclosing
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from windlass.adapters.kube.following.reflector import Listed, list_and_watch
from windlass.cli.cluster import Cluster, condition
from windlass.cli.output import console
from windlass.cli.target import Target
from windlass.contracts.objects import PackageObject, parse_package
from windlass.domain.ids import API_VERSION, Kind

if TYPE_CHECKING:
    from rich.table import Table


async def packages(
    place: Cluster, namespace: str, name: str = "", *, kind: Kind = Kind.APPLICATION
) -> AsyncGenerator[list[PackageObject]]:
    """Yield all packages of a kind (or the one of that name) whenever one changes, beginning with how they are now."""
    known: dict[tuple[str, str], PackageObject] = {}
    selector = f"metadata.name={name}" if name else ""
    stream = list_and_watch(place.kube, API_VERSION, kind.value, namespace=namespace, field_selector=selector)
    async with aclosing(stream) as events:
        async for event in events:
            if isinstance(event, Listed):
                found = [parse_package(kind, item) for item in event.items]
                known = {_key(one): one for one in found}
            elif event.type == "BOOKMARK":
                continue
            else:
                one = parse_package(kind, event.object)
                if event.type == "DELETED":
                    known.pop(_key(one), None)
                else:
                    known[_key(one)] = one
            yield [one for _, one in sorted(known.items()) if place.serves(one)]


async def follow(place: Cluster, target: Target, *, all_namespaces: bool) -> None:
    """Show packages until interrupted."""
    namespaced = target.kind is Kind.APPLICATION
    stream = packages(place, "" if all_namespaces or not namespaced else place.namespace, target.name, kind=target.kind)
    if sys.stdout.isatty():
        await _table(stream, namespaces=all_namespaces and namespaced)
    else:
        await _lines(stream)


async def _table(stream: AsyncGenerator[list[PackageObject]], *, namespaces: bool) -> None:
    from rich.live import Live

    from windlass.cli.packages.views import WIDE, list_table

    screen = console()
    shown: list[PackageObject] = []

    def table() -> Table:
        return list_table(shown, wide=screen.width >= WIDE, namespaces=namespaces)

    # Drawn anew every second too, for the ages.
    with Live(console=screen, get_renderable=table, refresh_per_second=1) as live:
        async for found in stream:
            shown[:] = found
            live.refresh()


async def _lines(stream: AsyncGenerator[list[PackageObject]]) -> None:
    shown: dict[tuple[str, str], str] = {}
    async for found in stream:
        for one in found:
            line = _line(one)
            if shown.get(_key(one)) != line:
                shown[_key(one)] = line
                sys.stdout.write(f"{datetime.now(UTC):%H:%M:%S}  {line}\n")
        for key in shown.keys() - {_key(one) for one in found}:
            del shown[key]
            sys.stdout.write(f"{datetime.now(UTC):%H:%M:%S}  {_path(*key)}  gone\n")
        sys.stdout.flush()


def _line(package: PackageObject) -> str:
    status = package.status
    ready, reason, _ = condition(package, "Ready")
    step = (status.step if status else None) or "-"
    phase = (status.phase if status else None) or "Pending"
    version = (status.version if status else None) or "-"
    metadata = package.metadata
    return f"{_path(metadata.namespace, metadata.name)}  {version}  {phase}  ready={ready} {reason}  {step}"


def _key(package: PackageObject) -> tuple[str, str]:
    return package.metadata.namespace, package.metadata.name


def _path(namespace: str, name: str) -> str:
    return f"{namespace}/{name}" if namespace else name
