"""Somebody who follows a source and writes down what it is told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field

from windlass.domain.entities import Operation
from windlass.domain.errors import WindlassError
from windlass.ports.entities import Changed, News, Picture, Source


@dataclass
class Notes:
    """What was told so far."""

    news: list[News] = field(default_factory=list[News])
    errors: list[WindlassError] = field(default_factory=list[WindlassError])

    @property
    def pictures(self) -> list[Picture]:
        return [one for one in self.news if isinstance(one, Picture)]

    @property
    def changes(self) -> list[tuple[Operation, str]]:
        return [(one.operation, one.item.key) for one in self.news if isinstance(one, Changed)]

    @property
    def last_keys(self) -> set[str]:
        """Keys of the latest picture."""
        return {item.key for item in self.pictures[-1].items}


@asynccontextmanager
async def following(source: Source, *, content: bool = True) -> AsyncIterator[Notes]:
    notes = Notes()

    async def follow() -> None:
        async with aclosing(source.follow(notes.errors.append, content=content)) as stream:
            async for news in stream:
                notes.news.append(news)

    task = asyncio.create_task(follow())
    try:
        yield notes
    finally:
        task.cancel()
        await asyncio.wait([task])
        if not task.cancelled():
            task.result()
