"""What one kubernetes binding sees: its objects through its filter, and what of their changes its hook is told."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import structlog

from windlass.contracts.record import KNOWN_LIMIT, BindingRecord
from windlass.domain.errors import PermanentError, WindlassError
from windlass.domain.hooks.bindings import Change, KubernetesBinding, Selection
from windlass.domain.hooks.events import Entry, changed, differences, entry_of, gone_entry, sorted_entries
from windlass.observers.hooks.informers import Delta, Spawn
from windlass.ports.jq import Jq

_log = structlog.stdlib.get_logger(__name__)


class Teller(Protocol):
    """Where a view's news go."""

    def changed(self, view: View, change: Change, entry: Entry) -> None:
        """Put one event into the mailbox."""
        ...

    def failing(self, view: View) -> None:
        """Take note that the view's watch fails, or works again."""
        ...

    def report(self, view: View, text: str) -> None:
        """Let people know."""
        ...


@dataclass(frozen=True, kw_only=True)
class Bound:
    """A binding of a hook, and the names it goes by."""

    id: str
    hook: str
    binding: KubernetesBinding


class View:
    """The objects of one binding, filtered one after the other in the order of their changes.

    An object that the filter fails on is left as it was seen before, or out, and people are told. Events are told from
    the Synchronization on; before, changes only change what it will be told.

    Args:
        bound: the binding.
        jq: runs its filter.
        teller: takes the news.
        restored: how far the hook had been told before a restart; None for a binding that is new.
        spawn: runs what goes on beside.
    """

    def __init__(self, bound: Bound, jq: Jq, teller: Teller, restored: BindingRecord | None, spawn: Spawn) -> None:
        self.bound = bound
        self._jq = jq
        self._teller = teller
        self._entries: dict[str, Entry] = {}
        self._failed: set[str] = set()
        self._errors: dict[Selection, WindlassError] = {}
        self._feeds: dict[Selection, Feed] = {}
        self._incomplete: set[Selection] = set()
        self._settled = False
        self._news: asyncio.Queue[Delta | Selection | None] = asyncio.Queue()
        self._outcome = asyncio.Event()
        known = restored.known if restored is not None and restored.synchronized else None
        self._resumed = known is not None
        self._told: dict[str, str] = known or {}
        self.synchronized = self._resumed or not bound.binding.on_synchronization
        self._live = False
        self._ready = False
        self._task = spawn("filter", self._work)

    # -- what it follows -----------------------------------------------------------------------------------------------

    def feed(self, selection: Selection) -> Feed:
        """Return the listener for one more selection of this view."""
        feed = self._feeds[selection] = Feed(selection, self._news.put_nowait, self._watch_failing)
        self._incomplete.add(selection)
        return feed

    def drop(self, selection: Selection) -> Feed:
        """Return the listener of a selection that is followed no more."""
        self._incomplete.discard(selection)
        self._watch_failing(selection, None)
        return self._feeds.pop(selection)

    def fail(self, selection: Selection, error: WindlassError | None) -> None:
        """Take note that what this view follows cannot be found out, or can again."""
        self._watch_failing(selection, error)

    def settle(self) -> None:
        """Take note that all selections are known whose lists make the first picture."""
        self._settled = True
        self._news.put_nowait(None)

    @property
    def selections(self) -> tuple[Selection, ...]:
        """What is followed."""
        return tuple(self._feeds)

    @property
    def error(self) -> WindlassError | None:
        """Why a watch of this view does not work; None if all do."""
        return next(iter(self._errors.values()), None)

    async def opened(self) -> None:
        """Wait until all lists are in.

        Raises:
            WindlassError: a watch does not work.
        """
        await self._outcome.wait()
        if not self._ready and self.error is not None:
            raise self.error

    async def close(self) -> None:
        """Stop."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    # -- what it tells -------------------------------------------------------------------------------------------------

    def synchronize(self) -> list[dict[str, Any]]:
        """Return the objects for a Synchronization; what changes from now on is told after it."""
        self._live = True
        self._told = self._checksums()
        return self.snapshot()

    def snapshot(self) -> list[dict[str, Any]]:
        """Return the objects as they are now."""
        return sorted_entries(self._entries.values())

    def record(self, waiting: frozenset[str], *, synchronized: bool) -> BindingRecord:
        """Return what the hook has been told, but for the objects of ``waiting``, which it is still to be told of."""
        if not synchronized:
            return BindingRecord()
        known = self._checksums()
        for key in waiting | self._failed:
            if key in self._told:
                known[key] = self._told[key]
            else:
                known.pop(key, None)
        self._told = known
        return BindingRecord(synchronized=True, known=known if len(known) <= KNOWN_LIMIT else None)

    # -- inside ------------------------------------------------------------------------------------------------------

    async def _work(self) -> None:
        while True:
            news = await self._news.get()
            if isinstance(news, Delta):
                try:
                    await self._take(news)
                except Exception:
                    # Left out, as when its filter fails: tried again it would keep what comes after it waiting.
                    self._failed.add(news.key)
                    raise
                continue
            if news is not None:
                self._incomplete.discard(news)
            if self._settled and not self._incomplete and not self._ready:
                self._complete()

    def _complete(self) -> None:
        """All lists are in: what differs from what the hook was told before a restart is told now."""
        if self.synchronized:
            now = self._checksums()
            if not self._resumed:
                self._told = now
            unknown = {key: self._told[key] for key in self._failed if key in self._told}
            for change, key in differences(self._told, now | unknown):
                self._tell(change, self._entries.get(key) or gone_entry(self.bound.binding, key))
            self._live = True
        self._ready = True
        self._outcome.set()

    async def _take(self, delta: Delta) -> None:
        before = self._entries.get(delta.key)
        entry = await self._seen(delta)
        if delta.gone:
            self._entries.pop(delta.key, None)
            self._failed.discard(delta.key)
            last = entry or before
            if before is not None and last is not None and self._live:
                self._tell(Change.DELETED, last)
            return
        if entry is None:
            return
        change = changed(before.checksum if before else None, entry.checksum)
        self._entries[delta.key] = entry
        if change is not None and self._live:
            self._tell(change, entry)

    async def _seen(self, delta: Delta) -> Entry | None:
        program = self.bound.binding.jq_filter
        if not program:
            return entry_of(self.bound.binding, delta.object, None)
        try:
            results = await self._jq.run(program, delta.object)
        except WindlassError as error:
            self._failed.add(delta.key)
            name = delta.key.removeprefix("/")
            _log.warning("object left out", hook=self.bound.hook, object=name, error=error.message)
            self._teller.report(self, f"{name} is left out: {error.message}")
            return None
        self._failed.discard(delta.key)
        return entry_of(self.bound.binding, delta.object, results)

    def _tell(self, change: Change, entry: Entry) -> None:
        if change in self.bound.binding.changes:
            self._teller.changed(self, change, entry)

    def _watch_failing(self, selection: Selection, error: WindlassError | None) -> None:
        before = self.error
        if error is None:
            self._errors.pop(selection, None)
        else:
            self._errors[selection] = error
            self._outcome.set()
        if isinstance(self.error, PermanentError) is not isinstance(before, PermanentError):
            self._teller.failing(self)

    def _checksums(self) -> dict[str, str]:
        return {key: entry.checksum for key, entry in self._entries.items()}


class Feed:
    """One selection's news on their way to a view: its `Listener`."""

    def __init__(
        self,
        selection: Selection,
        put: Callable[[Delta | Selection], None],
        failing: Callable[[Selection, WindlassError | None], None],
    ) -> None:
        self._selection = selection
        self._put = put
        self._failing = failing

    def heard(self, delta: Delta) -> None:
        """Take one change."""
        self._put(delta)

    def complete(self) -> None:
        """Take note that everything which exists has been told."""
        self._put(self._selection)

    def failing(self, error: WindlassError | None) -> None:
        """Take note that the watch fails, or works again."""
        self._failing(self._selection, error)
