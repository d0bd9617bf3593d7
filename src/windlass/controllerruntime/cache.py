"""What is known of many resources, and what news change about it. Pure.

News that say what is known already say nothing: replays and resyncs are told apart from changes by their versions. A
`Picture` that lacks a known resource is how a delete shows that was missed: while nobody looked, or because the marker
of it had expired before anybody did (frameworks.md section 2.7, traps a and g).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from windlass.controllerruntime.ownership import Owner, owner_of
from windlass.domain.entities import Operation
from windlass.ports.entities import Document, Item, News, Picture


@dataclass(frozen=True, kw_only=True)
class Notice:
    """One change of one resource.

    Attributes:
        operation: PUT (also for one that is new), DELETE or PURGE.
        item: as it is; as it was last known when it is gone.
        former: as it was known before; None for one that is new.
    """

    operation: Operation
    item: Item
    former: Item | None = None

    @property
    def documents(self) -> tuple[Document, ...]:
        """What to tell about: the document, and the former one as well if that had another owner."""
        now = self.item.document
        before = self.former.document if self.former is not None else None
        found = [now] if now is not None else []
        if before is not None and owner_of(before) not in {None, owner_of(now) if now is not None else None}:
            found.insert(0, before)
        return tuple(found)


class Cache:
    """The resources of one `windlass.ports.entities.Source` by key."""

    def __init__(self) -> None:
        self._items: dict[str, Item] = {}
        self._owned: dict[Owner, set[str]] = {}

    def take(self, news: News) -> list[Notice]:
        """Take news in; return what they change."""
        if isinstance(news, Picture):
            there = {item.key for item in news.items}
            gone = [self._drop(key, Operation.DELETE) for key in self._items.keys() - there]
            return [notice for notice in (*gone, *map(self._put, news.items)) if notice is not None]
        notice = self._put(news.item) if news.operation is Operation.PUT else self._drop(news.item.key, news.operation)
        return [] if notice is None else [notice]

    def compare(self, before: dict[str, str], listed: Picture) -> list[Notice]:
        """Take in what a list says that was read beside the news.

        Args:
            before: versions by key, from `versions` before the list was asked for. What has changed since is left to
                the news, which are newer than the list.
            listed: the list.
        """
        there = {item.key: item for item in listed.items}
        now = self.versions()
        gone = [key for key in before.keys() - there.keys() if now.get(key) == before[key]]
        come = [item for key, item in there.items() if now.get(key) == before.get(key)]
        notices = [*(self._drop(key, Operation.DELETE) for key in gone), *map(self._put, come)]
        return [notice for notice in notices if notice is not None]

    def versions(self) -> dict[str, str]:
        """Return the version of every known resource by key."""
        return {key: item.version for key, item in self._items.items()}

    def get(self, key: str) -> Item | None:
        """Return one resource, None if there is none."""
        return self._items.get(key)

    def owned_by(self, owner: Owner) -> list[Item]:
        """Return the resources that name ``owner``, by key."""
        return [self._items[key] for key in sorted(self._owned.get(owner, ()))]

    def __iter__(self) -> Iterator[Item]:
        return iter(tuple(self._items.values()))

    def __len__(self) -> int:
        return len(self._items)

    def _put(self, item: Item) -> Notice | None:
        former = self._items.get(item.key)
        if former is not None and former.version == item.version:
            return None
        self._unlink(former)
        self._items[item.key] = item
        if (owner := _owner(item)) is not None:
            self._owned.setdefault(owner, set()).add(item.key)
        return Notice(operation=Operation.PUT, item=item, former=former)

    def _drop(self, key: str, operation: Operation) -> Notice | None:
        former = self._items.pop(key, None)
        if former is None:
            return None
        self._unlink(former)
        return Notice(operation=operation, item=former, former=former)

    def _unlink(self, item: Item | None) -> None:
        if item is not None and (owner := _owner(item)) is not None and (keys := self._owned.get(owner)) is not None:
            keys.discard(item.key)
            if not keys:
                del self._owned[owner]


def _owner(item: Item) -> Owner | None:
    return owner_of(item.document) if item.document is not None else None
