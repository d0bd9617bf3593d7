"""The numbers of 1.9, and trying again."""

from __future__ import annotations

import asyncio

import pytest
from framework.recording import Boom
from hypothesis import given
from hypothesis import strategies as st

from windlass.framework import ExponentialBackOff, default_backoff_factory, retry


def waits(backoff: ExponentialBackOff) -> list[float]:
    found: list[float] = []
    while (wait := backoff.next()) is not None:
        found.append(wait)
    return found


def test_nominal_waits_of_the_default() -> None:
    backoff = ExponentialBackOff(max_elapsed=None, max_retries=7, chance=lambda: 0.5)
    found = waits(backoff)
    assert found == pytest.approx([0.5, 0.75, 1.125, 1.6875, 2.53125, 3.796875, 5.6953125])
    assert sum(found) == pytest.approx(16.1, abs=0.1)
    backoff.reset()
    assert waits(backoff) == found


def test_the_factory_makes_budgets_of_their_own() -> None:
    factory = default_backoff_factory()
    first, second = factory(), factory()
    assert [first.next() is not None for _ in range(8)] == [True] * 7 + [False]
    wait = second.next()
    assert wait is not None
    assert 0.25 <= wait <= 0.75


@given(st.floats(0, 1, exclude_max=True), st.integers(1, 60))
def test_waits_stay_within_jitter_and_cap(chance: float, number: int) -> None:
    backoff = ExponentialBackOff(max_elapsed=None, max_retries=number, chance=lambda: chance)
    for attempt, wait in enumerate(waits(backoff)):
        nominal = min(0.5 * 1.5**attempt, 60.0)
        assert nominal * 0.5 <= wait <= nominal * 1.5


def test_the_exponential_one_stops_after_fifteen_minutes() -> None:
    now = 0.0
    backoff = ExponentialBackOff(clock=lambda: now)
    now = 15 * 60.0
    assert backoff.next() is not None
    now += 0.1
    assert backoff.next() is None


class Trying:
    def __init__(self, failures: int) -> None:
        self.failures = failures
        self.calls = 0
        self.told: list[float] = []
        self.slept: list[float] = []

    async def operation(self) -> str:
        self.calls += 1
        if self.calls <= self.failures:
            raise Boom(self.calls)
        return "done"

    def notify(self, error: Exception, wait: float) -> None:
        assert isinstance(error, Boom)
        self.told.append(wait)

    async def sleep(self, wait: float) -> None:
        self.slept.append(wait)

    async def go(self, backoff: ExponentialBackOff, **options: object) -> str:
        return await retry(self.operation, backoff, notify=self.notify, sleep=self.sleep, **options)  # type: ignore[arg-type]  # a test's shorthand


async def test_success_after_failures() -> None:
    trying = Trying(3)
    assert await trying.go(ExponentialBackOff(chance=lambda: 0.5)) == "done"
    assert trying.told == trying.slept == [0.5, 0.75, 1.125]


async def test_the_last_error_comes_out_and_no_wait_is_told_before_it() -> None:
    trying = Trying(100)
    with pytest.raises(Boom, match="8"):
        await trying.go(ExponentialBackOff(max_elapsed=None, max_retries=7))
    assert (trying.calls, len(trying.told)) == (8, 7)


async def test_a_used_back_off_is_reset_first() -> None:
    backoff = ExponentialBackOff(max_retries=1)
    backoff.next()
    trying = Trying(1)
    assert await trying.go(backoff) == "done"


async def test_errors_for_good_are_not_tried_again() -> None:
    trying = Trying(1)
    with pytest.raises(Boom):
        await trying.go(ExponentialBackOff(), for_good=lambda error: isinstance(error, Boom))
    assert trying.calls == 1


async def test_cancelling_ends_a_wait() -> None:
    async def fails() -> None:
        raise Boom

    task = asyncio.create_task(retry(fails, ExponentialBackOff(initial=3600), notify=lambda *_: None))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
