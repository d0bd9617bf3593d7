"""Our own ports in memory: entities, objects, external resources, and a controller that writes down its calls."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from windlass.controllerruntime import ControllerRuntime
from windlass.controllerruntime.ownership import owner_of
from windlass.domain.entities import Operation
from windlass.domain.errors import Reason, TransientError, WindlassError
from windlass.ports.entities import Changed, Document, Item, News, OnError, Owned, Picture


class MemoryEntities:
    """`EntityClient` in memory; `broken` fails every call, `silent` keeps changes from being told."""

    def __init__(self, name: str = "bucket memory", **documents: Document) -> None:
        self._name = name
        self._revision = 0
        self._items: dict[str, Item] = {}
        self._followers: list[asyncio.Queue[News | WindlassError]] = []
        self.broken: WindlassError | None = None
        self.silent = False
        self.ready = asyncio.Event()
        self.ready.set()
        for key, document in documents.items():
            self.store(key, document)

    @property
    def name(self) -> str:
        return self._name

    def store(self, key: str, document: Document) -> str:
        self._revision += 1
        self._items[key] = Item(key=key, version=str(self._revision), document=document)
        self._tell(Changed(item=self._items[key], operation=Operation.PUT))
        return str(self._revision)

    def drop(self, key: str, operation: Operation = Operation.DELETE) -> bool:
        self._revision += 1
        item = self._items.pop(key, None)
        if item is not None:
            self._tell(Changed(item=Item(key=key, version=str(self._revision)), operation=operation))
        return item is not None

    def fail(self, error: WindlassError) -> None:
        """End every stream with ``error``."""
        for follower in self._followers:
            follower.put_nowait(error)

    def repeat(self) -> None:
        """Tell everybody the whole picture again."""
        self._tell(Picture(items=tuple(self._items.values())))

    def _tell(self, news: News) -> None:
        if not self.silent:
            for follower in self._followers:
                follower.put_nowait(news)

    async def get(self, key: str) -> Item | None:
        self._check()
        return self._items.get(key)

    async def list(self, *, content: bool = True) -> Sequence[Item]:
        self._check()
        return [item if content else Item(key=item.key, version=item.version) for item in self._items.values()]

    async def create(self, key: str, document: Document) -> str:
        self._check()
        if key in self._items:
            raise TransientError(Reason.API_CONFLICT, f"{key} exists")
        return self.store(key, document)

    async def update(self, key: str, document: Document, *, version: str) -> str:
        self._expect(key, version)
        return self.store(key, document)

    async def put(self, key: str, document: Document) -> str:
        self._check()
        return self.store(key, document)

    async def delete(self, key: str, *, version: str = "") -> bool:
        self._expect(key, version)
        return self.drop(key)

    async def purge(self, key: str, *, version: str = "") -> bool:
        self._expect(key, version)
        return self.drop(key, Operation.PURGE)

    async def follow(self, on_error: OnError, *, content: bool = True) -> AsyncGenerator[News]:
        if self.broken is not None:
            on_error(self.broken)
        await self.ready.wait()
        news: asyncio.Queue[News | WindlassError] = asyncio.Queue()
        self._followers.append(news)
        try:
            yield Picture(items=tuple(await self.list(content=content)))
            while True:
                one = await news.get()
                if isinstance(one, WindlassError):
                    raise one
                yield one
        finally:
            self._followers.remove(news)

    def _check(self) -> None:
        if self.broken is not None:
            raise self.broken

    def _expect(self, key: str, version: str) -> None:
        self._check()
        if version and (key not in self._items or self._items[key].version != version):
            raise TransientError(Reason.API_CONFLICT, f"{key} has changed")


class MemoryExternal:
    """`ExternalClient` in memory."""

    def __init__(self, calls: list[str]) -> None:
        self.calls = calls
        self.things: dict[str, Document] = {}

    @property
    def name(self) -> str:
        return "things elsewhere"

    async def open(self) -> None:
        self.calls.append("open")

    async def close(self) -> None:
        self.calls.append("close")

    async def owned(self, kind: str) -> Sequence[Owned]:
        found = ((name, owner_of(thing)) for name, thing in self.things.items())
        return [
            Owned(name=name, version="1", owner_kind=kind, owner_key=owner.key)
            for name, owner in found
            if owner is not None and owner.kind == kind
        ]

    async def remove(self, secondary: Owned) -> bool:
        return self.things.pop(secondary.name, None) is not None


async def _nothing(_key: str) -> None:
    """Bring nothing about."""


@dataclass
class Controller:
    """Writes down what it is asked."""

    runtime: ControllerRuntime
    handle: Callable[[str], Awaitable[None]] = _nothing
    calls: list[str] = field(default_factory=list[str])

    @property
    def synced(self) -> list[str]:
        """Keys in the order in which they were begun."""
        return [call.removeprefix("sync ") for call in self.calls if call.startswith("sync ")]

    async def run(self, threadiness: int, stop: asyncio.Event) -> None:
        await self.runtime.run(threadiness, stop)

    async def sync_handler(self, key: str) -> None:
        self.calls.append(f"sync {key}")
        await self.handle(key)

    async def handle_secondary(self, obj: Document) -> None:
        self.calls.append(f"secondary {_name(obj)}")
        self.runtime.enqueue_owner(obj)

    async def garbage_secondaries(self) -> None:
        self.calls.append("garbage")
        await self.runtime.sweep()

    async def clean(self) -> None:
        self.calls.append("clean")


def _name(obj: Document) -> Any:
    return (obj.get("metadata") or {}).get("name")
