"""One lane for each object: its events in order, one at a time; the lanes side by side."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from windlass.framework.events import Delete, Update
from windlass.framework.objects import object_key, uid


class ObjectLocks:
    """One lock for each object that somebody works on; waiters get it in the order they came."""

    def __init__(self) -> None:
        self._locks: dict[str, _Lock] = {}

    @asynccontextmanager
    async def hold(self, key: str) -> AsyncGenerator[None]:
        """Hold the lock of ``key`` inside the block."""
        entry = self._locks.setdefault(key, _Lock())
        entry.users += 1
        try:
            async with entry.lock:
                yield
        finally:
            entry.users -= 1
            if not entry.users:
                del self._locks[key]


@dataclass
class _Lock:
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    users: int = 0


class Lanes:
    """Hands events on, object by object.

    What waits behind a running event collapses: of an object's updates only the newest is left, and a deletion takes
    the place of an update of the same object (its uid). A deletion gives way to nothing but a newer one, so that of an
    object that was deleted and made anew both are handled, in this order. There is nothing here for idle objects.

    Args:
        handle: what is done with an event; must not raise.
        width: lanes that run at once; None for any number.
    """

    def __init__(self, handle: Callable[[Update | Delete], Awaitable[None]], *, width: int | None = None) -> None:
        self._handle = handle
        self._waiting: dict[str, deque[Update | Delete]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._width = asyncio.Semaphore(width) if width is not None else None

    def put(self, event: Update | Delete) -> None:
        """Take an event; it is handled soon, after the object's former ones."""
        key = object_key(event.object)
        if (waiting := self._waiting.get(key)) is None:
            self._waiting[key] = deque([event])
            task = asyncio.create_task(self._run(key))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        elif waiting and _replaces(event, waiting[-1]):
            waiting[-1] = event
        else:
            waiting.append(event)

    async def drain(self) -> None:
        """Wait until nothing is left to do."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def stop(self, grace: float) -> None:
        """Drop what waits, let what runs come to its end for ``grace`` seconds, then cancel it."""
        for waiting in self._waiting.values():
            waiting.clear()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=grace)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _run(self, key: str) -> None:
        waiting = self._waiting[key]
        try:
            while waiting:
                if self._width is None:
                    await self._handle(waiting.popleft())
                else:
                    async with self._width:
                        if waiting:  # `stop` may have emptied it
                            await self._handle(waiting.popleft())
        finally:
            del self._waiting[key]


def _replaces(new: Update | Delete, old: Update | Delete) -> bool:
    if uid(new.object) != uid(old.object):
        return False
    return isinstance(new, Delete) or isinstance(old, Update)
