"""What a framework measures, under the names of operatorkit so that dashboards move over."""

from __future__ import annotations

import re
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import cache
from typing import Final

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram, Metric
from prometheus_client.registry import Collector

from windlass.framework.errors import InvalidConfigError
from windlass.framework.resource import Resource
from windlass.framework.wrapping import Operation, wrap

PROMETHEUS_NAMESPACE: Final = "operatorkit"
PROMETHEUS_SUBSYSTEM: Final = "framework"
INFORMER_SUBSYSTEM: Final = "informer"

OPERATIONS: Final = {
    Operation.GET_CURRENT_STATE: "GetCurrentState",
    Operation.GET_DESIRED_STATE: "GetDesiredState",
    Operation.NEW_UPDATE_PATCH: "NewUpdatePatch",
    Operation.NEW_DELETE_PATCH: "NewDeletePatch",
    Operation.APPLY_CREATE_CHANGE: "ApplyCreatePatch",
    Operation.APPLY_DELETE_CHANGE: "ApplyDeletePatch",
    Operation.APPLY_UPDATE_CHANGE: "ApplyUpdatePatch",
    Operation.ENSURE_CREATED: "EnsureCreated",
    Operation.ENSURE_DELETED: "EnsureDeleted",
}
"""Values of the label ``operation``; the apply steps are called after the patch, as upstream's dashboards know them."""

_LABELS: Final = ("service", "resource", "operation")


class FrameworkMetrics(Collector):
    """The metrics of all frameworks and informers that share a registry.

    | metric | type | labels |
    |---|---|---|
    | ``operatorkit_framework_operation_total`` | counter, raised before the call | service, resource, operation |
    | ``operatorkit_framework_operation_error_total`` | counter | service, resource, operation |
    | ``operatorkit_framework_operation`` | histogram of seconds, failures too | service, resource, operation |
    | ``operatorkit_framework_event`` | histogram, seconds | event (delete, update) |
    | ``operatorkit_informer_watch_event_total`` | counter | kind (create, update, delete, error) |
    | ``operatorkit_informer_watcher_close_total`` | counter | |
    | ``operatorkit_informer_cache_size`` | gauge, objects | |

    Args:
        registry: where the metrics are registered.

    Raises:
        ValueError: the registry has such metrics already: share them.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        # Counter and histogram share a base name, which a registry refuses of two collectors: this is one collector.
        framework, informer = (f"{PROMETHEUS_NAMESPACE}_{one}" for one in (PROMETHEUS_SUBSYSTEM, INFORMER_SUBSYSTEM))
        self.operations = Counter(f"{framework}_operation_total", "Operations begun", _LABELS, registry=None)
        self.operation_errors = Counter(
            f"{framework}_operation_error_total", "Operations that failed", _LABELS, registry=None
        )
        self.operation_seconds = Histogram(
            f"{framework}_operation", "Seconds that operations took", _LABELS, registry=None
        )
        self.event_seconds = Histogram(f"{framework}_event", "Seconds that events took", ("event",), registry=None)
        self.watch_events = Counter(f"{informer}_watch_event_total", "Events of watches", ("kind",), registry=None)
        self.watcher_closes = Counter(f"{informer}_watcher_close_total", "Watches that ended", registry=None)
        self.cache_size = Gauge(f"{informer}_cache_size", "Objects in the caches of informers", registry=None)
        registry.register(self)

    def collect(self) -> Iterable[Metric]:
        """Return all metrics, without the ``_created`` samples that counter and histogram would both call alike."""
        for one in (
            self.operations,
            self.operation_errors,
            self.operation_seconds,
            self.event_seconds,
            self.watch_events,
            self.watcher_closes,
            self.cache_size,
        ):
            for family in one.collect():
                family.samples = [sample for sample in family.samples if not sample.name.endswith("_created")]
                yield family


@cache
def default_metrics() -> FrameworkMetrics:
    """Return the metrics in prometheus_client's default registry, made when they are first asked for."""
    return FrameworkMetrics(REGISTRY)


def service_name(name: str) -> str:
    """Return a name in camel case: runs of letters and digits joined, all but the first begun with a capital."""
    first, *others = re.findall(r"[A-Za-z0-9]+", name) or [""]
    return first + "".join(run[0].upper() + run[1:] for run in others)


def wrap_with_metrics(
    resources: Sequence[Resource], *, name: str, metrics: FrameworkMetrics | None = None
) -> list[Resource]:
    """Count and time every operation; see `windlass.framework.wrapping.wrap` for what is changed in place.

    Wrapped after `wrap_with_retry` an operation counts once, however often it is tried; wrapped before, every try
    counts.

    Args:
        resources: of one set.
        name: of the operator; in camel case the label ``service``.
        metrics: where to count; `default_metrics` if not given.

    Returns:
        The resources in their order.

    Raises:
        InvalidConfigError: ``name`` is empty.
    """
    if not name:
        raise InvalidConfigError("the metrics wrapper needs a name")
    shared = metrics or default_metrics()
    service = service_name(name)
    return wrap(resources, lambda resource: _Measuring(service, resource.name, shared))


class _Measuring:
    """An `Around` that counts."""

    def __init__(self, service: str, resource: str, metrics: FrameworkMetrics) -> None:
        self._labels = (service, resource)
        self._metrics = metrics

    async def __call__[T](self, operation: Operation, call: Callable[[], Awaitable[T]]) -> T:
        labels = (*self._labels, OPERATIONS[operation])
        self._metrics.operations.labels(*labels).inc()
        began = time.monotonic()
        try:
            return await call()
        except Exception:
            self._metrics.operation_errors.labels(*labels).inc()
            raise
        finally:
            self._metrics.operation_seconds.labels(*labels).observe(time.monotonic() - began)
