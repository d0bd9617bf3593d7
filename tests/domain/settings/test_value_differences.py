from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.domain.settings.value_differences import TOLD, told

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab.\n", max_size=3), inner, max_size=3),
    max_leaves=10,
)
MAPS = st.dictionaries(st.text("abc", min_size=1, max_size=2), VALUES, max_size=4)


@pytest.mark.parametrize(
    ("stored", "wanted", "said"),
    [
        ({"a": 1}, {"a": 1}, ""),
        ({"a": None}, {}, ""),
        ({"replicas": 3}, {"replicas": 2}, "replicas would change from 3 to 2"),
        ({"pin": 4711}, {"pin": 1}, "pin would change"),
        ({"image": {"tag": "1"}}, {"image": {"tag": "2"}}, "image.tag would change"),
        ({"on": True}, {"on": 1}, "on would change from true to 1"),
        ({"old": 1}, {}, "old would go"),
        ({}, {"new": "x"}, "new would be added"),
        ({"a": [1]}, {"a": [2]}, "a would change"),
        ({"a\nb": 1}, {}, "a?b would go"),
    ],
)
def test_differences_are_told_and_what_may_be_secret_is_not(
    stored: dict[str, Any], wanted: dict[str, Any], said: str
) -> None:
    assert told(stored, wanted, plain={"replicas", "on"}) == said


def test_many_differences_are_counted() -> None:
    text = told({f"k{number}": 1 for number in range(TOLD + 3)}, {}, plain=())
    assert text.endswith("and 3 more")
    assert text.count("would go") == TOLD


@given(MAPS)
def test_equal_values_do_not_differ(values: dict[str, Any]) -> None:
    assert told(values, values, plain=()) == ""


@given(MAPS, MAPS)
def test_whatever_is_stored_can_be_told(stored: dict[str, Any], wanted: dict[str, Any]) -> None:
    assert told(stored, wanted, plain=()).isprintable()
