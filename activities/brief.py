"""Work that begins in a local activity and, if it does not end at once, goes on below a remote one.

A local activity begins before Temporal has written anything down, and costs it no task of its own; but while it runs,
its workflow hears nothing, and if the workflow task is lost, so is what it returns. So it stays for `LINGER` only, and
what the workflow must learn of is left to the remote activity.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Final

from windlass.activities.heartbeat import Beat, heartbeating

LINGER: Final = 0.1
"""Seconds that a local activity waits for the end: for so long, orders and other news of its workflow wait too."""

TAKEN_WITHIN: Final = 2.0
"""Seconds until work that no remote activity has come for is cancelled: its workflow was lost, or its shard was, and a
shard is given to the next process no sooner."""


class Brief:
    """One piece of work under way; ``beat`` is what the remote activity's heartbeats carry."""

    def __init__(self) -> None:
        self.beat = Beat()
        self.asked = asyncio.Event()
        self.taken = asyncio.Event()

    async def attended(self) -> None:
        """Go on only below a remote activity, whose result is not lost."""
        self.asked.set()
        await self.taken.wait()


class Briefs[T]:
    """What goes on between a local activity and a remote one, by a key that both know."""

    def __init__(self) -> None:
        self._left: dict[Hashable, tuple[Brief, asyncio.Task[T]]] = {}

    async def begin(self, key: Hashable, work: Callable[[Brief], Awaitable[T]]) -> T | None:
        """Do ``work``; return None when it does not end at once and `attend` is to be called for it."""
        brief = Brief()
        task = asyncio.ensure_future(work(brief))
        asked = asyncio.ensure_future(brief.asked.wait())
        try:
            await asyncio.wait({task, asked}, timeout=LINGER, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            await _cancelled(task)
            raise
        finally:
            asked.cancel()
        if task.done():
            return task.result()
        self._left[key] = brief, task
        asyncio.get_running_loop().call_later(TAKEN_WITHIN, self._give_up, key, brief)
        return None

    async def attend(self, key: Hashable, work: Callable[[Brief], Awaitable[T]]) -> T:
        """Stay beside what `begin` has left, or do ``work`` if there is nothing left, with heartbeats."""
        left = self._left.pop(key, None)
        if left is None:
            brief = Brief()
            left = brief, asyncio.ensure_future(work(brief))
        brief, task = left
        brief.taken.set()
        async with heartbeating(brief.beat):
            try:
                await asyncio.wait({task})
            except asyncio.CancelledError:
                await _cancelled(task)
                raise
        return task.result()

    async def end(self, belongs: Callable[[Hashable], bool]) -> None:
        """Cancel what was left below keys that belong, and wait for its end."""
        keys = [key for key in self._left if belongs(key)]
        await asyncio.gather(*(_cancelled(self._left.pop(key)[1]) for key in keys))

    def _give_up(self, key: Hashable, brief: Brief) -> None:
        left = self._left.get(key)
        if left is not None and left[0] is brief:
            del self._left[key]
            left[1].cancel()
            left[1].add_done_callback(_forget)


async def _cancelled[T](task: asyncio.Future[T]) -> None:
    """Cancel ``task`` and wait for its end, however often the caller is cancelled meanwhile."""
    task.cancel()
    cancel: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancel = error
    _forget(task)
    if cancel is not None:
        raise cancel


def _forget[T](task: asyncio.Future[T]) -> None:
    """Look at the outcome of what nobody waits for: asyncio reports failures that nobody has looked at."""
    if not task.cancelled():
        task.exception()
