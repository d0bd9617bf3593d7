"""Windows: nights in which clocks change by table, and against every minute of them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from croniter import croniter
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from windlass.domain.servicesets.rollout.windows import (
    Opening,
    Window,
    next_opening,
    opening_at,
    opening_from,
)

BERLIN, NEW_YORK, LORD_HOWE = "Europe/Berlin", "America/New_York", "Australia/Lord_Howe"


def window(schedule: str, zone: str = "UTC", duration: str = "1h") -> Window:
    return Window.model_validate({"schedule": schedule, "duration": duration, "timeZone": zone})


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def starts(one: Window, after: str, count: int) -> list[str]:
    found: list[str] = []
    at = utc(after)
    for _ in range(count):
        opening = next_opening(one, at)
        assert opening is not None
        at = opening.start
        found.append(f"{at:%m-%d %H:%M}")
    return found


@pytest.mark.parametrize(
    ("zone", "schedule", "after", "expected"),
    [
        # Berlin, 29 March 2026: 02:00 becomes 03:00 at 01:00 UTC; 25 October: 03:00 becomes 02:00 at 01:00 UTC
        (BERLIN, "30 2 * * *", "2026-03-27T12:00", ["03-28 01:30", "03-29 01:00", "03-30 00:30"]),
        (BERLIN, "30 * * * *", "2026-03-29T00:00", ["03-29 00:30", "03-29 01:30", "03-29 02:30"]),
        (BERLIN, "*/20 2 * * *", "2026-03-28T12:00", ["03-30 00:00", "03-30 00:20", "03-30 00:40"]),
        (BERLIN, "0 3 * * *", "2026-03-28T12:00", ["03-29 01:00", "03-30 01:00"]),
        (BERLIN, "30 2 * * *", "2026-10-24T12:00", ["10-25 00:30", "10-26 01:30"]),
        (BERLIN, "30 2 * * *", "2026-10-25T00:45", ["10-26 01:30"]),
        (BERLIN, "30 2 * * *", "2026-10-25T01:15", ["10-26 01:30"]),
        (BERLIN, "30 * * * *", "2026-10-25T00:00", ["10-25 00:30", "10-25 01:30", "10-25 02:30"]),
        (BERLIN, "*/30 2 * * *", "2026-10-24T12:00", ["10-25 00:00", "10-25 00:30", "10-25 01:00", "10-25 01:30"]),
        # New York, 8 March 2026: 02:00 becomes 03:00 at 07:00 UTC; 1 November: 02:00 becomes 01:00 at 06:00 UTC
        (NEW_YORK, "30 2 * * *", "2026-03-07T12:00", ["03-08 07:00", "03-09 06:30"]),
        (NEW_YORK, "0,30 2 * * *", "2026-03-07T12:00", ["03-08 07:00", "03-09 06:00", "03-09 06:30"]),
        (NEW_YORK, "15 * * * *", "2026-03-08T06:00", ["03-08 06:15", "03-08 07:15"]),
        (NEW_YORK, "30 1 * * *", "2026-10-31T12:00", ["11-01 05:30", "11-02 06:30"]),
        (NEW_YORK, "30 * * * *", "2026-11-01T05:00", ["11-01 05:30", "11-01 06:30", "11-01 07:30"]),
        (NEW_YORK, "0 22 * * 0", "2026-10-31T12:00", ["11-02 03:00"]),
        # Lord Howe, half an hour: 4 October 2026, 02:00 becomes 02:30; 5 April, 02:00 becomes 01:30 at 15:00 UTC
        (LORD_HOWE, "15 2 * * *", "2026-10-03T00:00", ["10-03 15:30", "10-04 15:15"]),
        (LORD_HOWE, "45 2 * * *", "2026-10-03T00:00", ["10-03 15:45", "10-04 15:45"]),
        (LORD_HOWE, "15 * * * *", "2026-10-03T14:00", ["10-03 14:45", "10-03 16:15"]),
        (LORD_HOWE, "45 1 * * *", "2026-04-04T12:00", ["04-04 14:45", "04-05 15:15"]),
        (LORD_HOWE, "45 * * * *", "2026-04-04T14:00", ["04-04 14:45", "04-04 15:15", "04-04 16:15"]),
    ],
)  # fmt: skip
def test_nights_in_which_clocks_change(zone: str, schedule: str, after: str, expected: list[str]) -> None:
    assert starts(window(schedule, zone), after, len(expected)) == expected


@pytest.mark.parametrize(
    ("at", "expected"),
    [
        ("2026-03-28T20:59", None),
        ("2026-03-28T21:00", ("2026-03-28T21:00", "2026-03-29T05:00")),
        ("2026-03-29T00:30", ("2026-03-28T21:00", "2026-03-29T05:00")),
        ("2026-03-29T04:59", ("2026-03-28T21:00", "2026-03-29T05:00")),
        ("2026-03-29T05:00", None),
        ("2026-03-29T20:30", ("2026-03-29T20:00", "2026-03-30T04:00")),
        ("2026-10-25T04:59", ("2026-10-24T20:00", "2026-10-25T04:00")),
    ],
)
def test_a_window_over_midnight_lasts_its_hours_also_when_clocks_change(
    at: str, expected: tuple[str, str] | None
) -> None:
    night = window("0 22 * * *", BERLIN, "8h")
    opening = None if expected is None else Opening(utc(expected[0]), utc(expected[1]))
    if at == "2026-10-25T04:59":  # eight hours of that night are over an hour early by the clock
        assert opening_at(night, utc("2026-10-25T03:59")) == opening
        opening = None
    assert opening_at(night, utc(at)) == opening


def test_the_time_may_be_given_in_any_zone() -> None:
    night = window("0 22 * * *", BERLIN, "8h")
    there = utc("2026-07-01T21:00").astimezone(ZoneInfo(NEW_YORK))
    assert opening_at(night, there) == Opening(utc("2026-07-01T20:00"), utc("2026-07-02T04:00"))


def test_a_day_that_never_comes_never_opens() -> None:
    assert next_opening(window("0 0 30 2 *"), utc("2026-01-01")) is None
    assert opening_at(window("0 0 30 2 *"), utc("2026-01-01")) is None
    assert starts(window("0 0 29 2 *"), "2096-03-01", 1) == ["02-29 00:00"]


def test_of_several_windows_the_one_that_is_open_or_opens_first() -> None:
    early, late = window("0 1 * * *", duration="2h"), window("0 2 * * *", duration="2h")
    assert opening_from([late, early], utc("2026-05-01T00:00")) == Opening(
        utc("2026-05-01T01:00"), utc("2026-05-01T03:00")
    )
    assert opening_from([early, late], utc("2026-05-01T02:30")) == Opening(
        utc("2026-05-01T02:00"), utc("2026-05-01T04:00")
    )
    assert opening_from([], utc("2026-05-01")) is None
    assert opening_from([window("0 0 30 2 *")], utc("2026-05-01")) is None


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"schedule": "0 2 * *"}, "no cron schedule"),
        ({"schedule": "0 2 * * * 0"}, "no cron schedule"),
        ({"schedule": "R 2 * * *"}, "no cron schedule"),
        ({"schedule": "61 2 * * *"}, "no cron schedule"),
        ({"schedule": "@daily"}, "no cron schedule"),
        ({"timeZone": "Europe/Atlantis"}, "no time zone"),
        ({"timeZone": "Europe"}, "no time zone"),
        ({"timeZone": "../etc/passwd"}, "no time zone"),
        ({"timeZone": ""}, "no time zone"),
        ({"duration": "2 hours"}, "no duration"),
        ({"duration": "0s"}, "longer than nothing"),
        ({"duration": 30}, "a duration is text"),
        ({"until": "noon"}, "Extra inputs"),
    ],
)
def test_what_is_no_window_is_refused(change: dict[str, object], text: str) -> None:
    with pytest.raises(ValidationError, match=text):
        Window.model_validate({"schedule": "0 2 * * *", "duration": "1h", "timeZone": BERLIN} | change)


# -- against every minute ----------------------------------------------------------------------------------------------

CHANGES = [
    (BERLIN, "2026-03-29T01:00"),
    (BERLIN, "2026-10-25T01:00"),
    (NEW_YORK, "2026-03-08T07:00"),
    (NEW_YORK, "2026-11-01T06:00"),
    (LORD_HOWE, "2026-10-03T15:30"),
    (LORD_HOWE, "2026-04-04T15:00"),
    ("Pacific/Apia", "2011-12-30T10:00"),  # a whole day was left out
    ("UTC", "2026-06-01T12:00"),
]
MINUTE = timedelta(minutes=1)


def minutes(zone: str, change: str) -> list[tuple[datetime, datetime]]:
    """Every minute of the hours around a change: instant and wall clock."""
    at = utc(change)
    instants = [at + number * MINUTE for number in range(-4 * 60, 5 * 60)]
    return [(one, one.astimezone(ZoneInfo(zone)).replace(tzinfo=None)) for one in instants]


@given(
    st.sampled_from(CHANGES),
    st.sampled_from(["*", "*/15", "0", "30", "10,50"]),
    st.sampled_from(["*", "*/2", "0", "1", "2", "3", "1-3"]),
)
def test_openings_are_the_minutes_that_match(change: tuple[str, str], minute: str, hour: str) -> None:
    zone, schedule = change[0], f"{minute} {hour} * * *"
    around = minutes(zone, change[1])
    matching = [(at, wall) for at, wall in around if croniter.match(schedule, wall)]
    if not schedule.startswith("*") and not hour.startswith("*"):
        first: dict[datetime, datetime] = {}
        for at, wall in matching:
            first.setdefault(wall, at)
        matching = [(at, wall) for wall, at in first.items()]
        for (_, before), (at, wall) in pairwise(around):
            skipped = (before + number * MINUTE for number in range(1, (wall - before) // MINUTE))
            if any(croniter.match(schedule, one) for one in skipped):
                matching.append((at, wall))
    expected = sorted({at for at, _ in matching} - {around[0][0]})
    found: list[datetime] = []
    at = around[0][0]
    while (opening := next_opening(window(schedule, zone), at)) is not None and opening.start <= around[-1][0]:
        at = opening.start
        found.append(at)
    assert found == expected


@given(st.sampled_from(CHANGES), st.sampled_from(["0 2 * * *", "*/45 * * * *", "30 1 * * *"]), st.integers(-200, 280))
def test_open_is_where_an_opening_has_begun_and_not_ended(change: tuple[str, str], schedule: str, offset: int) -> None:
    at = utc(change[1]) + offset * MINUTE
    one = window(schedule, change[0], "50m")
    begun = next_opening(one, at - one.duration)
    expected = begun is not None and begun.start <= at < begun.end
    assert (opening_at(one, at) is not None) == expected
