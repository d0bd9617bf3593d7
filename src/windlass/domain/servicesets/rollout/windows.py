"""Maintenance windows: when one is open, and when it opens next.

A window opens at the times of a cron schedule on the wall clocks of a time zone and stays open for a duration, which
is elapsed time: two hours are two hours, also in the night in which the clocks change. It is open from its first
instant up to, not including, its last. Openings may cross midnight and overlap.

When clocks change, schedules behave as in cron(8): one whose hours and minutes are fixed opens once, in a skipped
hour at the instant in which the clocks go forward, in a repeated hour the first time. One whose minute or hour begins
with ``*`` follows elapsed time: it passes over what is skipped and opens in both repetitions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Annotated, Final, Self
from zoneinfo import ZoneInfo

from croniter import CroniterBadDateError, croniter
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, PlainSerializer
from pydantic.alias_generators import to_camel

from windlass.domain.servicesets.models import LabelSelector
from windlass.domain.text.durations import parse_duration, show_duration

_YEARS: Final = 8
"""How far ahead openings are looked for: 29 February is at most eight years away."""

_DAY: Final = timedelta(days=1)
_SECOND: Final = timedelta(seconds=1)


def _schedule(text: str) -> str:
    fields = text.split()
    # "r" draws a random time and "h" hashes one: neither says when the window opens.
    odd = len(fields) != 5 or any(field[:1] in {"R", "r", "H", "h"} for field in fields)
    if odd or not croniter.is_valid(text):
        raise ValueError(f"{text!r} is no cron schedule; write minute, hour, day, month, weekday, like '0 22 * * 1-5'")
    return text


def _time_zone(text: str) -> str:
    try:
        ZoneInfo(text)
    except (KeyError, ValueError, OSError):  # not found, no key at all, a folder of zones
        raise ValueError(f"{text!r} is no time zone; write an IANA name, like Europe/Berlin") from None
    return text


def _duration(value: object) -> timedelta:
    if isinstance(value, timedelta):
        return value
    if value == 0 and not isinstance(value, bool):
        return timedelta()
    if not isinstance(value, str):
        raise ValueError("a duration is text, like 90s, 30m, 1h30m or 2d")  # noqa: TRY004 - pydantic wants ValueError
    return parse_duration(value)


def _lasting(value: timedelta) -> timedelta:
    if value <= timedelta():
        raise ValueError("a window lasts longer than nothing")
    return value


type Duration = Annotated[timedelta, BeforeValidator(_duration), PlainSerializer(show_duration)]
"""A duration, written as text: 90s, 30m, 1h30m, 2d."""


class Window(BaseModel):
    """When something may begin.

    Attributes:
        schedule: cron, five fields; when it opens.
        duration: how long it stays open, in elapsed time.
        time_zone: IANA name; whose wall clocks the schedule means.
        cluster_selector: clusters that it is for; all if it is None.
    """

    model_config = ConfigDict(
        frozen=True, extra="forbid", alias_generator=to_camel, validate_by_name=True, hide_input_in_errors=True
    )

    schedule: Annotated[str, AfterValidator(_schedule)]
    duration: Annotated[Duration, AfterValidator(_lasting)]
    time_zone: Annotated[str, AfterValidator(_time_zone)] = "UTC"
    cluster_selector: LabelSelector | None = None

    def __str__(self) -> str:
        return f"{self.schedule} for {show_duration(self.duration)} ({self.time_zone})"


@dataclass(frozen=True)
class Opening:
    """One time that a window is open: from ``start`` up to, not including, ``end``; both UTC."""

    start: datetime
    end: datetime

    @classmethod
    def of(cls, window: Window, start: datetime) -> Self:
        """Return the opening of a window that begins at ``start``."""
        return cls(start, start + window.duration)


def opening_at(window: Window, at: datetime) -> Opening | None:
    """Return the opening in which ``at`` lies, of overlapping ones the earliest; None if the window is closed."""
    start = _next_start(window.schedule, window.time_zone, at.astimezone(UTC) - window.duration)
    return Opening.of(window, start) if start is not None and start <= at else None


def next_opening(window: Window, after: datetime) -> Opening | None:
    """Return the first opening that begins after ``after``; None if there is none within eight years."""
    start = _next_start(window.schedule, window.time_zone, after.astimezone(UTC))
    return None if start is None else Opening.of(window, start)


def opening_from(windows: Iterable[Window], at: datetime) -> Opening | None:
    """Return the opening of any of the windows that is open at ``at``, else the one that begins first afterwards.

    None if none of them ever opens; that of no windows at all is None, too.
    """
    windows = tuple(windows)
    now = [opening for window in windows if (opening := opening_at(window, at)) is not None]
    if now:
        return max(now, key=lambda opening: opening.end)
    later = [opening for window in windows if (opening := next_opening(window, at)) is not None]
    return min(later, key=lambda opening: opening.start, default=None)


@lru_cache(maxsize=4096)
def _next_start(schedule: str, time_zone: str, after: datetime) -> datetime | None:
    """Return the first instant after ``after`` (both UTC) in which the schedule fires."""
    zone = ZoneInfo(time_zone)
    minute, hour, *_ = schedule.split()
    elapsed = minute.startswith("*") or hour.startswith("*")
    # Where clocks go back within a day, wall times that are past come once more.
    repeated = max(_offset(after, zone) - _offset(after + _DAY, zone), timedelta())
    best: datetime | None = None
    for wall in _walls(schedule, after.astimezone(zone).replace(tzinfo=None) - repeated):
        instants = _instants(wall, zone, elapsed=elapsed)
        # First instants grow with wall times, so that nothing earlier follows.
        if best is not None and instants and instants[0] >= best:
            break
        later = [one for one in (*instants, best) if one is not None and one > after]
        best = min(later, default=None)
    return best


def _walls(schedule: str, after: datetime) -> Iterator[datetime]:
    """Yield the wall times of a schedule, without a time zone. Croniter gets a start, so it reads no clock."""
    times = croniter(schedule, after, ret_type=datetime, max_years_between_matches=_YEARS)
    while True:
        try:
            yield times.get_next(datetime)
        except CroniterBadDateError:  # such a day does not come
            return


def _instants(wall: datetime, zone: ZoneInfo, *, elapsed: bool) -> list[datetime]:
    """Return the instants (UTC) that a wall time stands for, by the rules at the top of the module."""
    first, second = (wall.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1))
    if first == second:
        return [first]
    if first < second:  # it comes twice
        return [first, second] if elapsed else [first]
    return [] if elapsed else [_change(second, first, zone)]


def _change(low: datetime, high: datetime, zone: ZoneInfo) -> datetime:
    """Return the instant in (``low``, ``high``] in which the clocks change, to the second."""
    before = _offset(low, zone)
    while high - low > _SECOND:
        middle = low + timedelta(seconds=(high - low) // _SECOND // 2)
        low, high = (middle, high) if _offset(middle, zone) == before else (low, middle)
    return high


def _offset(instant: datetime, zone: ZoneInfo) -> timedelta:
    return instant.astimezone(zone).utcoffset() or timedelta()
