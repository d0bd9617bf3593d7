"""Event functions and the event loop (frameworks.md 1.2, 1.7), and what differs: objects go side by side."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Any

import pytest
import structlog
from framework.recording import LOGGER, Boom, Plain, boom, obj
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from support.waiting import eventually
from windlass.framework import (
    Delete,
    Event,
    ExponentialBackOff,
    Failure,
    Framework,
    FrameworkMetrics,
    InvalidConfigError,
    Resource,
    ResourceRouter,
    ResourceSet,
    Update,
    from_queues,
    reconciliation_canceled,
)

SOON = 10.0


class Scripted:
    """An informer that tells these events and ends."""

    def __init__(self, *events: Event) -> None:
        self.events = events
        self.closed = False

    async def watch(self) -> AsyncGenerator[Event]:
        try:
            for event in self.events:
                yield event
        finally:
            self.closed = True


class Definitions:
    def __init__(self, failures: int = 0) -> None:
        self.calls: list[Any] = []
        self.failures = failures

    async def ensure_created(self, definition: Any) -> None:
        self.calls.append(definition)
        if len(self.calls) <= self.failures:
            raise Boom(len(self.calls))


def handled_by(*resources: Resource, handles: Callable[[Any], bool] = lambda _: True, **options: Any) -> ResourceSet:
    return ResourceSet(handles=handles, logger=LOGGER, resources=resources, **options)


def framework(*sets: ResourceSet, informer: Any = None, **options: Any) -> Framework:
    metrics = options.pop("metrics", None) or FrameworkMetrics(CollectorRegistry())
    router = ResourceRouter(logger=LOGGER, resource_sets=sets)
    return Framework(
        informer=informer or Scripted(),
        logger=structlog.get_logger(),
        resource_router=router,
        metrics=metrics,
        backoff_factory=options.pop("backoff_factory", lambda: ExponentialBackOff(initial=0, max_retries=7)),
        **options,
    )


def test_constructor_checks_in_their_order() -> None:
    router = ResourceRouter(logger=LOGGER, resource_sets=[handled_by(Plain("a", []))])
    nothing: dict[str, Any] = {"informer": None, "logger": None, "resource_router": None}
    cases: Sequence[tuple[dict[str, Any], str]] = [
        ({"crd": {}}, "together"),
        ({"crd_client": Definitions()}, "together"),
        ({}, "informer"),
        ({"informer": Scripted()}, "logger"),
        ({"informer": Scripted(), "logger": LOGGER}, "router"),
        ({"informer": Scripted(), "logger": LOGGER, "resource_router": router, "concurrency": 0}, "concurrency"),
    ]
    for given, named in cases:
        with pytest.raises(InvalidConfigError, match=named):
            Framework(**{**nothing, **given})
    Framework(informer=Scripted(), logger=LOGGER, resource_router=router)


class TestEventFunctions:
    async def test_update_looks_at_the_new_object_only(self) -> None:
        one = Plain("a", [])
        await framework(handled_by(one)).update_func(obj("old"), obj("new"))
        assert [seen["metadata"]["name"] for seen in one.seen] == ["new"]
        assert one.calls == ["a.ensure_created"]

    async def test_delete(self) -> None:
        one = Plain("a", [])
        await framework(handled_by(one)).delete_func(obj())
        assert one.calls == ["a.ensure_deleted"]

    @pytest.mark.parametrize("event", ["update", "delete"])
    @pytest.mark.parametrize("where", ["resource", "init_ctx", "handles", "two sets"])
    async def test_errors_are_logged_and_never_raised(self, event: str, where: str) -> None:
        async def init_ctx(_: Any) -> None:
            if where == "init_ctx":
                boom()

        def handles(_: Any) -> bool:
            if where == "handles":
                boom()
            return True

        fails = {"ensure_created": boom, "ensure_deleted": boom} if where == "resource" else {}
        one = handled_by(Plain("a", [], fails), handles=handles, init_ctx=init_ctx)
        made = framework(*[one] * (2 if where == "two sets" else 1))
        with capture_logs() as logs:
            await (made.update_func(None, obj()) if event == "update" else made.delete_func(obj()))
        assert [line["log_level"] for line in logs] == ["error"]
        assert logs[0]["object"] == "Widget/shop/web"

    async def test_an_object_of_nobody_is_left_alone(self) -> None:
        with capture_logs() as logs:
            await framework(handled_by(Plain("a", []), handles=lambda _: False)).update_func(None, obj())
        assert [line for line in logs if line["log_level"] != "debug"] == []

    async def test_nothing_of_one_object_is_left_in_the_callers_context(self) -> None:
        one = framework(handled_by(Plain("a", [], {"ensure_created": reconciliation_canceled.set})))
        await one.update_func(None, obj())
        assert reconciliation_canceled.current() is None
        assert "object" not in structlog.contextvars.get_contextvars()

    async def test_one_object_at_a_time_in_the_order_of_calls(self) -> None:
        calls: list[str] = []

        async def slow() -> None:
            calls.append("begin")
            for _ in range(5):
                await asyncio.sleep(0)
            calls.append("end")

        made = framework(handled_by(Plain("a", [], {"ensure_created": slow, "ensure_deleted": slow})))
        await asyncio.gather(made.update_func(None, obj()), made.delete_func(obj()), made.update_func(None, obj()))
        assert calls == ["begin", "end"] * 3

    async def test_cancelling_the_caller_cancels_the_chain(self) -> None:
        begun, ended = asyncio.Event(), asyncio.Event()

        async def hangs() -> None:
            begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()

        made = framework(handled_by(Plain("a", [], {"ensure_created": hangs})))
        task = asyncio.create_task(made.update_func(None, obj()))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert ended.is_set()


class TestLoop:
    async def test_events_go_to_their_functions_and_are_timed(self) -> None:
        registry = CollectorRegistry()
        one = Plain("a", [])
        made = framework(handled_by(one), metrics=FrameworkMetrics(registry))
        await made.process_events(Scripted(Update(obj("x")), Delete(obj("y")), Update(obj("z"))).watch())
        assert sorted(one.calls) == ["a.ensure_created", "a.ensure_created", "a.ensure_deleted"]
        counts = {
            name: registry.get_sample_value("operatorkit_framework_event_count", {"event": name})
            for name in ("update", "delete")
        }
        assert counts == {"update": 2, "delete": 1}

    async def test_a_stuck_object_keeps_no_other_waiting(self) -> None:
        stuck = asyncio.Event()
        done: list[str] = []

        class One:
            name = "one"

            async def ensure_created(self, obj: Any) -> None:
                if obj["metadata"]["name"] == "stuck":
                    await stuck.wait()
                done.append(obj["metadata"]["name"])

            async def ensure_deleted(self, obj: Any) -> None: ...

        events = [Update(obj("stuck")), *(Update(obj(f"o{number}")) for number in range(20))]
        task = asyncio.create_task(framework(handled_by(One())).process_events(Scripted(*events).watch()))
        await eventually(lambda: len(done) == 20, SOON)
        stuck.set()
        await task
        assert done[-1] == "stuck"

    async def test_concurrency_is_a_limit(self) -> None:
        running = most = 0

        async def count() -> None:
            nonlocal running, most
            running += 1
            most = max(most, running)
            await asyncio.sleep(0)
            running -= 1

        events = [Update(obj(f"o{number}")) for number in range(9)]
        made = framework(handled_by(Plain("a", [], {"ensure_created": count})), concurrency=2)
        await made.process_events(Scripted(*events).watch())
        assert most == 2

    async def test_what_waits_behind_a_running_event_collapses(self) -> None:
        one = Plain("a", [])
        versions = [Update(obj(version=str(number))) for number in range(5)]
        await framework(handled_by(one)).process_events(Scripted(*versions).watch())
        assert [seen["metadata"]["resourceVersion"] for seen in one.seen] == ["4"]

    async def test_a_deletion_takes_the_place_of_an_update_of_the_same_object(self) -> None:
        one = Plain("a", [])
        await framework(handled_by(one)).process_events(Scripted(Update(obj()), Delete(obj())).watch())
        assert one.calls == ["a.ensure_deleted"]

    async def test_an_object_that_was_made_anew_is_deleted_first(self) -> None:
        one = Plain("a", [])
        events = [Update(obj(uid="1")), Delete(obj(uid="1")), Update(obj(uid="2")), Update(obj(uid="2", version="2"))]
        await framework(handled_by(one)).process_events(Scripted(*events).watch())
        assert one.calls == ["a.ensure_deleted", "a.ensure_created"]

    async def test_seven_restarts_and_the_eighth_error_is_fatal(self) -> None:
        one = Plain("a", [])
        events: list[Event] = []
        for number in range(8):
            # Good events do not refill the budget.
            events += [Update(obj(f"o{number}")), Failure(Boom(number))]
        informer = Scripted(*events, Update(obj("never")))
        with capture_logs() as logs, pytest.raises(Boom, match="7"):
            await framework(handled_by(one)).process_events(informer.watch())
        # The eighth object had not begun when the loop ended.
        assert [seen["metadata"]["name"] for seen in one.seen] == [f"o{number}" for number in range(7)]
        assert [line["log_level"] for line in logs] == ["warning"] * 7 + ["error"]
        assert informer.closed

    async def test_the_budget_is_one_of_each_call(self) -> None:
        made = framework(handled_by(Plain("a", [])))
        for _ in range(2):
            await made.process_events(Scripted(*[Failure(Boom())] * 7).watch())

    async def test_cancelled_it_lets_running_chains_come_to_their_end(self) -> None:
        calls: list[str] = []
        begun, go = asyncio.Event(), asyncio.Event()

        async def slow() -> None:
            begun.set()
            await go.wait()
            calls.append("ended")

        async def endless() -> AsyncGenerator[Event]:
            yield Update(obj())
            await asyncio.Event().wait()

        made = framework(handled_by(Plain("a", [], {"ensure_created": slow})))
        task = asyncio.create_task(made.process_events(endless()))
        await begun.wait()
        task.cancel()
        asyncio.get_running_loop().call_later(0.05, go.set)
        with pytest.raises(asyncio.CancelledError):
            await task
        assert calls == ["ended"]

    async def test_three_queues_by_hand(self) -> None:
        deletes: asyncio.Queue[Any] = asyncio.Queue()
        updates: asyncio.Queue[Any] = asyncio.Queue()
        errors: asyncio.Queue[Exception] = asyncio.Queue()
        one = Plain("a", [])
        made = framework(handled_by(one))
        task = asyncio.create_task(made.process_events(from_queues(deletes, updates, errors)))
        updates.put_nowait(obj("x"))
        await eventually(lambda: one.calls == ["a.ensure_created"], SOON)
        errors.put_nowait(Boom())
        deletes.put_nowait(obj("x"))
        await eventually(lambda: one.calls == ["a.ensure_created", "a.ensure_deleted"], SOON)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


class TestBoot:
    async def test_definition_first_then_events_and_only_once(self) -> None:
        definitions, one = Definitions(), Plain("a", [])
        made = framework(handled_by(one), informer=Scripted(Update(obj())), crd={"kind": "CRD"}, crd_client=definitions)
        await asyncio.gather(made.boot(), made.boot())
        await made.boot()
        assert definitions.calls == [{"kind": "CRD"}]
        assert one.calls == ["a.ensure_created"]

    async def test_errors_are_tried_again_with_the_factorys_back_off(self) -> None:
        definitions = Definitions(failures=7)
        await framework(handled_by(Plain("a", [])), crd={}, crd_client=definitions).boot()
        assert len(definitions.calls) == 8

    async def test_after_the_budget_the_last_one_comes_out(self) -> None:
        with pytest.raises(Boom, match="8"):
            await framework(handled_by(Plain("a", [])), crd={}, crd_client=Definitions(failures=99)).boot()
