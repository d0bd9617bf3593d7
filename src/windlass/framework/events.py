"""What an informer hands to a framework."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass
from typing import Any, Final, Protocol


@dataclass(frozen=True, slots=True)
class Update:
    """An object is there, was changed, or is looked at again."""

    object: Any


@dataclass(frozen=True, slots=True)
class Delete:
    """An object is being deleted or is gone; the last state it was seen in."""

    object: Any


@dataclass(frozen=True, slots=True)
class Failure:
    """Something that the informer cannot mend."""

    error: Exception


type Event = Update | Delete | Failure


class Informer(Protocol):
    """The source of a framework's events."""

    def watch(self) -> AsyncIterator[Event]:
        """Return the events in their order; nothing is read before the first one is asked for."""
        ...


async def from_queues(
    deletes: asyncio.Queue[Any], updates: asyncio.Queue[Any], errors: asyncio.Queue[Exception]
) -> AsyncGenerator[Event]:
    """Yield what three queues hold, for those who feed a framework by hand, as with operatorkit's three channels.

    Between queues no order is kept: a framework that is handed one stream knows more.
    """
    makers: Final[dict[asyncio.Queue[Any], type[Update | Delete | Failure]]] = {
        deletes: Delete,
        updates: Update,
        errors: Failure,
    }
    waits = {asyncio.ensure_future(queue.get()): queue for queue in makers}
    try:
        while True:
            done, _ = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            for one in done:
                queue = waits.pop(one)
                waits[asyncio.ensure_future(queue.get())] = queue
                yield makers[queue](one.result())
    finally:
        for one in waits:
            one.cancel()
