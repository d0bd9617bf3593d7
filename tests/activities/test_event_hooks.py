"""Runs of event hooks: what they are told, what is written down, and what a repeated attempt does."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from activities.fakes import ARTIFACT, KEY, PLACED, Bench

from windlass.activities.hooks.events import EventHookActivities
from windlass.contracts.record import BindingRecord, RecordRef, WatchedRecord
from windlass.contracts.steps import EventsRequest, EventsResult, HoldRequest, UnwatchRequest, WatchRequest
from windlass.domain.errors import Reason, TransientError
from windlass.domain.hooks.bindings import KubernetesBinding
from windlass.domain.packages.model import Binding, Hook
from windlass.ports.hooks import HookOutput
from windlass.ports.watches import EventRun

HOOK = Hook(path="hooks/x", orders={}, kubernetes=(KubernetesBinding(kind="ConfigMap"),))
WATCHED = WatchedRecord(digest=ARTIFACT.digest, hooks=(HOOK,))
PATCH = {"op": "add", "path": "/web/replicas", "value": 3}


def run_of(*, allow_failure: bool = False) -> EventRun:
    return EventRun(hook=HOOK, context=[{"binding": "kubernetes"}], items=2, allow_failure=allow_failure)


def activities(bench: Bench) -> EventHookActivities:
    return EventHookActivities(
        runs=bench.hook_runs, watches=bench.watches, contents=bench.contents, suspects=bench.suspects
    )


def ref(bench: Bench) -> RecordRef | None:
    return bench.records.stored[KEY][1] if KEY in bench.records.stored else None


async def run(bench: Bench, run_id: str = "r1") -> EventsResult:
    request = EventsRequest(
        key=KEY, placement=PLACED, uid="u1", artifact=ARTIFACT, queue="main", run_id=run_id, record=ref(bench)
    )
    return await bench.run(activities(bench).run_events, request)


def prepared(*runs: EventRun, outputs: tuple[HookOutput | Exception, ...] = (HookOutput(),), **record: Any) -> Bench:
    bench = Bench()
    bench.hooks.outputs = list(outputs)
    bench.watches.waiting_runs = list(runs)
    bench.watches.told = {"hooks/x#0": BindingRecord(synchronized=True, known={"prod/a": "1"})}
    bench.records.put(**{"settings": {}, "watched": WATCHED, **record})
    return bench


async def test_a_run_is_told_and_written_down_in_one_write() -> None:
    bench = prepared(run_of(), run_of(), outputs=(HookOutput(values_patch=[PATCH]), HookOutput()))
    saves = bench.records.saves
    result = await run(bench)
    assert (result.hook, result.items, result.more, result.changed) == ("hooks/x", 2, True, True)
    assert bench.records.saves == saves + 1
    (ran,) = bench.hooks.runs
    assert (ran.binding, ran.context) == (Binding.KUBERNETES, [{"binding": "kubernetes"}])
    watched = bench.records.record.watched
    assert watched is not None
    assert watched.bindings == bench.watches.told
    assert bench.records.record.patches == (PATCH,)
    assert (await run(bench, "r2")).changed is False


async def test_a_repeated_attempt_runs_nothing() -> None:
    bench = prepared(run_of())
    first = await run(bench)
    again = await run(bench)
    assert len(bench.hooks.runs) == 1
    assert (again.hook, again.items, again.more) == (first.hook, first.items, False)


async def test_a_failure_leaves_everything_as_it_was() -> None:
    bench = prepared(run_of(), outputs=(TransientError(Reason.EVENT_HOOK_FAILED, "no luck"),))
    before = bench.records.record
    with pytest.raises(TransientError, match="no luck"):
        await run(bench)
    assert bench.records.record == before
    assert len(bench.watches.waiting_runs) == 1


async def test_an_allowed_failure_counts_as_told_and_is_reported() -> None:
    failure = TransientError(Reason.EVENT_HOOK_FAILED, "no luck")
    bench = prepared(run_of(allow_failure=True), outputs=(failure,))
    result = await run(bench)
    assert result.reports == ("failed: no luck",)
    assert bench.watches.waiting_runs == []
    watched = bench.records.record.watched
    assert watched is not None
    assert watched.bindings == bench.watches.told


async def test_an_empty_queue_hands_over_reports_and_writes_nothing() -> None:
    bench = prepared()
    bench.watches.reported = ("x is left out",)
    saves = bench.records.saves
    result = await run(bench)
    assert (result.hook, result.reports, result.more) == ("", ("x is left out",), False)
    assert bench.records.saves == saves


async def test_runs_of_one_queue_never_meet() -> None:
    bench = prepared(run_of(), run_of())
    events = activities(bench)
    requests = [
        EventsRequest(
            key=KEY, placement=PLACED, uid="u1", artifact=ARTIFACT, queue="main", run_id=run_id, record=ref(bench)
        )
        for run_id in ("r1", "r2")
    ]
    await asyncio.gather(*(bench.run(events.run_events, request) for request in requests))
    assert len(bench.hooks.runs) == 2
    assert not bench.hooks.met


async def test_a_lost_record_is_told_as_such() -> None:
    bench = prepared(run_of(), watched=None)
    with pytest.raises(TransientError) as caught:
        await run(bench)
    assert caught.value.reason is Reason.STATE_LOST


async def test_bindings_enabled_before_go_on_where_they_stood() -> None:
    told = WATCHED.model_copy(update={"bindings": {"hooks/x#0": BindingRecord(synchronized=True)}})
    bench = prepared(watched=told)
    request = WatchRequest(
        key=KEY,
        placement=PLACED,
        uid="u1",
        artifact=ARTIFACT,
        hooks=(HOOK,),
        record=ref(bench),
    )
    await bench.run(activities(bench).watch, request)
    assert bench.records.record.watched == told
    await bench.run(activities(bench).unwatch, UnwatchRequest(key=KEY, uid="u1", record=ref(bench)))
    assert bench.records.record.watched is None
    assert bench.watches.closed == 1
    await bench.run(activities(bench).watch, request)
    assert bench.records.record.watched == WATCHED


async def test_values_of_a_hook_survive_a_write_in_between() -> None:
    bench = prepared(run_of(), outputs=(HookOutput(values_patch=[PATCH]),))
    stale = ref(bench)
    # A release was begun meanwhile: the run knows an older state of the record.
    bench.records.put(settings={}, watched=WATCHED, completed="x")
    request = EventsRequest(
        key=KEY, placement=PLACED, uid="u1", artifact=ARTIFACT, queue="main", run_id="r1", record=stale
    )
    await bench.run(activities(bench).run_events, request)
    assert (bench.records.record.completed, bench.records.record.patches) == ("x", (PATCH,))


async def begun(bench: Bench, events: EventHookActivities, run_id: str = "r1") -> EventsResult:
    """Run as the local activity that a run begins in."""
    request = EventsRequest(
        key=KEY, placement=PLACED, uid="u1", artifact=ARTIFACT, queue="main", run_id=run_id, record=ref(bench)
    )
    environment = bench.environment
    environment.info = replace(environment.info, is_local=True)
    try:
        return await bench.run(events.run_events, request)
    finally:
        environment.info = replace(environment.info, is_local=False)


async def test_a_run_with_nothing_to_say_ends_in_the_local_activity() -> None:
    bench = prepared(run_of())
    result = await begun(bench, activities(bench))
    assert (result.pending, result.hook, result.items) == (False, "hooks/x", 2)
    watched = bench.records.record.watched
    assert watched is not None
    assert watched.bindings == bench.watches.told


@pytest.mark.parametrize("why", ["values", "synchronization", "report"])
async def test_what_the_workflow_must_learn_of_is_left_to_the_remote_activity(why: str) -> None:
    bench = prepared(run_of(), outputs=(HookOutput(values_patch=[PATCH] if why == "values" else []),))
    bench.watches.reported = ("x is left out",) if why == "report" else ()
    bench.watches.unsynchronized_bindings = int(why == "synchronization")
    events = activities(bench)
    assert await begun(bench, events) == EventsResult(pending=True)
    assert bench.records.record.patches == ()
    request = EventsRequest(
        key=KEY, placement=PLACED, uid="u1", artifact=ARTIFACT, queue="main", run_id="r1", record=ref(bench)
    )
    result = await bench.run(events.run_events, request)
    assert (result.pending, result.changed) == (False, why == "values")
    assert len(result.reports) == (why == "report")
    assert len(bench.hooks.runs) == 1


async def test_disabling_ends_a_run_that_nobody_has_come_for() -> None:
    bench = prepared(run_of(), outputs=(HookOutput(values_patch=[PATCH]),))
    events = activities(bench)
    assert (await begun(bench, events)).pending
    await bench.run(events.unwatch, UnwatchRequest(key=KEY, uid="u1", record=ref(bench)))
    assert bench.records.record.patches == ()
    assert bench.records.record.watched is None


async def at(bench: Bench, events: EventHookActivities, moment: float, run_id: str = "r1") -> EventsResult:
    request = EventsRequest(
        key=KEY,
        placement=PLACED,
        uid="u1",
        artifact=ARTIFACT,
        queue="main",
        run_id=run_id,
        record=ref(bench),
        at=moment,
    )
    return await bench.run(events.run_events, request)


async def test_a_run_that_leaves_nothing_to_do_allows_the_next_to_begin_ahead() -> None:
    bench = prepared(run_of(), outputs=(HookOutput(), HookOutput()))
    events = activities(bench)
    await at(bench, events, 5.0)
    ((begin, since),) = bench.watches.allowed
    assert since == 5.0
    bench.watches.waiting_runs = [run_of()]
    task = begin("ahead")
    await asyncio.wait({task})
    assert len(bench.hooks.runs) == 2
    result = await at(bench, events, 6.0, "ahead")
    assert (result.hook, result.items, len(bench.hooks.runs)) == ("hooks/x", 2, 2)
    assert len(bench.watches.allowed) == 2, "once for each run that was come for"


@pytest.mark.parametrize("local", [True, False], ids=["local", "remote"])
async def test_news_between_a_run_begun_ahead_and_its_activity_are_not_forgotten(*, local: bool) -> None:
    bench = prepared(run_of(), outputs=(HookOutput(), HookOutput(), HookOutput()))
    events = activities(bench)
    await at(bench, events, 5.0)
    bench.watches.waiting_runs = [run_of()]
    await asyncio.wait({bench.watches.allowed[0][0]("ahead")})
    # The workflow is told of both in one message: there is one run for it to come for, and this has ended already.
    bench.watches.waiting_runs = [run_of()]
    result = await (begun(bench, events, "ahead") if local else at(bench, events, 6.0, "ahead"))
    assert (result.items, result.more) == (2, True)
    assert len(bench.watches.allowed) == 1, "no run may begin ahead while one is to be seen to"
    assert not (await at(bench, events, 7.0, "next")).more
    assert len(bench.hooks.runs) == 3


async def test_a_run_begun_ahead_waits_for_its_activity_before_it_changes_values() -> None:
    bench = prepared(run_of(), outputs=(HookOutput(), HookOutput(values_patch=[PATCH])))
    events = activities(bench)
    await at(bench, events, 5.0)
    bench.watches.waiting_runs = [run_of()]
    task = bench.watches.allowed[0][0]("ahead")
    assert (await begun(bench, events, "ahead")).pending
    assert (bench.records.record.patches, task.done()) == ((), False)
    assert (await at(bench, events, 6.0, "ahead")).changed
    assert bench.records.record.patches == (PATCH,)


@pytest.mark.parametrize("why", ["more", "unsynchronized", "failed", "pending"])
async def test_nothing_begins_ahead_while_the_workflow_has_something_to_see_to(why: str) -> None:
    output = (
        TransientError(Reason.EVENT_HOOK_FAILED, "no luck") if why == "failed" else HookOutput(values_patch=[PATCH])
    )
    bench = prepared(*[run_of()] * (2 if why == "more" else 1), outputs=(output,))
    bench.watches.unsynchronized_bindings = int(why == "unsynchronized")
    events = activities(bench)
    if why == "failed":
        with pytest.raises(TransientError):
            await at(bench, events, 5.0)
    elif why == "pending":
        assert (await begun(bench, events)).pending
    else:
        await at(bench, events, 5.0)
    assert bench.watches.allowed == []
    await bench.run(events.unwatch, UnwatchRequest(key=KEY, uid="u1", record=ref(bench)))


async def test_a_hold_takes_back_what_was_allowed() -> None:
    bench = prepared()
    await bench.run(activities(bench).hold, HoldRequest(key=KEY, at=7.0))
    assert bench.watches.held == [7.0]
