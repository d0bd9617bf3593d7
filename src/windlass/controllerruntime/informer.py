"""One shared picture of many resources, and who is told of changes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import aclosing
from typing import Final

import structlog

from windlass.controllerruntime.cache import Cache, Notice
from windlass.controllerruntime.ownership import Owner
from windlass.domain.errors import WindlassError
from windlass.ports.entities import EntityClient, Item, Picture, Source

_log: Final = structlog.stdlib.get_logger(__name__)

type Handler = Callable[[Notice], Awaitable[None]]


class Informer:
    """A picture of the resources of ``source`` that is kept up to date while `run` runs.

    A controller runs the informers that nobody runs. What several controllers share, the program runs: it would end
    with the first of them.

    Args:
        source: where they are.
        content: whether the documents are kept; without it the picture is of keys and versions.
    """

    def __init__(self, source: Source, *, content: bool = True) -> None:
        self._source = source
        self._content = content
        self._cache = Cache()
        self._handlers: list[Handler] = []
        self._synced = asyncio.Event()
        self._running = False
        self._last_error: WindlassError | None = None

    @property
    def name(self) -> str:
        """What it is a picture of, for people."""
        return self._source.name

    @property
    def synced(self) -> bool:
        """Whether the picture has been complete once."""
        return self._synced.is_set()

    @property
    def running(self) -> bool:
        """Whether somebody runs it."""
        return self._running

    @property
    def last_error(self) -> WindlassError | None:
        """What keeps the picture from being up to date; None while all is well."""
        return self._last_error

    def add_handler(self, handler: Handler) -> None:
        """Let ``handler`` be told of every change from now on, in order, one at a time; what it raises is logged."""
        self._handlers.append(handler)

    def remove_handler(self, handler: Handler) -> None:
        """Tell ``handler`` no more; harmless if it is not told."""
        if handler in self._handlers:
            self._handlers.remove(handler)

    async def wait_synced(self) -> None:
        """Return when the picture has been complete once."""
        await self._synced.wait()

    async def run(self) -> None:
        """Follow the source until cancelled.

        Raises:
            PermanentError: the source cannot be followed any more.
            RuntimeError: somebody runs this informer already.
        """
        if self._running:
            raise RuntimeError(f"the informer of {self.name} runs already")
        self._running = True
        try:
            async with aclosing(self._source.follow(self._failed, content=self._content)) as stream:
                async for news in stream:
                    self._last_error = None
                    for notice in self._cache.take(news):
                        await self._tell(notice)
                    self._synced.set()
        finally:
            self._running = False

    async def refresh(self, client: EntityClient) -> None:
        """Compare the picture with a list: finds what has expired without a trace.

        Raises:
            WindlassError: the list could not be had; nothing has changed.
        """
        before = self._cache.versions()
        listed = await client.list(content=self._content)
        for notice in self._cache.compare(before, Picture(items=tuple(listed))):
            await self._tell(notice)

    def get(self, key: str) -> Item | None:
        """Return one resource as last seen, None if there is none. Not a copy: do not change it."""
        return self._cache.get(key)

    def owned_by(self, owner: Owner) -> list[Item]:
        """Return the resources whose annotations name ``owner``, by key. Not copies: do not change them."""
        return self._cache.owned_by(owner)

    def __iter__(self) -> Iterator[Item]:
        return iter(self._cache)

    def __len__(self) -> int:
        return len(self._cache)

    async def _tell(self, notice: Notice) -> None:
        for handler in tuple(self._handlers):
            try:
                await handler(notice)
            except Exception as error:  # noqa: BLE001 - a handler is anybody's code and must not end the picture
                _log.error("handler failed", source=self.name, key=notice.item.key, exc_info=error)

    def _failed(self, error: WindlassError) -> None:
        self._last_error = error
        _log.warning("cannot follow, tried again", source=self.name, error=str(error))
