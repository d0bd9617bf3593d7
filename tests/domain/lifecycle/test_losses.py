"""Steps, and other work, that lose their workers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.domain.lifecycle.losses import (
    LOSSES,
    SPREAD,
    Interruptions,
    hold,
    interrupted,
    quarantined,
    with_fault,
    without_fault,
)
from windlass.domain.lifecycle.policy import Cause


def after(*lost: bool, step: str = "Load", chance: float = 0.5) -> Interruptions:
    found: Interruptions | None = None
    for one in lost:
        found = interrupted(found, step, lost=one, now=100.0, chance=chance)
    assert found is not None
    return found


def test_the_first_loss_is_followed_by_another_try_at_once() -> None:
    assert after(True).next_try == 100.0


@given(chance=st.floats(min_value=0, max_value=1, exclude_max=True))
def test_the_second_one_separates_suspects(chance: float) -> None:
    assert 100.0 <= after(True, True, chance=chance).next_try <= 100.0 + SPREAD


def test_the_third_loss_holds_the_step() -> None:
    assert hold(after(True, True), 100.0) is None
    held = hold(after(True, True, True), 100.0)
    assert held is not None
    assert (held.step, held.cause, held.reason) == ("Load", Cause.WORKER_LOST, "WorkerLost")
    assert held.message == "Load lost its worker 3 times in a row and reported nothing; it is not tried again by itself"


@given(st.lists(st.booleans(), min_size=1, max_size=50))
def test_what_is_handed_over_is_never_counted(lost: list[bool]) -> None:
    assert (hold(after(*lost), 100.0) is not None) == (sum(lost) >= LOSSES)


@given(st.integers(min_value=3, max_value=2000))
def test_what_is_handed_over_again_and_again_backs_off(times: int) -> None:
    waited = after(*[False] * times).next_try - 100.0
    assert 0 < waited <= 60.0 * 1.2


def test_another_step_begins_at_none() -> None:
    found = interrupted(after(True, True), "UpgradeRelease", lost=True, now=100.0, chance=0.5)
    assert (found.step, found.lost) == ("UpgradeRelease", 1)


@pytest.mark.parametrize("times", range(6))
def test_a_part_is_quarantined_after_three_faults_in_a_row(times: int) -> None:
    faults: dict[str, int] = {"informers": 1}
    for _ in range(times):
        faults = with_fault(faults, "drift")
    assert quarantined(faults, "drift") == (times >= LOSSES)
    assert not quarantined(faults, "informers")
    assert without_fault(faults, "drift") == {"informers": 1}
