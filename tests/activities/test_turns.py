from __future__ import annotations

import asyncio

import pytest

from support.waiting import PATIENCE
from windlass.activities import turns as module
from windlass.activities.turns import Turns


def test_a_turn_is_given_back_once() -> None:
    turns = Turns(1)
    assert turns.free
    with turns.taken() as turn:
        assert not turns.free
        turn.give_back()
        assert turns.free
        turn.give_back()
        with turns.taken():
            assert not turns.free
    assert turns.free


def test_it_is_given_back_by_who_fails() -> None:
    turns = Turns(1)
    with pytest.raises(ValueError, match="no chart"), turns.taken():
        raise ValueError("no chart")
    assert turns.free


def test_who_was_fetched_beyond_the_bound_counts_as_well() -> None:
    turns = Turns(1)
    with turns.taken() as first, turns.taken():
        first.give_back()
        assert not turns.free
    assert turns.free


async def test_who_asked_is_told() -> None:
    turns, changed = Turns(1), asyncio.Event()
    turns.tell(changed)
    with turns.taken() as turn:
        assert not changed.is_set()
        turn.give_back()
        assert changed.is_set()


async def test_what_is_expected_counts_once() -> None:
    turns = Turns(2)
    turns.expect()
    with turns.taken():
        assert turns.free
        turns.expect()
        assert not turns.free
    assert turns.free


async def test_what_does_not_begin_is_no_longer_expected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BEGINS_WITHIN", 0.05)
    turns, changed = Turns(1), asyncio.Event()
    turns.tell(changed)
    turns.expect()
    assert not turns.free
    async with asyncio.timeout(PATIENCE):
        await changed.wait()
    assert turns.free
    with turns.taken():
        assert not turns.free
