"""Metrics of hooks as Prometheus reads them."""

from __future__ import annotations

from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from windlass.adapters.metrics.hooks import HookMetricsCollector
from windlass.domain.errors import PermanentError, Reason
from windlass.domain.hooks.metrics import parse_samples
from windlass.domain.ids import Kind, PackageKey

WEB = PackageKey(namespace="prod", name="web")
INGRESS = PackageKey(kind=Kind.MODULE, name="ingress")


@pytest.fixture
def metrics() -> HookMetricsCollector:
    return HookMetricsCollector()


def page(metrics: HookMetricsCollector) -> str:
    registry = CollectorRegistry()
    registry.register(metrics)
    return generate_latest(registry).decode()


def record(metrics: HookMetricsCollector, key: PackageKey, *items: dict[str, Any], hook: str = "hooks/a.sh") -> None:
    metrics.record(key, hook, parse_samples(items))


def test_names_are_those_the_hooks_gave(metrics: HookMetricsCollector) -> None:
    record(
        metrics,
        WEB,
        {"name": "runs", "add": 2, "labels": {"kind": 'a "quoted" one'}},
        {"name": "seen_total", "add": 1},
        {"name": "size", "set": 0.5},
        {"name": "took", "action": "observe", "value": 3, "buckets": [1, 5]},
    )
    text = page(metrics)
    families = {family.name: family for family in text_string_to_metric_families(text)}
    assert {name: family.type for name, family in families.items()} == {
        "runs": "unknown",
        "seen": "counter",
        "size": "gauge",
        "took": "histogram",
    }
    assert 'runs{hook="hooks/a.sh",kind="a \\"quoted\\" one",package="prod.web"} 2.0' in text
    assert 'seen_total{hook="hooks/a.sh",package="prod.web"} 1.0' in text
    buckets = {one.labels["le"]: one.value for one in families["took"].samples if one.name == "took_bucket"}
    assert buckets == {"1.0": 0, "5.0": 1, "+Inf": 1}


def test_own_labels_win_and_modules_have_one_more(metrics: HookMetricsCollector) -> None:
    record(
        metrics, INGRESS, {"name": "size", "set": 1, "labels": {"hook": "mine", "package": "mine", "module": "mine"}}
    )
    assert 'size{hook="hooks/a.sh",module="ingress",package="ingress"} 1.0' in page(metrics)


def test_one_name_has_one_type_for_all_hooks(metrics: HookMetricsCollector) -> None:
    record(metrics, WEB, {"name": "size", "set": 1})
    with pytest.raises(
        PermanentError, match=r"size is a gauge of hooks/a\.sh in prod\.web already, not a counter"
    ) as told:
        record(metrics, INGRESS, {"name": "other", "set": 1}, {"name": "size", "add": 1}, hook="hooks/b.sh")
    assert told.value.reason is Reason.METRICS_REJECTED
    assert "other" not in page(metrics)


def test_a_package_that_is_gone_leaves_no_series(metrics: HookMetricsCollector) -> None:
    record(metrics, WEB, {"name": "size", "set": 1})
    record(metrics, INGRESS, {"name": "size", "set": 1})
    metrics.forget(WEB)
    assert "prod.web" not in page(metrics)
    assert "ingress" in page(metrics)
    metrics.forget(INGRESS)
    record(metrics, WEB, {"name": "size", "add": 1})
