"""What a worker or watcher process counts and measures, for Prometheus. `docs/operations.md` lists every metric."""

from __future__ import annotations

import time
from collections import Counter as Tally
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final, override

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from temporalio import activity
from temporalio.exceptions import ApplicationError
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput, Interceptor

from windlass import __version__
from windlass.contracts.steps import DriftResult, ReleaseResult, SettingsRequest

STEP_BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800)
"""Seconds: from a local activity of milliseconds to a rollout that takes half an hour."""

SIGNAL_BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60)
CACHE_AGE: Final = 60.0
"""Seconds for which the size of the package cache is not measured again: it takes a walk over its files."""


class Metrics:
    """The metrics of one process.

    Attributes:
        registry: what ``/metrics`` shows; collectors of others are registered here.
    """

    def __init__(self, installation: str) -> None:
        registry = CollectorRegistry()
        self.registry = registry
        build = Gauge(
            "windlass_build_info", "Version and installation.", ["version", "installation"], registry=registry
        )
        build.labels(__version__, installation).set(1)
        self.steps = Histogram(
            "windlass_step_duration_seconds",
            "How long activities took, by how they ended (ok, failed, cancelled).",
            ["activity", "outcome"],
            buckets=STEP_BUCKETS,
            registry=registry,
        )
        self.failures = Counter(
            "windlass_step_failures_total",
            "Activities that failed, by reason.",
            ["activity", "reason"],
            registry=registry,
        )
        self.running = Gauge("windlass_steps_running", "Activities that run now.", ["activity"], registry=registry)
        self.releases = Counter(
            "windlass_helm_operations_total",
            "Helm operations that ended well, by what they did.",
            ["action"],
            registry=registry,
        )
        self.rollbacks = Counter(
            "windlass_rollbacks_total", "Good releases whose settings were brought back.", registry=registry
        )
        self.corrections = Counter(
            "windlass_drift_corrections_total", "Differences from a release that were put right.", registry=registry
        )
        self.shard = Gauge(
            "windlass_shard_served", "1 while this process serves the shard.", ["shard"], registry=registry
        )
        self.takeovers = Counter(
            "windlass_shards_taken_over_total", "Shards taken from lost processes.", registry=registry
        )
        self.interruptions = Counter(
            "windlass_interruptions_total",
            "How often a part of this process lost its Lease or its cluster, and began anew.",
            ["part"],
            registry=registry,
        )
        self.package_faults = Counter(
            "windlass_package_faults_total",
            "Failures of work for one package beside its workflow, by kind of work; it is tried again.",
            ["part"],
            registry=registry,
        )
        self.refused_payloads = Counter(
            "windlass_payloads_refused_total",
            "Payloads from Temporal that were not encoded or not for their workflow; replays count again.",
            registry=registry,
        )
        self.watching = Gauge(
            "windlass_watcher_active", "1 while this process holds the watcher's Lease.", registry=registry
        )
        self.signal_delay = Histogram(
            "windlass_watcher_lag_seconds",
            "Seconds from a change that was noticed until Temporal has taken its signal.",
            buckets=SIGNAL_BUCKETS,
            registry=registry,
        )
        self.signals = Counter(
            "windlass_watcher_signals_total",
            "Signals to lifecycles, by outcome (sent, failed).",
            ["outcome"],
            registry=registry,
        )
        self.signals_waiting = Gauge("windlass_watcher_signals_waiting", "Signals that wait.", registry=registry)

    def fault(self, part: str) -> None:
        """Count a failure of work beside the workflows."""
        self.package_faults.labels(part).inc()


class StepMetrics(Interceptor):
    """Measures every activity. Goes outside of whatever turns failures into Temporal's form."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    @override
    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:
        return _Measured(next, self._metrics)


class _Measured(ActivityInboundInterceptor):
    def __init__(self, following: ActivityInboundInterceptor, metrics: Metrics) -> None:
        super().__init__(following)
        self._metrics = metrics

    @override
    async def execute_activity(self, input: ExecuteActivityInput) -> Any:
        name = activity.info().activity_type
        metrics, outcome, began = self._metrics, "cancelled", time.monotonic()
        metrics.running.labels(name).inc()
        try:
            result = await super().execute_activity(input)
            outcome = "ok"
        except ApplicationError as error:
            outcome = "failed"
            metrics.failures.labels(name, error.type or "Internal").inc()
            raise
        finally:
            metrics.running.labels(name).dec()
            metrics.steps.labels(name, outcome).observe(time.monotonic() - began)
        request = input.args[0] if input.args else None
        if isinstance(result, ReleaseResult):
            metrics.releases.labels(result.action).inc()
        elif isinstance(result, DriftResult):
            metrics.corrections.inc(len(result.corrected))
        elif isinstance(request, SettingsRequest) and request.restore:
            metrics.rollbacks.inc()
        return result


class PackagesCollector(Collector):
    """Counts the packages that the watcher knows, when asked.

    Args:
        known: yields kind, phase and readiness of each; nothing while this process does not watch.
    """

    def __init__(self, known: Callable[[], Iterable[tuple[str, str, bool]]]) -> None:
        self._known = known

    @override
    def collect(self) -> Iterator[Metric]:
        family = GaugeMetricFamily(
            "windlass_packages", "Packages by phase and readiness.", labels=["kind", "phase", "ready"]
        )
        for (kind, phase, ready), number in sorted(Tally(self._known()).items()):
            family.add_metric([kind, phase, str(ready).lower()], number)
        yield family


class CacheCollector(Collector):
    """Measures the package cache, when asked, at most once in `CACHE_AGE`."""

    def __init__(self, folder: Path, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._folder = folder
        self._clock = clock
        self._measured: tuple[float, int] | None = None

    @override
    def collect(self) -> Iterator[Metric]:
        now = self._clock()
        if self._measured is None or now - self._measured[0] > CACHE_AGE:
            self._measured = (now, _size(self._folder))
        yield GaugeMetricFamily("windlass_package_cache_bytes", "Disk that package contents take.", self._measured[1])


def _size(folder: Path) -> int:
    total = 0
    for parent, _, files in folder.walk():
        for name in files:
            try:
                total += (parent / name).lstat().st_size
            except FileNotFoundError:
                continue  # swept meanwhile
    return total
