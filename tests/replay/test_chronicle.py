"""What `windlass history` makes of recorded histories: each thing once, whatever Temporal needs for it."""

from __future__ import annotations

from replay.keyring import REPLAY_KEYRING, REPLAY_NAMESPACE
from replay.paths import HISTORIES
from replay.replaying import read
from temporalio.converter import WorkflowSerializationContext

from windlass.runtime.history import Moment, MomentKind, Outcome, RunReader
from windlass.temporal.converter import data_converter


async def moments(path: str) -> list[Moment]:
    history = read(HISTORIES / f"{path}.json")
    context = WorkflowSerializationContext(REPLAY_NAMESPACE, history.workflow_id)
    reader = RunReader(data_converter(REPLAY_KEYRING).with_context(context), "run")
    for event in history.events:
        await reader.take(event)
    return list(reader.moments)


async def test_event_hooks_are_facts_and_steps_and_nobodys_actions() -> None:
    found = await moments("event-hooks")
    assert not [one for one in found if one.kind is MomentKind.ACTION]
    told = [one for one in found if (one.kind, one.what) == (MomentKind.SIGNAL, "hook_events")]
    runs = [one for one in found if one.what == "EventHooks"]
    assert told
    assert {(one.outcome, one.detail) for one in runs} == {(Outcome.DONE, "event hooks: main")}


async def test_a_run_that_goes_on_below_a_remote_activity_is_told_once() -> None:
    events = read(HISTORIES / "values-changed-by-an-event.json").events
    local = sum(b'"hook.run_events"' in event.SerializeToString() for event in events)
    remote = sum(
        event.activity_task_scheduled_event_attributes.activity_type.name == "hook.run_events" for event in events
    )
    runs = [one for one in await moments("values-changed-by-an-event") if one.what == "EventHooks"]
    assert local > 0
    assert remote <= len(runs) < local + remote


async def test_actions_keep_who_and_why() -> None:
    actions = [one for one in await moments("pause-and-resume") if one.kind is MomentKind.ACTION]
    assert {one.what for one in actions} == {"pause", "resume"}
    assert all(one.who for one in actions)


async def test_a_comparison_with_the_manifest_is_a_step() -> None:
    [check, *_] = [one for one in await moments("drift-corrected") if one.what == "CheckDrift"]
    assert check.outcome is Outcome.DONE
    assert check.took is not None
    assert check.detail in {"detect", "correct"}
