"""Integers that a jq program has let through."""

from __future__ import annotations

from typing import Any

import pytest

from windlass.domain.text.doubles import unrounded

BIG = 2**53 + 1


@pytest.mark.parametrize(
    ("before", "after", "kept"),
    [
        ({"a": BIG}, {"a": 2**53, "b": 1}, {"a": BIG, "b": 1}),
        ({"a": BIG}, {"a": float(BIG)}, {"a": BIG}),
        ({"a": BIG}, {"a": 7}, {"a": 7}),
        ([BIG, 1], [2**53, 2], [BIG, 2]),
        ([BIG], [2**53, BIG], [2**53, BIG]),
        ({"a": True}, {"a": 1}, {"a": 1}),
        ({"a": "x"}, {"a": None}, {"a": None}),
    ],
)
def test_integers_that_jq_rounds_are_kept(before: Any, after: Any, kept: Any) -> None:
    assert unrounded(before, after) == kept
