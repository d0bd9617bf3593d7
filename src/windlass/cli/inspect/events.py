"""The Kubernetes Events of a package: about its object, its release's objects, and what those own."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, cast

from windlass.adapters.kube.following.reflector import Listed, list_and_watch
from windlass.cli.cluster import Cluster, Object, event_time
from windlass.cli.inspect.endpoint import Endpoint
from windlass.cli.inspect.live_tree import inventory_of
from windlass.cli.output import age, first_line, rows
from windlass.domain.ids import PackageKey
from windlass.observers.inspection.inventory import Inventory, Node

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

EVENT: Final = ("events.k8s.io/v1", "Event")

_SUFFIX: Final = re.compile(r"(-[bcdfghjklmnpqrstvwxz2456789]{1,10}){1,2}")
"""What controllers put behind a workload's name; letters and digits of Kubernetes' SafeEncodeString."""

_GENERATED: Final = frozenset({"ReplicaSet", "Pod", "Job"})


def concerns(event: Object, nodes: Iterable[Node]) -> bool:
    """Say whether an Event is about one of ``nodes``, or about a Pod, ReplicaSet or Job that one of them had made.

    Those that are gone are told by their generated names, since nothing else is left of them.
    """
    regarding = cast("Object", event.get("regarding") or {})
    kind, name = str(regarding.get("kind", "")), str(regarding.get("name", ""))
    place = str(regarding.get("namespace") or event["metadata"].get("namespace", ""))
    for node in nodes:
        ref = node.ref
        if regarding.get("uid") and regarding.get("uid") == node.uid:
            return True
        if ref.namespace and ref.namespace != place:
            continue
        if (ref.kind, ref.name) == (kind, name):
            return True
        own = name.startswith(ref.name) and _SUFFIX.fullmatch(name.removeprefix(ref.name)) is not None
        if kind in _GENERATED and own and ref.kind not in {"Application", "Module", "Release"}:
            return True
    return False


async def package_events(place: Cluster, endpoint: Endpoint, key: PackageKey) -> list[Object]:
    """List the package's Events, oldest first."""
    nodes = list((await inventory_of(endpoint, key)).root.walk())
    found = await asyncio.gather(*(place.kube.list(*EVENT, namespace=one) for one in sorted(_namespaces(nodes))))
    return sorted((item for one in found for item in one.items if concerns(item, nodes)), key=seen_at)


def _namespaces(nodes: Iterable[Node]) -> set[str]:
    # Events of cluster-scoped objects live in the namespace default.
    return {node.ref.namespace or "default" for node in nodes}


async def follow_events(place: Cluster, endpoint: Endpoint, key: PackageKey) -> AsyncGenerator[Object]:
    """Yield the package's Events as they come, beginning with those there are, oldest first; ends only when closed."""
    inventory = await inventory_of(endpoint, key)
    queue: asyncio.Queue[list[Object]] = asyncio.Queue()

    async def read(namespace: str) -> None:
        async with aclosing(list_and_watch(place.kube, *EVENT, namespace=namespace)) as stream:
            async for event in stream:
                if isinstance(event, Listed):
                    await queue.put(event.items)
                elif event.type in {"ADDED", "MODIFIED"}:
                    await queue.put([event.object])

    namespaces = _namespaces(inventory.root.walk())
    tasks = [asyncio.create_task(read(namespace)) for namespace in namespaces]
    told: dict[str, str] = {}
    try:
        while True:
            items = await queue.get()
            mine, inventory = await _mine(endpoint, key, items, inventory)
            for event in sorted(mine, key=seen_at):
                uid, version = event["metadata"]["uid"], event["metadata"]["resourceVersion"]
                if told.get(uid) != version:
                    told[uid] = version
                    yield event
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _mine(
    endpoint: Endpoint, key: PackageKey, items: list[Object], inventory: Inventory
) -> tuple[list[Object], Inventory]:
    """Return which events are the package's; looks at the package anew if some are not, since it may have grown."""
    nodes = list(inventory.root.walk())
    mine = [item for item in items if concerns(item, nodes)]
    if len(mine) == len(items):
        return mine, inventory
    inventory = await inventory_of(endpoint, key)
    nodes = list(inventory.root.walk())
    return [item for item in items if concerns(item, nodes)], inventory


def events_table(events: Iterable[Object], now: datetime) -> Table:
    """Return one line for each Event."""
    return rows(
        ["AGE", "TYPE", "REASON", "OBJECT", "NOTE"],
        [[age(seen_at(one), now), _type(one), _reason(one), regarding(one), first_line(_note(one))] for one in events],
        whole={"AGE", "TYPE"},
    )


def event_line(event: Object) -> str:
    """Return an Event as one line of a log."""
    at = f"{seen_at(event):%H:%M:%S}"
    return f"{at}  {event.get('type', '')}  {_reason(event)}  {regarding(event)}  {first_line(_note(event))}"


def event_document(event: Object) -> dict[str, Any]:
    """Return what programs want to know of an Event."""
    about = cast("Object", event.get("regarding") or {})
    return {
        "time": event_time(event),
        "type": str(event.get("type", "")),
        "reason": _reason(event),
        "object": {name: str(about[name]) for name in ("kind", "namespace", "name") if about.get(name)},
        "note": _note(event),
        "count": _count(event),
    }


def write_line(event: Object) -> None:
    """Print an Event as one line, at once."""
    sys.stdout.write(event_line(event) + "\n")
    sys.stdout.flush()


def regarding(event: Object) -> str:
    """Return Kind/name of what an Event is about."""
    about = cast("Object", event.get("regarding") or {})
    return f"{about.get('kind', '')}/{about.get('name', '')}"


def _reason(event: Object) -> str:
    return str(event.get("reason") or "")


def _note(event: Object) -> str:
    count = _count(event)
    return str(event.get("note") or "") + (f" ({count} times)" if count > 1 else "")


def _count(event: Object) -> int:
    series = cast("Object", event.get("series") or {})
    return int(series.get("count") or event.get("deprecatedCount") or 1)


def seen_at(event: Object) -> datetime:
    """Return when an Event was last seen, or else when it was written."""
    return datetime.fromisoformat(event_time(event) or str(event["metadata"]["creationTimestamp"]))


def _type(event: Object) -> Text:
    from rich.text import Text

    kind = str(event.get("type") or "")
    return Text(kind, "yellow" if kind == "Warning" else "")
