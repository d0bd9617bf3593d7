"""Metrics of hooks: what is read, what is refused, and what a run does to the series."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.domain.hooks.metrics import (
    MAX_SERIES,
    NO_SERIES,
    Action,
    MetricError,
    Sample,
    SeriesOfHook,
    SeriesType,
    folded,
    parse_samples,
)


def runs(*files: list[dict[str, Any]]) -> SeriesOfHook:
    series = NO_SERIES
    for items in files:
        series = folded(series, parse_samples(items))
    return series


def values(series: SeriesOfHook) -> dict[str, float]:
    return {
        name + "".join(f" {key}={value}" for key, value in labels): one.value for (name, labels), one in series.items()
    }


@pytest.mark.parametrize(
    ("item", "sample"),
    [
        ({"name": "a", "action": "add", "value": 1}, Sample(action=Action.ADD, name="a", value=1)),
        ({"name": "a", "add": 2}, Sample(action=Action.ADD, name="a", value=2)),
        ({"name": "a", "set": 0.5}, Sample(action=Action.SET, name="a", value=0.5)),
        (
            {"name": "a", "action": "set", "value": -1, "labels": {"z": "1", "b": "2"}, "group": "g"},
            Sample(action=Action.SET, name="a", value=-1, labels=(("b", "2"), ("z", "1")), group="g"),
        ),
        (
            {"name": "a", "action": "observe", "value": 3, "buckets": [10, 1, 5, 1]},
            Sample(action=Action.OBSERVE, name="a", value=3, buckets=(1, 5, 10)),
        ),
        ({"action": "expire", "group": "g"}, Sample(action=Action.EXPIRE, group="g")),
        ({"action": "expire"}, Sample(action=Action.EXPIRE)),
    ],
)
def test_items_in_all_their_forms(item: dict[str, Any], sample: Sample) -> None:
    assert parse_samples([item]) == (sample,)


def test_an_action_nobody_knows_is_passed_over() -> None:
    assert parse_samples([{"name": "a", "action": "forget", "value": 1}]) == ()


@pytest.mark.parametrize(
    ("item", "says"),
    [
        (1, "expected an object"),
        ({"name": "a", "add": 1, "set": 1}, "add and set exclude each other"),
        ({"name": "a"}, "action: expected text"),
        ({"set": 1}, "name: expected text"),
        ({"name": "a-b", "set": 1}, "name: expected letters"),
        ({"name": "1a", "set": 1}, "name: expected letters"),
        ({"name": "windlass_steps", "set": 1}, "begins like Windlass's own"),
        ({"name": "a", "set": True}, "set: expected a number"),
        ({"name": "a", "set": float("nan")}, "set: expected a finite number"),
        ({"name": "a", "add": -1}, "add: a counter cannot go down"),
        ({"name": "a", "set": 1, "group": 1}, "group: expected text"),
        ({"name": "a", "set": 1, "labels": {"x": 1}}, "labels: expected an object with text values"),
        ({"name": "a", "set": 1, "labels": {"__x": "1"}}, "labels: __x: expected letters"),
        ({"name": "a", "set": 1, "labels": {"x": "v" * 1025}}, "labels: x: expected at most 1024 characters"),
        ({"name": "a", "action": "observe", "value": 1}, "buckets: expected a list"),
        ({"name": "a", "action": "observe", "value": 1, "buckets": ["1"]}, "buckets: expected a number"),
    ],
)
def test_the_first_bad_item_is_named(item: Any, says: str) -> None:
    with pytest.raises(MetricError) as caught:
        parse_samples([{"name": "good", "set": 1}, item])
    assert str(caught.value).startswith(f"item 2: {says}") or says in str(caught.value)


def test_series_without_a_group_stay_and_counters_go_on() -> None:
    series = runs([{"name": "a", "add": 1}, {"name": "b", "set": 7}], [{"name": "a", "add": 1}])
    assert values(series) == {"a": 2, "b": 7}


def test_a_group_expires_with_the_next_run_that_writes_it() -> None:
    first = [{"name": "a", "set": 1, "group": "g", "labels": {"x": str(n)}} for n in range(3)]
    other = {"name": "o", "set": 1, "group": "other"}
    series = runs([*first, other], [{"name": "a", "set": 2, "group": "g", "labels": {"x": "1"}}])
    assert values(series) == {"o": 1, "a x=1": 2}
    assert values(folded(series, parse_samples([{"name": "x", "set": 1}]))) == {"o": 1, "a x=1": 2, "x": 1}


def test_a_counter_of_a_group_begins_anew() -> None:
    add = {"name": "a", "add": 1, "group": "g"}
    assert values(runs([add, add], [add])) == {"a": 1}


def test_expire_takes_its_group_or_what_has_none() -> None:
    both = [{"name": "a", "set": 1, "group": "g"}, {"name": "b", "set": 1}]
    assert values(runs(both, [{"action": "expire", "group": "g"}])) == {"b": 1}
    assert values(runs(both, [{"action": "expire"}])) == {"a": 1}


def test_histograms_count_and_sum() -> None:
    def observe(value: float) -> dict[str, Any]:
        return {"name": "h", "action": "observe", "value": value, "buckets": [1, 5]}

    (histogram,) = runs([observe(0.5), observe(1)], [observe(3), observe(100)]).values()
    assert (histogram.type, histogram.counts, histogram.value) == (SeriesType.HISTOGRAM, (2, 1, 1), 104.5)


def test_one_name_has_one_type() -> None:
    with pytest.raises(MetricError, match="a is a gauge already, not a counter"):
        runs([{"name": "a", "set": 1}], [{"name": "a", "add": 1, "labels": {"x": "1"}}])


def test_series_are_bounded() -> None:
    items = [{"name": "a", "set": 1, "labels": {"id": str(n)}} for n in range(MAX_SERIES)]
    assert len(runs(items)) == MAX_SERIES
    with pytest.raises(MetricError, match="more than 1000 series"):
        runs(items, [{"name": "b", "set": 1}])


samples = st.builds(
    Sample,
    action=st.sampled_from([Action.SET, Action.ADD, Action.EXPIRE]),
    group=st.sampled_from(["", "g", "h"]),
    name=st.sampled_from(["a", "b", "c"]),
    labels=st.sampled_from([(), (("x", "1"),)]),
    value=st.integers(0, 5),
).map(lambda one: Sample(action=Action.EXPIRE, group=one.group) if one.action is Action.EXPIRE else one)


@given(st.lists(st.lists(samples, max_size=6), max_size=6))
def test_a_run_changes_nothing_or_leaves_of_its_groups_only_what_it_wrote(files: list[list[Sample]]) -> None:
    series = NO_SERIES
    for file in files:
        before = dict(series)
        try:
            series = folded(series, file)
        except MetricError:
            assert dict(series) == before
            continue
        expired = {one.group for one in file if one.group or one.action is Action.EXPIRE}
        written = {(one.name, one.labels) for one in file}
        kept = {key: one for key, one in before.items() if one.group not in expired}
        assert series.keys() <= kept.keys() | written
        assert {key: one for key, one in series.items() if key not in written} == {
            key: one for key, one in kept.items() if key not in written
        }
