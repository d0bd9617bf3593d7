from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from windlass.domain.servicesets.models import LabelSelector
from windlass.domain.servicesets.rollout.policy import RolloutPolicy, rounded_down, rounded_up, selects
from windlass.domain.servicesets.rollout.waves import CanaryMissingError, Target, waves


def policy(**values: Any) -> RolloutPolicy:
    return RolloutPolicy.model_validate(values)


def fleet(count: int) -> list[Target]:
    return [
        Target(f"c{number:02}", {"ring": str(number % 3), "tier": "gold" if number == 7 else "none"})
        for number in range(count)
    ]


def shown(found: Any) -> list[str]:
    return [("canary: " if wave.canary else "") + " ".join(wave.clusters) for wave in found]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, ["c00 c01 c02 c03 c04 c05 c06 c07"]),
        ({"waves": [3]}, ["c00 c01 c02", "c03 c04 c05", "c06 c07"]),
        ({"waves": ["25%"]}, ["c00 c01", "c02 c03", "c04 c05", "c06 c07"]),
        ({"waves": ["30%"]}, ["c00 c01 c02", "c03 c04 c05", "c06 c07"]),
        ({"waves": [1, "50%"]}, ["c00", "c01 c02 c03 c04", "c05 c06 c07"]),
        ({"waves": [1, 2]}, ["c00", "c01 c02", "c03 c04", "c05 c06", "c07"]),
        ({"canary": 1}, ["canary: c00", "c01 c02 c03 c04 c05 c06 c07"]),
        ({"canary": "1%", "waves": [4]}, ["canary: c00", "c01 c02 c03 c04", "c05 c06 c07"]),
        ({"canary": 0}, ["c00 c01 c02 c03 c04 c05 c06 c07"]),
        ({"canarySelector": {"matchLabels": {"tier": "gold"}}}, ["canary: c07", "c00 c01 c02 c03 c04 c05 c06"]),
        ({"canarySelector": {"matchLabels": {"ring": "1"}}, "canary": 2, "waves": [9]},
         ["canary: c01 c04", "c00 c02 c03 c05 c06 c07"]),
        ({"orderBy": {"label": "ring"}}, ["c00 c03 c06 c01 c04 c07 c02 c05"]),
        ({"orderBy": {"label": "ring", "values": ["2", "0"]}, "canary": 2},
         ["canary: c02 c05", "c00 c03 c06 c01 c04 c07"]),
        ({"canary": 20}, ["canary: c00 c01 c02 c03 c04 c05 c06 c07"]),
    ],
)  # fmt: skip
def test_waves(values: dict[str, Any], expected: list[str]) -> None:
    assert shown(waves(policy(**values), fleet(8))) == expected


def test_numbers_come_by_size_before_text_and_before_nothing() -> None:
    values = ["10", "9", "b", "a", None]
    targets = [Target(f"c{n}", {} if value is None else {"ring": value}) for n, value in enumerate(values)]
    assert shown(waves(policy(orderBy={"label": "ring"}), targets)) == ["c1 c0 c3 c2 c4"]


def test_no_clusters_have_no_waves() -> None:
    assert waves(policy(canarySelector={"matchLabels": {"a": "b"}}), []) == ()


def test_a_canary_that_nothing_is_is_refused() -> None:
    with pytest.raises(CanaryMissingError, match="canarySelector picks none"):
        waves(policy(canarySelector={"matchLabels": {"tier": "tin"}}), fleet(3))


def test_two_clusters_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="same name"):
        waves(policy(), [Target("a"), Target("a")])


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"waves": [0]}, "nothing would ever begin"),
        ({"waves": []}, "at least 1 item"),
        ({"waves": ["101%"]}, "a percentage"),
        ({"waves": ["x"]}, "a percentage"),
        ({"waves": [True]}, "a percentage"),
        ({"maxConcurrent": "0%"}, "nothing would ever begin"),
        ({"failureBudget": -1}, "a percentage"),
        ({"failureBudget": 1.5}, "a percentage"),
        ({"soak": "an hour"}, "no duration"),
        ({"approval": "Sometimes"}, "AfterCanary"),
        ({"wave": 1}, "Extra inputs"),
        ({"orderBy": {}}, "Field required"),
    ],
)
def test_what_is_no_policy_is_refused(values: dict[str, Any], text: str) -> None:
    with pytest.raises(ValidationError, match=text):
        policy(**values)


@pytest.mark.parametrize(
    ("amount", "total", "up", "down"),
    [(3, 10, 3, 3), ("25%", 10, 3, 2), ("100%", 7, 7, 7), ("1%", 7, 1, 0), ("0%", 7, 0, 0), ("50%", 0, 0, 0)],
)
def test_amounts(amount: int | str, total: int, up: int, down: int) -> None:
    assert rounded_up(amount, total) == up
    assert rounded_down(amount, total) == down


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ({}, False),
        ({"matchLabels": {"a": "1"}}, True),
        ({"matchLabels": {"a": "2"}}, False),
        ({"matchExpressions": [{"key": "a", "operator": "In", "values": ["1", "2"]}]}, True),
        ({"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["1", "2"]}]}, False),
        ({"matchExpressions": [{"key": "z", "operator": "NotIn", "values": ["1"]}]}, True),
        ({"matchExpressions": [{"key": "a", "operator": "Exists"}]}, True),
        ({"matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]}, False),
        ({"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["0"]}]}, False),
        ({"matchLabels": {"a": "1"}, "matchExpressions": [{"key": "b", "operator": "Exists"}]}, False),
    ],
)
def test_selectors(selector: dict[str, Any], expected: bool) -> None:
    assert selects(LabelSelector.from_object(selector), {"a": "1"}) == expected


AMOUNTS = st.one_of(st.integers(1, 12), st.integers(1, 100).map("{}%".format))


@given(st.integers(0, 30), AMOUNTS | st.none(), st.lists(AMOUNTS, min_size=1, max_size=3))
def test_every_cluster_is_in_one_wave_and_none_is_too_large(count: int, canary: Any, sizes: list[Any]) -> None:
    found = waves(policy(canary=canary, waves=sizes), fleet(count))
    assert sorted(name for wave in found for name in wave.clusters) == [target.name for target in fleet(count)]
    assert [wave.number for wave in found] == list(range(1, len(found) + 1))
    assert all(wave.clusters for wave in found)
    limits = [rounded_up(size, count) for size in [*([canary] if canary else []), *sizes]]
    limits += [limits[-1]] * len(found)
    assert all(len(wave.clusters) <= limit for wave, limit in zip(found, limits, strict=False))
