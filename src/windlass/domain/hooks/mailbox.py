"""Events for hooks wait here, one mailbox for each queue of a package: strict order, combining, collapse.

The rules are those of the protocol (reference: hooks.md section 3, Combining). Nothing is lost by them: what an array
of combined events leaves out is the older news of a group, whose members are told by snapshots only; what a collapse
leaves out is the older state of an object whose newer state is told.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from windlass.domain.hooks.bindings import Change

COLLAPSE_AT: Final = 100
"""Items of one mailbox at which waiting events collapse, as in the protocol's own implementation."""


@dataclass(frozen=True, kw_only=True)
class Item:
    """One piece of news for one binding of one hook.

    ``change`` is None for a Synchronization, whose objects are looked up when it runs. ``key`` is the object's
    ``namespace/name``; ``told`` is the object as contexts show it: ``object`` and ``filterResult``, each if asked for.
    """

    sequence: int
    hook: str
    binding: str
    group: str = ""
    change: Change | None = None
    key: str = ""
    told: dict[str, Any] | None = None

    @property
    def alone(self) -> bool:
        """Whether this is told in a run of its own: a Synchronization without a group."""
        return self.change is None and not self.group


@dataclass(frozen=True, kw_only=True)
class Batch:
    """What one run of a hook is about: the items it takes from the queue, and those of them that it is told."""

    taken: tuple[Item, ...]
    told: tuple[Item, ...]

    @property
    def hook(self) -> str:
        """Path of the hook."""
        return self.taken[0].hook


def combined(items: Sequence[Item]) -> Batch:
    """Return what the next run takes: the head, and what follows it of the same hook.

    Of several items of one group in a row the last one is told.
    """
    head = items[0]
    taken = [head]
    if not head.alone:
        for item in items[1:]:
            if item.hook != head.hook or item.alone:
                break
            taken.append(item)
    follower = (*taken[1:], None)
    told = [one for one, after in zip(taken, follower, strict=True) if not _superseded(one, after)]
    return Batch(taken=tuple(taken), told=tuple(told))


def collapsed(items: Sequence[Item]) -> list[Item]:
    """Return ``items`` with the events of each hook in the place of its first one, each object told at most twice.

    Events without a group come first, then the last one of each group. Synchronizations stay where they are.
    """
    events: dict[str, list[Item]] = {}
    for item in items:
        if item.change is not None:
            events.setdefault(item.hook, []).append(item)
    result: list[Item] = []
    for item in items:
        if item.change is None:
            result.append(item)
        else:
            result.extend(_merged(events.pop(item.hook, [])))
    return result


class Mailbox:
    """The waiting items of one queue; the items of a run stay at its head until the run has succeeded."""

    def __init__(self) -> None:
        self._items: list[Item] = []
        self._running = 0
        self._collapse_at = COLLAPSE_AT

    def __len__(self) -> int:
        return len(self._items)

    def put(self, item: Item) -> None:
        """Append an item; a long queue collapses, leaving alone what runs."""
        self._items.append(item)
        if len(self._items) > self._collapse_at:
            waiting = collapsed(self._items[self._running :])
            self._items[self._running :] = waiting
            self._collapse_at = max(COLLAPSE_AT, 2 * len(self._items))

    def take(self) -> Batch | None:
        """Return what the next run is about, None if nothing waits; taken again after a failure, new items join."""
        if not self._items:
            return None
        batch = combined(self._items)
        self._running = len(batch.taken)
        return batch

    def done(self) -> None:
        """Drop what the run was about."""
        del self._items[: self._running]
        self._running = 0
        self._collapse_at = max(COLLAPSE_AT, 2 * len(self._items))

    def supersede(self, binding: str) -> None:
        """Drop events of ``binding`` behind a Synchronization that is about to be told the newest state."""
        kept = [item for item in self._items[self._running :] if item.binding != binding or item.change is None]
        self._items[self._running :] = kept

    def waiting(self, binding: str, *, running: bool) -> frozenset[str]:
        """Return the keys of the objects that ``binding`` still has to be told of.

        ``running`` says whether what runs now is still to be told, or counts as told.
        """
        items = self._items if running else self._items[self._running :]
        return frozenset(item.key for item in items if item.binding == binding and item.change is not None)

    def synchronizing(self) -> frozenset[str]:
        """Return the bindings whose Synchronization is part of what runs."""
        return frozenset(item.binding for item in self._items[: self._running] if item.change is None)


def _superseded(item: Item, after: Item | None) -> bool:
    return after is not None and bool(item.group) and item.group == after.group


def _merged(events: Sequence[Item]) -> list[Item]:
    objects: dict[tuple[str, str], list[Item]] = {}
    groups: dict[str, Item] = {}
    for event in events:
        if event.group:
            groups.pop(event.group, None)
            groups[event.group] = event
        else:
            key = (event.binding, event.key)
            objects[key] = _with(objects.get(key, []), event)
    single = sorted((event for told in objects.values() for event in told), key=lambda event: event.sequence)
    return [*single, *groups.values()]


def _with(told: list[Item], event: Item) -> list[Item]:
    """Return the news of one object after one more: its deletion, if any, and its newest state."""
    if not told or event.change is Change.DELETED:
        return [event]
    *before, last = told
    if last.change is Change.DELETED:
        return [last, event]
    return [*before, replace(event, change=last.change)]
