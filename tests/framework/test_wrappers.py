"""Retry and metrics wrappers, and looking below them (frameworks.md 1.10 to 1.12)."""

from __future__ import annotations

from typing import Any

import pytest
from framework.recording import LOGGER, Boom, Ops, Plain, crud, obj
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.openmetrics import exposition
from structlog.testing import capture_logs

from windlass.framework import (
    PROMETHEUS_NAMESPACE,
    PROMETHEUS_SUBSYSTEM,
    CRUDResource,
    ExponentialBackOff,
    FrameworkMetrics,
    InvalidConfigError,
    LoopDetectedError,
    process_delete,
    process_update,
    unwrapped,
    wrap_with_metrics,
    wrap_with_retry,
)
from windlass.framework.metrics import service_name


def at_once(retries: int = 3) -> ExponentialBackOff:
    return ExponentialBackOff(initial=0, max_retries=retries)


class Failing:
    def __init__(self, times: int) -> None:
        self.left = times

    def __call__(self) -> None:
        if self.left:
            self.left -= 1
            raise Boom


STEPS = [
    "get_current_state",
    "get_desired_state",
    "new_update_patch",
    "apply_create_change",
    "apply_delete_change",
    "apply_update_change",
]


class TestRetry:
    @pytest.mark.parametrize("step", STEPS)
    async def test_a_step_is_tried_again_alone(self, step: str) -> None:
        calls: list[str] = []
        wrapped = wrap_with_retry([crud("a", calls, {step: Failing(2)})], logger=LOGGER, backoff_factory=at_once)
        await process_update(obj(), wrapped)
        assert calls == [f"a.{one}" for one in STEPS for _ in range(3 if one == step else 1)]

    async def test_every_step_begins_with_a_full_budget(self) -> None:
        calls: list[str] = []
        actions = {step: Failing(3) for step in STEPS}
        wrapped = wrap_with_retry([crud("a", calls, actions)], logger=LOGGER, backoff_factory=at_once)
        await process_update(obj(), wrapped)
        assert len(calls) == 4 * len(STEPS)

    @pytest.mark.parametrize(("process", "method"), [(process_update, "created"), (process_delete, "deleted")])
    async def test_a_plain_resource_is_tried_again_whole(self, process: Any, method: str) -> None:
        calls: list[str] = []
        plain = Plain("a", calls, {f"ensure_{method}": Failing(1)})
        (wrapped,) = wrap_with_retry([plain], logger=LOGGER, backoff_factory=at_once)
        await process(obj(), [wrapped])
        assert calls == [f"a.ensure_{method}"] * 2
        assert wrapped.name == "a"
        assert unwrapped(wrapped) is plain

    async def test_the_last_error_comes_out(self) -> None:
        calls: list[str] = []
        wrapped = wrap_with_retry(
            [Plain("a", calls, {"ensure_created": Failing(99)})], logger=LOGGER, backoff_factory=at_once
        )
        with pytest.raises(Boom):
            await process_update(obj(), wrapped)
        assert len(calls) == 4

    async def test_warnings_name_resource_and_step(self) -> None:
        with capture_logs() as logs:
            wrapped = wrap_with_retry(
                [crud("a", [], {"apply_create_change": Failing(1)})], logger=LOGGER, backoff_factory=at_once
            )
            await process_update(obj(), wrapped)
        assert [(line["log_level"], line["underlying_resource"], line["function"]) for line in logs] == [
            ("warning", "a", "apply_create_change")
        ]

    def test_the_steps_are_replaced_in_place(self) -> None:
        one = crud("a", [])
        before = one.ops
        assert wrap_with_retry([one], logger=LOGGER) == [one]
        assert one.ops is not before
        assert one.name == "a"

    def test_it_needs_a_logger(self) -> None:
        with pytest.raises(InvalidConfigError, match="logger"):
            wrap_with_retry([], logger=None)


