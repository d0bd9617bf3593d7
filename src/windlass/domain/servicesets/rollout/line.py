"""The clusters of a wave that stand in line for a slot, each with its windows."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from windlass.domain.servicesets.rollout.timeline import Calendar
from windlass.domain.servicesets.rollout.windows import Window


@dataclass(slots=True)
class _Group:
    """Clusters that wait for the same windows, the first in line at the top."""

    calendar: Calendar
    places: list[int] = field(default_factory=list[int])


class Line:
    """Who is next. Clusters with the same windows are looked at together, so that time passes in few steps.

    Ask in this order, with times that never go back: `wake`, `shut_out`, `take` until it gives None, `next_time`.
    """

    def __init__(self, clusters: Iterable[tuple[datetime, int, Sequence[Window] | None]]) -> None:
        """Take from when on each cluster is free, its place in line, and its windows."""
        self._groups: dict[int | None, _Group] = {}
        self._sleeping: list[tuple[datetime, int, int | None]] = []
        known: list[Sequence[Window]] = []
        for free, place, windows in clusters:
            key = None
            if windows is not None:
                if windows not in known:
                    known.append(windows)
                key = known.index(windows)
            if key not in self._groups:
                self._groups[key] = _Group(Calendar(windows))
            heapq.heappush(self._sleeping, (free, place, key))

    def __bool__(self) -> bool:
        return bool(self._sleeping) or any(group.places for group in self._groups.values())

    def wake(self, at: datetime) -> None:
        """Let those stand in line that are free now."""
        while self._sleeping and self._sleeping[0][0] <= at:
            _, place, key = heapq.heappop(self._sleeping)
            heapq.heappush(self._groups[key].places, place)

    def shut_out(self, at: datetime) -> list[int]:
        """Send away, and return, those for whom no window opens any more."""
        gone: list[int] = []
        for group in self._groups.values():
            if group.places and group.calendar.opens(at) is None:
                gone += group.places
                group.places = []
        return sorted(gone)

    def take(self, at: datetime) -> int | None:
        """Take the first in line whose window is open; None if there is none."""
        ready = [group for group in self._groups.values() if group.places and group.calendar.opens(at) == at]
        if not ready:
            return None
        return heapq.heappop(min(ready, key=lambda group: group.places[0]).places)

    def rest(self) -> list[int]:
        """Return all that are left, in their order, and leave none."""
        left = [place for _, place, _ in self._sleeping]
        left += [place for group in self._groups.values() for place in group.places]
        self._sleeping, self._groups = [], {}
        return sorted(left)

    def next_time(self, at: datetime, slot: datetime | None) -> datetime:
        """Return when somebody may be taken, at the earliest; ``slot`` is when one comes free."""
        times = [free for free, _, _ in self._sleeping[:1]]
        for group in self._groups.values():
            opens = group.calendar.opens(at) if group.places else None
            if opens is not None and opens > at:
                times.append(opens)
            elif opens is not None and slot is not None:
                times.append(slot)
        return min(times, default=at)
