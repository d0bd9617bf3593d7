"""What a controller with primary resources in a key-value store needs of the world, as Protocols.

A `Source` keeps a picture of many resources up to date, whatever becomes of the connection; `EntityClient` is one
that can also be read and written; `Secondaries` is whatever a garbage sweep clears up.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from windlass.domain.entities import Operation
from windlass.domain.errors import WindlassError

type Document = dict[str, Any]
"""A JSON object; what people and controllers may set about it stands in ``metadata``, as with Kubernetes objects."""


@dataclass(frozen=True, kw_only=True)
class Item:
    """One resource as it was read.

    Attributes:
        key: of an entity, or ``namespace/name`` of a Kubernetes object.
        version: opaque; two readings with the same one are the same. Revision, or resourceVersion.
        document: what it says; None when it was watched without content, or is no JSON object.
    """

    key: str
    version: str
    document: Document | None = None


@dataclass(frozen=True, kw_only=True)
class Picture:
    """Everything there is: first of all, and again whenever changes may have been missed."""

    items: tuple[Item, ...]


@dataclass(frozen=True, kw_only=True)
class Changed:
    """One change after a `Picture`; ``operation`` is PUT, DELETE or PURGE."""

    item: Item
    operation: Operation


type News = Picture | Changed
type OnError = Callable[[WindlassError], None]


class Source(Protocol):
    """Many resources of one kind, followed."""

    @property
    def name(self) -> str:
        """What it is, for people: ``bucket routes``, ``Service in demo``."""
        ...

    def follow(self, on_error: OnError, *, content: bool = True) -> AsyncGenerator[News]:
        """Yield a `Picture`, then what changes, in order; a new `Picture` whenever changes may have been missed.

        Never ends by itself: errors are told to ``on_error`` and tried again with back-off. Without ``content`` the
        documents are left out (of Kubernetes objects, all but their metadata).

        Raises:
            PermanentError: it cannot be followed any more, such as when the connection was closed for good.
        """
        ...


class EntityClient(Source, Protocol):
    """The entities of one kind: one key-value bucket.

    Every method raises TransientError(API_UNAVAILABLE) when the store does not answer, PermanentError(FORBIDDEN)
    without the rights, and PermanentError(VALIDATION_FAILED) for a key that no entity can have.
    """

    async def get(self, key: str) -> Item | None:
        """Return the entity, None if there is none: absent, deleted, purged and expired are the same.

        Raises:
            PermanentError: VALIDATION_FAILED, what is stored is no JSON object.
        """
        ...

    async def list(self, *, content: bool = True) -> Sequence[Item]:
        """Return all entities; ``document`` is None without ``content``, and for one that is no JSON object."""
        ...

    async def create(self, key: str, document: Document) -> str:
        """Store a new entity; return its version.

        Raises:
            TransientError: API_CONFLICT, it exists.
        """
        ...

    async def update(self, key: str, document: Document, *, version: str) -> str:
        """Replace the entity as it was read at ``version``; return the new version.

        Raises:
            TransientError: API_CONFLICT, it has changed since, or is gone.
        """
        ...

    async def put(self, key: str, document: Document) -> str:
        """Store the entity whatever was there; return its version."""
        ...

    async def delete(self, key: str, *, version: str = "") -> bool:
        """Delete the entity, only as it was read at ``version`` if given; False if there was none.

        Raises:
            TransientError: API_CONFLICT, it has changed since.
        """
        ...

    async def purge(self, key: str, *, version: str = "") -> bool:
        """As `delete`; the entity's history goes, too."""
        ...


@dataclass(frozen=True, kw_only=True)
class Owned:
    """A secondary resource and the primary it was made for.

    Attributes:
        name: of the secondary, unique within its `Secondaries`.
        version: at which it was read: the precondition of its removal.
        owner_kind: kind of the primary.
        owner_key: key of the primary.
        document: the secondary itself, as far as it is known.
    """

    name: str
    version: str
    owner_kind: str
    owner_key: str
    document: Document | None = None


class Secondaries(Protocol):
    """Secondary resources of one kind that a garbage sweep clears up."""

    @property
    def name(self) -> str:
        """What it is, for people."""
        ...

    async def owned(self, kind: str) -> Sequence[Owned]:
        """Return those whose owner is of ``kind``; all of them, or raise a WindlassError."""
        ...

    async def remove(self, secondary: Owned) -> bool:
        """Delete one, only as it was read; False if it is gone already.

        Raises:
            TransientError: API_CONFLICT, it has changed since.
        """
        ...


class ExternalClient(Secondaries, Protocol):
    """Resources outside Kubernetes and the store, such as those behind an HTTP API.

    Nobody tells when they change: a controller looks after them whenever it looks at their primary, at the latest with
    the next resync (contract: "External resources can be managed too").
    """

    async def open(self) -> None:
        """Connect, or whatever is needed before the first call; raises a WindlassError if that cannot be done."""
        ...

    async def close(self) -> None:
        """Give back what `open` took; harmless when it was never called."""
        ...