class TestMetrics:
    def setup_method(self) -> None:
        self.registry = CollectorRegistry()
        self.metrics = FrameworkMetrics(self.registry)

    def value(self, name: str, operation: str, resource: str = "a") -> float | None:
        labels = {"service": "tenantOperator", "resource": resource, "operation": operation}
        return self.registry.get_sample_value(f"operatorkit_framework_{name}", labels)

    async def test_crud_operations_under_the_names_of_the_contract(self) -> None:
        assert (PROMETHEUS_NAMESPACE, PROMETHEUS_SUBSYSTEM) == ("operatorkit", "framework")
        (wrapped,) = wrap_with_metrics([crud("a", [])], name="tenant-operator", metrics=self.metrics)
        await process_update(obj(), [wrapped])
        await process_delete(obj(), [wrapped])
        expected = {
            "GetCurrentState": 2,
            "GetDesiredState": 2,
            "NewUpdatePatch": 1,
            "NewDeletePatch": 1,
            "ApplyCreatePatch": 2,
            "ApplyDeletePatch": 2,
            "ApplyUpdatePatch": 2,
        }
        for operation, count in expected.items():
            assert self.value("operation_total", operation) == count
            assert self.value("operation_count", operation) == count
            assert self.value("operation_error_total", operation) is None

    async def test_errors_are_counted_and_timed(self) -> None:
        plain = Plain("a", [], {"ensure_deleted": Failing(1)})
        wrapped = wrap_with_metrics([plain], name="tenant-operator", metrics=self.metrics)
        with pytest.raises(Boom):
            await process_delete(obj(), wrapped)
        await process_update(obj(), wrapped)
        assert self.value("operation_total", "EnsureDeleted") == 1
        assert self.value("operation_error_total", "EnsureDeleted") == 1
        assert self.value("operation_count", "EnsureDeleted") == 1
        assert self.value("operation_error_total", "EnsureCreated") is None

    async def test_steps_that_are_left_out_count_nothing(self) -> None:
        one = CRUDResource(logger=LOGGER, ops=Ops("a", [], parts={}))
        await process_update(obj(), wrap_with_metrics([one], name="tenant-operator", metrics=self.metrics))
        assert self.value("operation_total", "ApplyCreatePatch") is None

    async def test_wrapped_twice_counts_twice(self) -> None:
        once = wrap_with_metrics([crud("a", [])], name="tenant-operator", metrics=self.metrics)
        twice = wrap_with_metrics(once, name="tenant-operator", metrics=self.metrics)
        await process_update(obj(), twice)
        assert self.value("operation_total", "GetCurrentState") == 2

    @pytest.mark.parametrize(("metrics_last", "counted"), [(True, 1), (False, 3)])
    async def test_what_is_put_around_last_is_outermost(self, metrics_last: bool, counted: int) -> None:
        resources: list[Any] = [crud("a", [], {"get_current_state": Failing(2)}), Plain("b", [])]
        for measured in (not metrics_last, metrics_last):
            if measured:
                resources = wrap_with_metrics(resources, name="tenant-operator", metrics=self.metrics)
            else:
                resources = wrap_with_retry(resources, logger=LOGGER, backoff_factory=at_once)
        await process_update(obj(), resources)
        assert self.value("operation_total", "GetCurrentState") == counted
        assert self.value("operation_total", "EnsureCreated", "b") == 1

    async def test_the_text_is_what_prometheus_reads(self) -> None:
        await process_update(obj(), wrap_with_metrics([Plain("a", [])], name="tenant-operator", metrics=self.metrics))
        text = generate_latest(self.registry).decode()
        series = [line.rpartition(" ")[0] for line in text.splitlines() if not line.startswith("#")]
        assert len(series) == len(set(series))
        assert "# TYPE operatorkit_framework_operation_total counter" in text
        assert "# TYPE operatorkit_framework_operation histogram" in text
        assert exposition.generate_latest(self.registry)

    def test_two_of_them_cannot_share_a_registry(self) -> None:
        registry = CollectorRegistry(auto_describe=True)
        FrameworkMetrics(registry)
        with pytest.raises(ValueError, match="Duplicated"):
            FrameworkMetrics(registry)

    def test_it_needs_a_name(self) -> None:
        with pytest.raises(InvalidConfigError, match="name"):
            wrap_with_metrics([], name="", metrics=self.metrics)


@pytest.mark.parametrize(
    ("name", "service"),
    [("tenant-operator", "tenantOperator"), ("a_b c", "aBC"), ("Kept", "Kept"), ("2nd-3rd", "2nd3rd"), ("--", "")],
)
def test_service_names(name: str, service: str) -> None:
    assert service_name(name) == service


def test_wrappers_in_a_circle() -> None:
    class Circle(Plain):
        @property
        def wrapped(self) -> Any:
            return self

    with pytest.raises(LoopDetectedError, match="'round'"):
        unwrapped(Circle("round", []))
