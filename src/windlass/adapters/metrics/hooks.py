"""`ports.HookMetrics`, and the collector by which Prometheus reads them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from windlass.domain.errors import Actor, PermanentError, Reason
from windlass.domain.hooks.metrics import (
    NO_SERIES,
    MetricError,
    Sample,
    Series,
    SeriesOfHook,
    SeriesType,
    folded,
)
from windlass.domain.ids import Kind, PackageKey

_TOTAL: Final = "_total"


class HookMetricsCollector(Collector):
    """Keeps the series of hooks, and shows them under the names the hooks gave them.

    Every series gets the labels ``package`` and ``hook`` beside its own, that of a Module's hook ``module`` too.
    Register it with a `prometheus_client.CollectorRegistry`.
    """

    def __init__(self) -> None:
        self._series: dict[tuple[PackageKey, str], SeriesOfHook] = {}
        self._types: dict[tuple[PackageKey, str], dict[str, SeriesType]] = {}

    def record(self, key: PackageKey, hook: str, samples: Sequence[Sample]) -> None:
        """Take over what one run wrote; see `ports.HookMetrics`."""
        if not samples:
            return
        try:
            after = folded(self._series.get((key, hook), NO_SERIES), samples)
            types = {name: series.type for (name, _), series in after.items()}
            self._check_types(key, hook, types)
        except MetricError as error:
            raise PermanentError(
                Reason.METRICS_REJECTED,
                f"METRICS_PATH: {error}",
                hint="correct what the hook writes; none of its metrics were taken over",
                actor=Actor.AUTHOR,
            ) from None
        self._series[key, hook] = after
        self._types[key, hook] = types

    def forget(self, key: PackageKey) -> None:
        """Drop the series of a package; see `ports.HookMetrics`."""
        for known in [known for known in self._series if known[0] == key]:
            del self._series[known], self._types[known]

    def describe(self) -> Iterator[Metric]:
        """Name no metrics in advance: hooks decide."""
        yield from ()

    def collect(self) -> Iterator[Metric]:
        """Yield one family for each name."""
        families: dict[str, Metric] = {}
        # Scrapes come from another thread: the dictionary is copied in one go, its values never change.
        for (key, hook), series_of_hook in list(self._series.items()):
            own = {"package": key.package_id, "hook": hook}
            if key.kind is Kind.MODULE:
                own["module"] = key.name
            for (name, labels), series in series_of_hook.items():
                family = families.get(name)
                if family is None:
                    family = families[name] = _family(name, series.type)
                _add(family, name, dict(labels) | own, series)
        yield from families.values()

    def _check_types(self, key: PackageKey, hook: str, types: Mapping[str, SeriesType]) -> None:
        """One name has one type for all hooks: Prometheus takes nothing from a page where that is not so."""
        for known, others in self._types.items():
            if known == (key, hook):
                continue
            for name in types.keys() & others.keys():
                if types[name] is not others[name]:
                    raise MetricError(
                        f"name: {name} is a {others[name].value} of {known[1]} in {known[0].package_id} already, "
                        f"not a {types[name].value}"
                    )


def _family(name: str, type_: SeriesType) -> Metric:
    text = "Written by hooks of packages."
    if type_ is not SeriesType.COUNTER:
        return Metric(name, text, type_.value)
    # The library appends `_total` to the name of every counter, and hooks' names are not to be changed.
    if name.endswith(_TOTAL):
        return Metric(name.removesuffix(_TOTAL), text, type_.value)
    return Metric(name, text, "unknown")


def _add(family: Metric, name: str, labels: dict[str, str], series: Series) -> None:
    if series.type is not SeriesType.HISTOGRAM:
        family.add_sample(name, labels, series.value)
        return
    total = 0
    for bound, count in zip((*map(repr, series.buckets), "+Inf"), series.counts, strict=True):
        total += count
        family.add_sample(f"{name}_bucket", labels | {"le": bound}, total)
    family.add_sample(f"{name}_sum", labels, series.value)
    family.add_sample(f"{name}_count", labels, total)
