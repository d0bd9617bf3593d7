"""The metrics of the work queue, on a clock that only moves when told."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry

from windlass.controllerruntime import QueueMetrics, WorkQueue
from windlass.controllerruntime.metrics import QueueMeter


class Measured:
    def __init__(self) -> None:
        self.now = 100.0
        self.registry = CollectorRegistry()
        meter = QueueMeter("routes", QueueMetrics(self.registry), lambda: self.now)
        self.queue: WorkQueue[str] = WorkQueue(lambda: self.now, observer=meter)

    def value(self, name: str) -> float | None:
        return self.registry.get_sample_value(f"workqueue_{name}", {"name": "routes"})


@pytest.fixture
def measured() -> Measured:
    return Measured()


def test_waits_and_work_are_timed(measured: Measured) -> None:
    measured.queue.add("a")
    measured.queue.add("a")
    measured.queue.add("b")
    assert (measured.value("adds_total"), measured.value("depth")) == (2, 2)
    measured.now += 3
    assert measured.queue.get() == "a"
    assert (measured.value("depth"), measured.value("queue_duration_seconds_sum")) == (1, 3)
    measured.now += 5
    measured.queue.get()
    measured.now += 1
    assert (measured.value("unfinished_work_seconds"), measured.value("longest_running_processor_seconds")) == (7, 6)
    measured.queue.done("a")
    assert (measured.value("work_duration_seconds_sum"), measured.value("work_duration_seconds_count")) == (6, 1)
    assert measured.value("longest_running_processor_seconds") == 1


def test_a_key_that_comes_again_is_counted_when_it_is_taken_in(measured: Measured) -> None:
    measured.queue.add("a")
    measured.queue.get()
    measured.queue.add("a")  # while it is worked on
    assert (measured.value("adds_total"), measured.value("depth")) == (2, 1)
    measured.queue.add_rate_limited("a")
    measured.queue.done("a")
    assert measured.value("retries_total") == 1
    measured.queue.get()
    measured.queue.done("a")
    measured.queue.add_after("a", 5)
    assert (measured.value("adds_total"), measured.value("depth")) == (2, 0)
    measured.now += 5
    assert len(measured.queue) == 1
    assert (measured.value("adds_total"), measured.value("depth")) == (3, 1)


def test_what_is_dropped_at_the_end_waits_no_more(measured: Measured) -> None:
    measured.queue.add("a")
    measured.queue.shut_down()
    assert measured.value("depth") == 0
