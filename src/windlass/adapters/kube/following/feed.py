"""`ports.ObjectFeed` over list and watch."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from typing import Any, cast

from windlass.adapters.kube.following.reflector import Listed, list_and_watch
from windlass.ports.kube import ListWatch, ObjectList, WatchEvent
from windlass.ports.operators import Complete, FeedItem, Trouble, WatchEnded


class KubeFeed:
    """The objects of one kind as an endless stream.

    Args:
        kube: the client; its rate limit holds here too.
        api_version: of the kind.
        kind: to follow.
        namespace: empty for all.
        label_selector: as in `Kube.list`.
    """

    def __init__(
        self, kube: ListWatch, api_version: str, kind: str, *, namespace: str = "", label_selector: str = ""
    ) -> None:
        self._kube = kube
        self._api_version = api_version
        self._kind = kind
        self._namespace = namespace
        self._label_selector = label_selector

    async def follow(self) -> AsyncGenerator[FeedItem]:
        """Yield the list, the changes, and what went wrong between them; see `ports.ObjectFeed`."""
        told: asyncio.Queue[Trouble | WatchEnded] = asyncio.Queue()
        stream = list_and_watch(
            _Telling(self._kube, lambda: told.put_nowait(WatchEnded())),
            self._api_version,
            self._kind,
            namespace=self._namespace,
            label_selector=self._label_selector,
            on_error=lambda error: told.put_nowait(Trouble(error=error)),
        )
        # These come by callbacks while the stream itself waits: whichever has something first is yielded.
        news = asyncio.ensure_future(anext(stream))
        trouble = asyncio.ensure_future(told.get())
        try:
            while True:
                await asyncio.wait({news, trouble}, return_when=asyncio.FIRST_COMPLETED)
                if trouble.done():
                    what = trouble.result()
                    trouble = asyncio.ensure_future(told.get())
                    yield what
                if news.done():
                    item = news.result()
                    news = asyncio.ensure_future(anext(stream))
                    yield Complete(items=item.items) if isinstance(item, Listed) else item
        finally:
            news.cancel()
            trouble.cancel()
            await asyncio.wait({news, trouble})
            await stream.aclose()


class _Telling:
    """A `ListWatch` that tells of each watch that ended."""

    def __init__(self, kube: ListWatch, ended: Callable[[], None]) -> None:
        self._kube = kube
        self._ended = ended

    async def list(self, api_version: str, kind: str, **selection: Any) -> ObjectList:
        return await self._kube.list(api_version, kind, **selection)

    async def watch(
        self, api_version: str, kind: str, *, resource_version: str, **selection: Any
    ) -> AsyncIterator[WatchEvent]:
        stream = self._kube.watch(api_version, kind, resource_version=resource_version, **selection)
        try:
            # The port promises an iterator; adapters return generators, which want to be closed in place.
            async with aclosing(cast("AsyncGenerator[WatchEvent]", stream)):
                async for event in stream:
                    yield event
        finally:
            self._ended()
