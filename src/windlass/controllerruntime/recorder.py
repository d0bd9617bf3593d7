"""Events about primaries and secondaries, sent beside the work: recording neither waits nor fails."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, Literal

import structlog

from windlass.domain.errors import Actor, PermanentError, Reason, WindlassError
from windlass.ports.events import EventLog, EventNote

_log: Final = structlog.stdlib.get_logger(__name__)

type EventType = Literal["Normal", "Warning"]

QUEUE: Final = 1000
"""Events that wait to be sent at most; client-go's recorder drops beyond the same number."""

_TRIES: Final = 3
_PAUSE: Final = 1.0  # seconds between them


class Recorder:
    """A bounded queue of Events in front of an `EventLog`.

    Args:
        log: sends them; None drops them, for a controller without a cluster.
        pause: waits the given seconds.
    """

    def __init__(self, log: EventLog | None, *, pause: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        self._events = log
        self._pause = pause
        self._queue: asyncio.Queue[EventNote] = asyncio.Queue(QUEUE)

    def record(self, note: EventNote) -> None:
        """Let ``note`` be sent; it is dropped when too many wait.

        Raises:
            PermanentError: VALIDATION_FAILED, the type is neither Normal nor Warning, or the reason is empty.
        """
        if note.type not in {"Normal", "Warning"} or not note.reason:
            raise PermanentError(
                Reason.VALIDATION_FAILED,
                f"an Event has the type Normal or Warning and a reason, this one {note.type!r} and {note.reason!r}",
                actor=Actor.AUTHOR,
            )
        if self._events is None:
            return
        try:
            self._queue.put_nowait(note)
        except asyncio.QueueFull:
            _log.warning("event dropped, too many wait", reason=note.reason, regarding=str(note.regarding))

    async def run(self) -> None:
        """Send until cancelled."""
        while True:
            note = await self._queue.get()
            try:
                await self._send(note)
            finally:
                self._queue.task_done()

    async def flush(self) -> None:
        """Return when all that waits has been sent or given up; needs `run` beside it."""
        await self._queue.join()

    async def _send(self, note: EventNote) -> None:
        if self._events is None:
            return
        for attempt in range(1, _TRIES + 1):
            try:
                await self._events.record([note])
            except WindlassError as error:
                if attempt == _TRIES or isinstance(error, PermanentError):
                    _log.warning("event not recorded", reason=note.reason, error=str(error))
                    return
                await self._pause(_PAUSE)
            else:
                return
