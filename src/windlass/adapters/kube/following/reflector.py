"""List and watch as one endless stream, whatever happens to the connection.

For whoever keeps a picture of the cluster: the watcher, informers, waits. A new `Listed` replaces everything that was
known: what it does not hold was deleted while nobody looked, so the consumer compares.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Final, cast

from windlass.domain.errors import WindlassError
from windlass.ports.kube import ListWatch, Object, WatchEvent, WatchExpiredError

BACKOFF_FIRST: Final = 0.5
BACKOFF_FACTOR: Final = 1.5
BACKOFF_MAX: Final = 30.0
"""Seconds between tries after an error, as design.md section 7 has it, with a shorter cap: a list is cheap."""

_SHORT_WATCH: Final = 1.0  # a watch that ends this soon counts as an error, or a broken proxy would make us spin


@dataclass(frozen=True, kw_only=True)
class Listed:
    """A complete picture: first of all, and again whenever the watch could not be continued."""

    items: list[Object]
    resource_version: str


type ListedEvent = Listed | WatchEvent


def _ignore(_error: WindlassError) -> None:
    """Take an error that is tried again anyway."""


async def list_and_watch(  # noqa: PLR0913 - the selectors of Kube.list, all keyword
    kube: ListWatch,
    api_version: str,
    kind: str,
    *,
    namespace: str = "",
    label_selector: str = "",
    field_selector: str = "",
    metadata_only: bool = False,
    start: Listed | None = None,
    on_error: Callable[[WindlassError], None] = _ignore,
    backoff_max: float = BACKOFF_MAX,
) -> AsyncGenerator[ListedEvent]:
    """Yield `Listed` on every list, then the events that follow it, BOOKMARKs among them; ends only when closed.

    An expired watch lists again; a broken one goes on from the last resourceVersion seen; errors (missing rights and
    kinds that are not served too: both may come) are told to ``on_error`` and tried again with back-off.

    Args:
        kube: the client; its rate limit holds here too.
        api_version: of the kind.
        kind: to list and watch.
        namespace: empty for all.
        label_selector: as in `Kube.list`.
        field_selector: as in `Kube.list`.
        metadata_only: as in `Kube.list`.
        start: a list the caller already has; watching goes on from it and it is not yielded.
        on_error: called with every error before the pause.
        backoff_max: cap of the pause in seconds.
    """
    selection: dict[str, Any] = {
        "namespace": namespace,
        "label_selector": label_selector,
        "field_selector": field_selector,
        "metadata_only": metadata_only,
    }
    version = start.resource_version if start else ""
    pause = BACKOFF_FIRST
    while True:
        began = time.monotonic()
        healthy = False
        try:
            if not version:
                listed = await kube.list(api_version, kind, **selection)
                version = listed.resource_version
                yield Listed(items=listed.items, resource_version=version)
            # The port promises an iterator; adapters return generators, which want to be closed in place.
            stream = cast(
                "AsyncGenerator[WatchEvent]",
                kube.watch(api_version, kind, resource_version=version, **selection),
            )
            async with aclosing(stream):
                async for event in stream:
                    healthy = True
                    version = str(event.object["metadata"]["resourceVersion"])
                    yield event
            healthy = healthy or time.monotonic() - began > _SHORT_WATCH
        except WatchExpiredError:
            version = ""
        except WindlassError as error:
            on_error(error)
        if healthy:
            pause = BACKOFF_FIRST
        else:
            await asyncio.sleep(pause)
            pause = min(pause * BACKOFF_FACTOR, backoff_max)
