from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.domain.backoff import CAP, FREE_INTERRUPTIONS, INITIAL, JITTER, PERMANENT, delay
from windlass.domain.errors import Category

MIDDLE = 0.5  # the chance that changes nothing
CHANCES = st.floats(0, 1, exclude_max=True)
ATTEMPTS = st.integers(1, 10**9)


@pytest.mark.parametrize(("attempt", "seconds"), [(1, 0.5), (2, 0.75), (3, 1.125), (12, 43.25), (13, 60), (10**9, 60)])
def test_transient_failures_wait_longer_and_longer_up_to_a_minute(attempt: int, seconds: float) -> None:
    assert delay(Category.TRANSIENT, attempt, chance=MIDDLE) == pytest.approx(seconds, rel=0.01)


@given(ATTEMPTS, CHANCES)
def test_the_wait_is_spread_by_a_fifth_and_never_shrinks(attempt: int, chance: float) -> None:
    middle = delay(Category.TRANSIENT, attempt, chance=MIDDLE)
    assert (1 - JITTER) * middle <= delay(Category.TRANSIENT, attempt, chance=chance) <= (1 + JITTER) * middle
    assert INITIAL <= middle <= delay(Category.TRANSIENT, attempt + 1, chance=MIDDLE) <= CAP


@given(ATTEMPTS, CHANCES)
def test_permanent_failures_are_looked_at_every_ten_minutes(attempt: int, chance: float) -> None:
    assert 0.8 * PERMANENT <= delay(Category.PERMANENT, attempt, chance=chance) <= 1.2 * PERMANENT
    assert PERMANENT == 600


@given(CHANCES)
def test_a_lost_worker_costs_no_wait_at_first(chance: float) -> None:
    waits = [delay(Category.INTERRUPTED, attempt, chance=chance) for attempt in (1, 2, 3)]
    assert waits[:FREE_INTERRUPTIONS] == [0.0, 0.0]
    assert waits[2] > 0
