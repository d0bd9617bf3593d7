"""The indexes of Helm repositories, shared by all who ask: fetched once at a time, read once, kept small.

A public index has tens of megabytes and names thousands of charts, and every Application of the repository asks for
one of them. What is kept are name, version, address and digest of each chart.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Final
from weakref import WeakValueDictionary

from windlass.adapters.packages.sources.source import Found
from windlass.domain.errors import WindlassError
from windlass.ports.packages import Access

FRESH: Final = 30.0
"""Seconds for which an exact version is looked up without asking the repository whether its index has changed. Scans
and version ranges always ask, and so does whoever does not find what is wanted: nobody waits for a new version."""

VERSIONS_KEPT: Final = 50_000
"""Versions of charts in all indexes that are kept, about 0.5 kB each. A larger index is read anew for each use."""

type Charts = Mapping[str, tuple[Found, ...]]
"""What an index says: the versions of each chart, oldest first."""


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where an index is and as whom it is read: what one login sees is never shown to another."""

    url: str
    insecure: bool
    access: Access


@dataclass(frozen=True, kw_only=True)
class Mark:
    """By what a state of an index is known again.

    Attributes:
        validators: headers of a conditional request (RFC 9110, section 13.1); empty if the repository has none.
        digest: of the index as it was sent.
    """

    validators: Mapping[str, str] = field(default_factory=dict[str, str])
    digest: str = ""


@dataclass(frozen=True, kw_only=True)
class Fetched:
    """One answer of a repository: what its index says, None if it has not changed, and its mark."""

    charts: Charts | None
    mark: Mark


type Fetch = Callable[[Mark], Awaitable[Fetched]]
"""Asks the repository for its index, given the mark of the one that is known."""


@dataclass
class _Entry:
    """One index; ``checked`` is when the repository was last asked with success, ``failed`` when without."""

    charts: Charts | None = None
    mark: Mark = field(default_factory=Mark)
    size: int = 0
    checked: float = 0.0
    failed: float = 0.0
    error: WindlassError | None = None


class Indexes:
    """The indexes that one process has read.

    Args:
        clock: monotonic seconds.
        kept: see `VERSIONS_KEPT`.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic, kept: int = VERSIONS_KEPT) -> None:
        self._clock = clock
        self._kept = kept
        self._entries: OrderedDict[Place, _Entry] = OrderedDict()
        self._turns: WeakValueDictionary[Place, asyncio.Lock] = WeakValueDictionary()

    @property
    def versions(self) -> int:
        """How many versions of charts are kept."""
        return sum(entry.size for entry in self._entries.values())

    async def read(self, place: Place, fetch: Fetch, *, anew: bool) -> Charts:
        """Return what the index at ``place`` says.

        Those who ask at the same time get one answer, failures included.

        Args:
            place: where it is.
            fetch: asks the repository; called by one of those who wait.
            anew: whether an answer from before this call is too old, however young it is.

        Raises:
            WindlassError: whatever ``fetch`` raises.
        """
        asked = self._clock()
        turn = self._turns.get(place)
        if turn is None:
            turn = self._turns[place] = asyncio.Lock()
        async with turn:
            entry = self._entries.get(place) or _Entry()
            if entry.error is not None and entry.failed >= asked:
                raise entry.error
            if entry.charts is not None and entry.checked >= (asked if anew else asked - FRESH):
                self._entries.move_to_end(place)
                return entry.charts
            began = self._clock()
            try:
                fetched = await fetch(entry.mark if entry.charts is not None else Mark())
            except WindlassError as error:
                entry.failed, entry.error = self._clock(), error
                self._keep(place, entry)
                raise
            charts = entry.charts if fetched.charts is None else fetched.charts
            if charts is None:
                raise AssertionError("a repository cannot say of an index that it has not changed unless it was known")
            size = entry.size if fetched.charts is None else sum(map(len, charts.values()))
            self._keep(place, _Entry(charts=charts, mark=fetched.mark, size=size, checked=began))
            return charts

    def _keep(self, place: Place, entry: _Entry) -> None:
        """Keep an index; what was used longest ago makes room."""
        self._entries.pop(place, None)
        if entry.size > self._kept:
            return
        while self._entries and self.versions + entry.size > self._kept:
            self._entries.popitem(last=False)
        self._entries[place] = entry
