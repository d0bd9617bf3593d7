"""The informer: fills its cache, tells everything once, then what changes, and everything again at each resync."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable
from typing import Final

from windlass.domain.errors import PermanentError
from windlass.framework.cache import ObjectCache
from windlass.framework.errors import InvalidConfigError
from windlass.framework.events import Delete, Event, Failure
from windlass.framework.metrics import FrameworkMetrics, default_metrics
from windlass.framework.resource import Logger
from windlass.ports.kube import WatchEvent
from windlass.ports.operators import Complete, FeedItem, ObjectFeed, Trouble, WatchEnded

RESYNC_SECONDS: Final = 300.0
RATE_WAIT_SECONDS: Final = 1.0

_KINDS: Final = {"ADDED": "create", "MODIFIED": "update", "DELETED": "delete"}


class ObjectInformer:
    """An `Informer` of one kind of Kubernetes objects.

    The first list is the first fill: nothing is told before it is complete, then every object at once. A later list
    (after 410 Gone) is compared with what was known, so that deletions while nobody watched are told too. Objects are
    told without ``metadata.managedFields``. Objects under deletion come as `Delete`, again at each resync.

    Errors that go away by themselves (an API server that restarts) are logged and waited out. Others (missing rights,
    events of unknown types) come as `Failure`, which is what a framework's restart budget is for.

    Args:
        feed: where the objects come from.
        logger: for what the informer has to tell.
        resync: seconds between the ends of one resync and the begin of the next; more than 0.
        rate_wait: seconds between two objects of a resync, 0 for none. Changes are told in between.
        metrics: where to count; `default_metrics` if not given.
        clock: monotonic seconds.

    Raises:
        InvalidConfigError: the feed or the logger is None, ``resync`` is not positive, ``rate_wait`` is negative;
            checked in this order.
    """

    def __init__(
        self,
        *,
        feed: ObjectFeed | None,
        logger: Logger | None,
        resync: float = RESYNC_SECONDS,
        rate_wait: float = RATE_WAIT_SECONDS,
        metrics: FrameworkMetrics | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if feed is None:
            raise InvalidConfigError("an informer needs a feed of objects")
        if logger is None:
            raise InvalidConfigError("an informer needs a logger")
        if resync <= 0:
            raise InvalidConfigError("the seconds between resyncs have to be more than 0")
        if rate_wait < 0:
            raise InvalidConfigError("the seconds between objects of a resync cannot be negative")
        self._feed = feed
        self._logger = logger
        self._resync = resync
        self._rate_wait = rate_wait
        self._metrics = metrics or default_metrics()
        self._clock = clock
        self._cache = ObjectCache()

    async def watch(self) -> AsyncGenerator[Event]:
        """Yield what happens; ends only when it is closed."""
        stream = self._feed.follow()
        pending = asyncio.ensure_future(anext(stream, None))
        again: deque[str] = deque()  # what the running resync has left to tell
        due: float | None = None
        try:
            while True:
                timeout = None if due is None else max(due - self._clock(), 0.0)
                await asyncio.wait({pending}, timeout=timeout)
                if pending.done():
                    item = pending.result()
                    if item is None:
                        return
                    pending = asyncio.ensure_future(anext(stream, None))
                    if isinstance(item, Complete) and due is None:
                        due = self._clock() + self._resync
                    for event in self._news(item):
                        yield event
                if due is not None and self._clock() >= due:
                    again.extend(self._cache.keys() if not again else ())
                    if again and (event := self._cache.release(again.popleft())) is not None:
                        yield event
                    due = self._clock() + (self._rate_wait if again else self._resync)
        finally:
            pending.cancel()
            await asyncio.wait({pending})
            await stream.aclose()
            self._metrics.cache_size.dec(len(self._cache))
            self._cache = ObjectCache()

    def _news(self, item: FeedItem) -> Iterable[Event]:
        size = len(self._cache)
        match item:
            case Complete():
                self._logger.info("listed", objects=len(item.items))
                yield from self._told(self._cache.replace(item), "create")
            case WatchEvent():
                yield from self._told(self._cache.apply(item), _KINDS.get(item.type, "error"))
            case Trouble():
                self._count("error")
                if isinstance(item.error, PermanentError):
                    yield Failure(item.error)
                else:
                    self._logger.warning("watching fails, it is tried again", error=str(item.error))
            case WatchEnded():
                self._metrics.watcher_closes.inc()
        self._metrics.cache_size.inc(len(self._cache) - size)

    def _told(self, events: Iterable[Event], kind: str) -> Iterable[Event]:
        for event in events:
            self._count("error" if isinstance(event, Failure) else "delete" if isinstance(event, Delete) else kind)
            yield event

    def _count(self, kind: str) -> None:
        self._metrics.watch_events.labels(kind).inc()
