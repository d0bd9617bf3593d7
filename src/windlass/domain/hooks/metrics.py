"""Metrics that hooks write to ``METRICS_PATH``: read into types, and folded into the series a hook has so far.

The items and their meaning are those of the hook protocol (reference: hooks.md section 7), with its documentation where
the code has drifted from it: series without a group stay until the hook writes them anew, those of a group last until
the hook next writes something of that group. Names and labels follow Prometheus (https://prometheus.io/docs/concepts/
data_model): what it would refuse is refused here, where the hook's author sees it.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final

from windlass.domain.text.documents import is_list, is_object

MAX_SERIES: Final = 1000
"""Series of one hook: a hook with more of them has put something unbounded, such as an id, into a label."""

MAX_LABEL: Final = 1024
"""Characters of one label's value."""

RESERVED: Final = ("windlass_", "temporal_", "process_", "python_")
"""Beginnings of names that are Windlass's own."""

_NAME: Final = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_LABEL: Final = re.compile(r"(?!__)[a-zA-Z_][a-zA-Z0-9_]*")


class MetricError(ValueError):
    """An item is no metric, or does not go with the others; the text names field and problem, never a label's value."""


class Action(StrEnum):
    """What a sample does to its series; values are those of the protocol."""

    ADD = "add"
    SET = "set"
    OBSERVE = "observe"
    EXPIRE = "expire"


class SeriesType(StrEnum):
    """Types of Prometheus."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


_TYPES: Final = {Action.ADD: SeriesType.COUNTER, Action.SET: SeriesType.GAUGE, Action.OBSERVE: SeriesType.HISTOGRAM}

type Labels = tuple[tuple[str, str], ...]
"""Labels in the order of their names."""


@dataclass(frozen=True, kw_only=True)
class Sample:
    """One item of a metrics file. `Action.EXPIRE` has a group only, and none means the series without a group."""

    action: Action
    group: str = ""
    name: str = ""
    labels: Labels = ()
    value: float = 0.0
    buckets: tuple[float, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Series:
    """One series: ``value`` is a counter's or gauge's, or a histogram's sum.

    ``buckets`` are the upper bounds of a histogram, ascending, and ``counts`` how many observations fell between one
    and the next, with those beyond the last bound at the end.
    """

    type: SeriesType
    group: str = ""
    value: float = 0.0
    buckets: tuple[float, ...] = ()
    counts: tuple[int, ...] = ()


type SeriesOfHook = Mapping[tuple[str, Labels], Series]
"""All series of one hook by name and labels."""

NO_SERIES: Final[SeriesOfHook] = MappingProxyType({})


def parse_samples(items: Sequence[Any]) -> tuple[Sample, ...]:
    """Read the items of a metrics file. Items with an action that is not known are passed over, as the protocol has it.

    Raises:
        MetricError: names the first bad item by its place.
    """
    samples: list[Sample] = []
    for place, item in enumerate(items, start=1):
        try:
            sample = _sample(item)
        except MetricError as error:
            raise MetricError(f"item {place}: {error}") from None
        if sample is not None:
            samples.append(sample)
    return tuple(samples)


def folded(before: SeriesOfHook, samples: Iterable[Sample]) -> SeriesOfHook:
    """Return the series of a hook after a run that wrote ``samples``.

    Every group that is named loses what it had before the run.

    Raises:
        MetricError: one name is given two types, or there are more than `MAX_SERIES` series.
    """
    taken = tuple(samples)
    groups = {sample.group for sample in taken if sample.group or sample.action is Action.EXPIRE}
    series = {key: one for key, one in before.items() if one.group not in groups}
    types = {name: one.type for (name, _), one in series.items()}
    for sample in taken:
        if sample.action is Action.EXPIRE:
            continue
        wanted = _TYPES[sample.action]
        if types.setdefault(sample.name, wanted) is not wanted:
            raise MetricError(f"name: {sample.name} is a {types[sample.name].value} already, not a {wanted.value}")
        key = (sample.name, sample.labels)
        series[key] = _after(series.get(key), sample, wanted)
        if len(series) > MAX_SERIES:
            raise MetricError(f"more than {MAX_SERIES} series: labels are for what has few values")
    return MappingProxyType(series)


def _after(before: Series | None, sample: Sample, wanted: SeriesType) -> Series:
    if before is None or before.group != sample.group or before.buckets != sample.buckets:
        counts = (0,) * (len(sample.buckets) + 1) if wanted is SeriesType.HISTOGRAM else ()
        before = Series(type=wanted, group=sample.group, buckets=sample.buckets, counts=counts)
    match sample.action:
        case Action.SET:
            return replace(before, value=sample.value)
        case Action.OBSERVE:
            at = bisect_left(before.buckets, sample.value)
            counts = (*before.counts[:at], before.counts[at] + 1, *before.counts[at + 1 :])
            return replace(before, value=before.value + sample.value, counts=counts)
        case _:
            return replace(before, value=before.value + sample.value)


def _sample(item: Any) -> Sample | None:
    if not is_object(item):
        raise MetricError("expected an object with name and action")
    if "add" in item and "set" in item:
        raise MetricError("add and set exclude each other")
    shortcut = next((key for key in ("add", "set") if key in item), None)
    given = shortcut or item.get("action")
    if not isinstance(given, str):
        raise MetricError("action: expected text")
    if given not in set(Action):
        return None
    action = Action(given)
    group = item.get("group", "")
    if not isinstance(group, str):
        raise MetricError("group: expected text")
    if action is Action.EXPIRE:
        return Sample(action=action, group=group)
    field = shortcut or "value"
    value = _number(item.get(field), field)
    if action is Action.ADD and value < 0:
        raise MetricError(f"{field}: a counter cannot go down, expected a number of at least 0")
    return Sample(
        action=action,
        group=group,
        name=_name(item.get("name")),
        labels=_labels(item.get("labels")),
        value=value,
        buckets=_buckets(item.get("buckets")) if action is Action.OBSERVE else (),
    )


def _name(name: Any) -> str:
    if not isinstance(name, str):
        raise MetricError("name: expected text")
    if not _NAME.fullmatch(name):
        raise MetricError("name: expected letters, digits, '_' and ':', not beginning with a digit")
    if name.startswith(RESERVED):
        raise MetricError(f"name: {name} begins like Windlass's own metrics ({', '.join(RESERVED)})")
    return name


def _labels(labels: Any) -> Labels:
    if labels is None:
        return ()
    if not is_object(labels) or not all(isinstance(value, str) for value in labels.values()):
        raise MetricError("labels: expected an object with text values")
    for name, value in labels.items():
        if not _LABEL.fullmatch(name):
            allowed = "letters, digits and '_', not beginning with a digit or '__'"
            raise MetricError(f"labels: {name[:80]}: expected {allowed}")
        if len(value) > MAX_LABEL:
            raise MetricError(f"labels: {name}: expected at most {MAX_LABEL} characters")
    return tuple(sorted(labels.items()))


def _buckets(buckets: Any) -> tuple[float, ...]:
    if not is_list(buckets) or not buckets:
        raise MetricError("buckets: expected a list of numbers")
    return tuple(sorted({_number(bound, "buckets") for bound in buckets}))


def _number(value: Any, field: str) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise MetricError(f"{field}: expected a number")
    if not math.isfinite(value):
        raise MetricError(f"{field}: expected a finite number")
    return float(value)
