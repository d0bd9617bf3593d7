"""What operators need of a cluster: the objects of one kind as a stream, their definition, their finalizers."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from windlass.domain.errors import WindlassError
from windlass.ports.kube import Object, ObjectRef, WatchEvent


@dataclass(frozen=True, kw_only=True)
class Complete:
    """All objects there are: at first, and again whenever a watch could not be continued (410 Gone)."""

    items: list[Object]


@dataclass(frozen=True, kw_only=True)
class Trouble:
    """Reading failed; the feed goes on by itself."""

    error: WindlassError


@dataclass(frozen=True, kw_only=True)
class WatchEnded:
    """A watch ended, as every watch does after some minutes; the feed goes on from where it stood."""


type FeedItem = Complete | WatchEvent | Trouble | WatchEnded


class ObjectFeed(Protocol):
    """The objects of one kind as a stream that ends only when it is closed."""

    def follow(self) -> AsyncGenerator[FeedItem]:
        """Yield `Complete` first, then what changes. Errors are yielded and tried again with back-off."""
        ...


class DefinitionAccess(Protocol):
    """CustomResourceDefinitions."""

    async def ensure_created(self, definition: Object) -> None:
        """Create or update the definition and return when its kind is served.

        Raises:
            PermanentError: the API server refuses it, or its names clash with another one's.
            TransientError: the API server does not answer, or the kind is not served in time.
        """
        ...


class FinalizerAccess(Protocol):
    """The part of `Kube` that finalizers need."""

    async def get(self, ref: ObjectRef) -> Object | None:
        """See `Kube.get`."""
        ...

    async def patch(
        self, ref: ObjectRef, patch: Any, *, kind: Literal["json", "merge"], subresource: str = ""
    ) -> Object | None:
        """See `Kube.patch`."""
        ...
