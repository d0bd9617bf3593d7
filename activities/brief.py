"""Work that begins in a local activity, or ahead of it, and, if it does not end at once, goes on below a remote one.

A local activity begins before Temporal has written anything down, and costs it no task of its own; but while it runs,
its workflow hears nothing, and if the workflow task is lost, so is what it returns. So it stays for `LINGER` only, and
what the workflow must learn of is left to the remote activity.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from dataclasses import dataclass
from typing import Any, Final

from windlass.activities.heartbeat import Beat, heartbeating

LINGER: Final = 0.1
"""Seconds that a local activity waits for the end: for so long, actions and other news of its workflow wait too."""

TAKEN_WITHIN: Final = 2.0
"""Seconds until work that no activity has come for is cancelled: its workflow was lost, or its shard was, and a shard
is given to the next process no sooner."""


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


@dataclass(frozen=True, kw_only=True)
class _Left[T]:
    """Work that no activity is beside; ``timer`` gives it up."""

    brief: Brief
    task: asyncio.Task[T]
    timer: asyncio.TimerHandle


class Briefs[T]:
    """What goes on before a local activity, and between it and a remote one, by a key that all know."""

    def __init__(self) -> None:
        self._left: dict[Hashable, _Left[T]] = {}

    def ahead(self, key: Hashable, work: Callable[[Brief], Coroutine[Any, Any, T]]) -> asyncio.Task[T]:
        """Begin ``work`` before the activity that it is for: `begin` or `attend` comes for it, or it is cancelled."""
        brief, task = _begun(work)
        self._leave(key, brief, task)
        return task

    async def begin(self, key: Hashable, work: Callable[[Brief], Coroutine[Any, Any, T]]) -> T | None:
        """Do ``work``, or go on with what was begun ahead.

        Returns:
            None when it does not end at once and `attend` is to be called for it.
        """
        brief, task = self._come_for(key) or _begun(work)
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
        self._leave(key, brief, task)
        return None

    async def attend(self, key: Hashable, work: Callable[[Brief], Coroutine[Any, Any, T]]) -> T:
        """Stay beside what `ahead` or `begin` has left, or do ``work`` if there is nothing left, with heartbeats."""
        brief, task = self._come_for(key) or _begun(work)
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
        found = [self._come_for(key) for key in list(self._left) if belongs(key)]
        await asyncio.gather(*(_cancelled(left[1]) for left in found if left is not None))

    def _leave(self, key: Hashable, brief: Brief, task: asyncio.Task[T]) -> None:
        timer = asyncio.get_running_loop().call_later(TAKEN_WITHIN, self._give_up, key)
        self._left[key] = _Left(brief=brief, task=task, timer=timer)

    def _come_for(self, key: Hashable) -> tuple[Brief, asyncio.Task[T]] | None:
        left = self._left.pop(key, None)
        if left is None:
            return None
        left.timer.cancel()
        return left.brief, left.task

    def _give_up(self, key: Hashable) -> None:
        left = self._left.pop(key)
        left.task.cancel()
        left.task.add_done_callback(_forget)


def _begun[T](work: Callable[[Brief], Coroutine[Any, Any, T]]) -> tuple[Brief, asyncio.Task[T]]:
    brief = Brief()
    return brief, asyncio.create_task(work(brief))


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
