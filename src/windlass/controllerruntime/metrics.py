"""What a controller's work queue is measured by: names and meanings of client-go, so that dashboards move over."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cache
from typing import Final

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram

BUCKETS: Final = (1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0, 100.0, 1000.0)
"""Seconds: from a key that nobody waits for to a handler that hangs."""


class QueueMetrics:
    """The metrics of all work queues that share a registry; the label ``name`` is the controller's.

    | metric | type | says |
    |---|---|---|
    | ``workqueue_depth`` | gauge | keys that wait |
    | ``workqueue_adds_total`` | counter | keys taken in; one that waits already is not counted |
    | ``workqueue_retries_total`` | counter | keys that come again after an error |
    | ``workqueue_queue_duration_seconds`` | histogram | how long a key waited |
    | ``workqueue_work_duration_seconds`` | histogram | how long the handler took |
    | ``workqueue_unfinished_work_seconds`` | gauge | seconds of all handlers that run, added up |
    | ``workqueue_longest_running_processor_seconds`` | gauge | seconds of the handler that runs longest |

    Args:
        registry: where the metrics are registered.

    Raises:
        ValueError: the registry has such metrics already: share them.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        label = ("name",)
        self.depth = Gauge("workqueue_depth", "Keys that wait", label, registry=registry)
        self.adds = Counter("workqueue_adds_total", "Keys taken in", label, registry=registry)
        self.retries = Counter(
            "workqueue_retries_total", "Keys that come again after an error", label, registry=registry
        )
        self.waited = Histogram(
            "workqueue_queue_duration_seconds", "How long keys waited", label, buckets=BUCKETS, registry=registry
        )
        self.worked = Histogram(
            "workqueue_work_duration_seconds", "How long handlers took", label, buckets=BUCKETS, registry=registry
        )
        self.unfinished = Gauge(
            "workqueue_unfinished_work_seconds", "Seconds of all running handlers", label, registry=registry
        )
        self.longest = Gauge(
            "workqueue_longest_running_processor_seconds", "Seconds of the oldest handler", label, registry=registry
        )


@cache
def default_metrics() -> QueueMetrics:
    """Return the metrics in prometheus_client's default registry, made when they are first asked for."""
    return QueueMetrics(REGISTRY)


class QueueMeter:
    """What one queue tells: a `windlass.controllerruntime.workqueue.Observer`.

    Args:
        name: of the controller.
        metrics: where to count; `default_metrics` if not given.
        clock: monotonic seconds.
    """

    def __init__(
        self, name: str, metrics: QueueMetrics | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        shared = metrics or default_metrics()
        self._clock = clock
        self._waiting: dict[object, float] = {}
        self._working: dict[object, float] = {}
        self._adds = shared.adds.labels(name)
        self._retries = shared.retries.labels(name)
        self._waited = shared.waited.labels(name)
        self._worked = shared.worked.labels(name)
        shared.depth.labels(name).set_function(lambda: len(self._waiting))
        shared.unfinished.labels(name).set_function(lambda: sum(self._ages()))
        shared.longest.labels(name).set_function(lambda: max(self._ages(), default=0.0))

    def added(self, key: object) -> None:
        """Take note that a key was taken in."""
        self._adds.inc()
        self._waiting[key] = self._clock()

    def retried(self) -> None:
        """Take note that a key will come again after an error."""
        self._retries.inc()

    def taken(self, key: object) -> None:
        """Take note that somebody works on a key."""
        now = self._clock()
        self._waited.observe(now - self._waiting.pop(key, now))
        self._working[key] = now

    def done(self, key: object) -> None:
        """Take note that nobody works on a key any more."""
        now = self._clock()
        self._worked.observe(now - self._working.pop(key, now))

    def dropped(self) -> None:
        """Take note that nothing waits any more."""
        self._waiting.clear()

    def _ages(self) -> list[float]:
        # Asked for by the thread that shows the metrics.
        now = self._clock()
        return [now - began for began in tuple(self._working.values())]
