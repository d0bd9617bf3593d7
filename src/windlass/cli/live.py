"""Follows Applications by watch: a live table on a terminal, one line per change elsewhere."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator
from contextlib import aclosing
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from windlass.adapters.kube.reflector import Listed, list_and_watch
from windlass.cli.cluster import Cluster, condition
from windlass.cli.output import console
from windlass.contracts.objects import Application
from windlass.domain.ids import API_VERSION

if TYPE_CHECKING:
    from rich.table import Table


async def applications(place: Cluster, namespace: str, name: str = "") -> AsyncGenerator[list[Application]]:
    """Yield all Applications (or the one of that name) whenever one changes, beginning with how they are now."""
    known: dict[tuple[str, str], Application] = {}
    selector = f"metadata.name={name}" if name else ""
    stream = list_and_watch(place.kube, API_VERSION, "Application", namespace=namespace, field_selector=selector)
    async with aclosing(stream) as events:
        async for event in events:
            if isinstance(event, Listed):
                found = [Application.model_validate(item) for item in event.items]
                known = {_key(one): one for one in found}
            elif event.type == "BOOKMARK":
                continue
            else:
                one = Application.model_validate(event.object)
                if event.type == "DELETED":
                    known.pop(_key(one), None)
                else:
                    known[_key(one)] = one
            yield [one for _, one in sorted(known.items()) if place.serves(one)]


async def follow(place: Cluster, name: str, *, all_namespaces: bool) -> None:
    """Show Applications until interrupted."""
    namespace = "" if all_namespaces else place.namespace
    if sys.stdout.isatty():
        await _table(place, namespace, name, namespaces=all_namespaces)
    else:
        await _lines(place, namespace, name)


async def _table(place: Cluster, namespace: str, name: str, *, namespaces: bool) -> None:
    from rich.live import Live

    from windlass.cli.views import WIDE, list_table

    screen = console()
    shown: list[Application] = []

    def table() -> Table:
        return list_table(shown, wide=screen.width >= WIDE, namespaces=namespaces)

    # Drawn anew every second too, for the ages.
    with Live(console=screen, get_renderable=table, refresh_per_second=1) as live:
        async for found in applications(place, namespace, name):
            shown[:] = found
            live.refresh()


async def _lines(place: Cluster, namespace: str, name: str) -> None:
    shown: dict[tuple[str, str], str] = {}
    async for found in applications(place, namespace, name):
        for one in found:
            line = _line(one)
            if shown.get(_key(one)) != line:
                shown[_key(one)] = line
                sys.stdout.write(f"{datetime.now(UTC):%H:%M:%S}  {line}\n")
        for key in shown.keys() - {_key(one) for one in found}:
            del shown[key]
            sys.stdout.write(f"{datetime.now(UTC):%H:%M:%S}  {key[0]}/{key[1]}  gone\n")
        sys.stdout.flush()


def _line(application: Application) -> str:
    status = application.status
    ready, reason, _ = condition(application, "Ready")
    step = (status.step if status else None) or "-"
    phase = (status.phase if status else None) or "Pending"
    version = (status.version if status else None) or "-"
    metadata = application.metadata
    return f"{metadata.namespace}/{metadata.name}  {version}  {phase}  ready={ready} {reason}  {step}"


def _key(application: Application) -> tuple[str, str]:
    return application.metadata.namespace, application.metadata.name
