"""Hooks that follow objects, as their authors see them: what they are told, when, together with what."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from support.event_hooks import Journal, drop, labelled, named, put, write
from support.installation import Installation, condition
from support.running import events, keep, running, shown
from support.waiting import eventually
from windlass.contracts.lifecycle import Action
from windlass.devstack.stack import Stack


@pytest.fixture(scope="module")
async def installation(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Installation]:
    """One installation for all tests here."""
    async with running(stack, tmp_path_factory.mktemp("event-hooks")) as made:
        yield made


async def test_a_hook_is_told_of_what_exists_and_then_of_every_change(
    installation: Installation, tmp_path: Path
) -> None:
    journal = Journal(tmp_path)
    write(installation, "following", hook=journal.hook(labelled("following", name="maps"), beforeHelm=1))
    await put(installation, "b-one", "following", x="1")
    await put(installation, "a-two", "following", x="1")
    await put(installation, "other", "somebody", x="1")
    await installation.application("follow", "following", "1.0.0")
    await installation.ready("follow")

    (synchronization,), (before_helm,) = journal.runs
    assert {**synchronization, "objects": []} == {"binding": "maps", "type": "Synchronization", "objects": []}
    assert [named(one) for one in synchronization["objects"]] == ["a-two", "b-one"]
    first = synchronization["objects"][0]["object"]
    assert (first["kind"], first["apiVersion"], first["data"]) == ("ConfigMap", "v1", {"x": "1"})
    assert before_helm["binding"] == "beforeHelm"
    assert [named(one) for one in before_helm["snapshots"]["maps"]] == ["a-two", "b-one"]

    await put(installation, "c-three", "following", x="1")
    added = await journal.told("Added", "c-three")
    assert (added["binding"], added["type"], added["object"]["data"]) == ("maps", "Event", {"x": "1"})
    assert set(added) == {"binding", "type", "watchEvent", "object"}
    await put(installation, "c-three", "following", x="2")
    assert (await journal.told("Modified", "c-three"))["object"]["data"] == {"x": "2"}
    await drop(installation, "c-three")
    assert (await journal.told("Deleted", "c-three"))["object"]["data"] == {"x": "2"}
    # Out of the selection is deleted, into it is added.
    await put(installation, "b-one", "nobody", x="1")
    await journal.told("Deleted", "b-one")
    assert not [one for one in journal.items if one.get("type") == "Event" and named(one) == "other"]
    await keep(installation, "follow", "event-hooks")

    await installation.delete("follow")
    await installation.gone("follow")
    told = len(journal.runs)
    await put(installation, "a-two", "following", x="3")
    assert len(journal.runs) == told
    await keep(installation, "follow", "removal-with-event-hooks")


async def test_an_answered_pause_holds_for_the_very_next_change(installation: Installation, tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    write(installation, "pausing", hook=journal.hook(labelled("paused", executeHookOnSynchronization=False)))
    await installation.application("pauses", "pausing", "1.0.0")
    await installation.ready("pauses")
    for name in ("p-one", "p-two"):  # from the first one on, runs may begin ahead of the lifecycle's word
        await put(installation, name, "paused", x="1")
        await journal.told("Added", name)
    key, action = installation.key("pauses"), Action(who="ann", why="to look at it")
    assert (await installation.lifecycles.pause(key, action)).accepted
    await put(installation, "p-three", "paused", x="1")

    async def waits() -> bool:
        queues = (await installation.lifecycles.queues(key)).queues
        return [item.name for found in queues.values() for item in found] == ["EventHook"]

    await eventually(waits, what="the lifecycle knows of the change")
    assert [named(one) for one in journal.items] == ["p-one", "p-two"]
    assert (await installation.lifecycles.resume(key, action)).accepted
    await journal.told("Added", "p-three")
    await keep(installation, "pauses", "pause-with-event-hooks")


async def test_a_filter_decides_what_counts_as_a_change(installation: Installation, tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    binding = labelled("filtered", jqFilter=".data | {x}", keepFullObjectsInMemory=False)
    write(installation, "filtering", hook=journal.hook(binding))
    await put(installation, "f-one", "filtered", x="1", y="1")
    await installation.application("filter", "filtering", "1.0.0")
    await installation.ready("filter")
    assert journal.runs == [
        [{"binding": "kubernetes", "type": "Synchronization", "objects": [{"filterResult": {"x": "1"}}]}]
    ]
    await put(installation, "f-one", "filtered", x="1", y="2")
    await put(installation, "f-one", "filtered", x="2", y="2")
    runs = await journal.reaches(2)
    event = {"binding": "kubernetes", "type": "Event", "watchEvent": "Modified", "filterResult": {"x": "2"}}
    assert runs[1:] == [[event]]
    assert condition(await installation.ready("filter"), "HooksProcessed")["status"] == "True"


async def test_values_that_an_event_changes_are_released(installation: Installation, tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    body = (
        'x=$(python3 -c \'import json,os; c=json.load(open(os.environ["BINDING_CONTEXT_PATH"]));'
        ' print(c[-1].get("filterResult") or "none")\')\n'
        'echo "{\\"op\\": \\"add\\", \\"path\\": \\"/releasing/greeting\\", \\"value\\": \\"$x\\"}"'
        ' > "$VALUES_JSON_PATCH_PATH"'
    )
    write(installation, "releasing", hook=journal.hook(labelled("released", jqFilter=".data.x"), body=body))
    await installation.application("releases", "releasing", "1.0.0")
    await installation.ready("releases")
    assert (await shown(installation, "releases"))["greeting"] == "none"
    await put(installation, "r-one", "released", x="hey")

    async def greeted() -> bool:
        return (await shown(installation, "releases"))["greeting"] == "hey"

    await eventually(greeted, what="the event's value is released")
    await installation.ready("releases")
    await keep(installation, "releases", "values-changed-by-an-event")


async def test_members_of_a_group_are_told_together_by_snapshots(installation: Installation, tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    hook = journal.hook(
        labelled("group-a", name="as", group="both"),
        labelled("group-b", name="bs", group="both", jqFilter=".data.x", keepFullObjectsInMemory=False),
        labelled("group-c", name="cs", executeHookOnSynchronization=False, includeSnapshotsFrom=["as"]),
    )
    write(installation, "grouping", hook=hook)
    await put(installation, "ga", "group-a", x="1")
    await put(installation, "gb", "group-b", x="2")
    await installation.application("groups", "grouping", "1.0.0")
    await installation.ready("groups")
    ((told,),) = journal.runs
    assert {**told, "snapshots": {}} == {"binding": "bs", "type": "Group", "groupName": "both", "snapshots": {}}
    assert [named(one) for one in told["snapshots"]["as"]] == ["ga"]
    assert told["snapshots"]["bs"] == [{"filterResult": "2"}]

    await put(installation, "gc", "group-c", x="3")
    event = await journal.told("Added", "gc")
    assert [named(one) for one in event["snapshots"]["as"]] == ["ga"]
    assert set(event["snapshots"]) == {"as"}


async def test_a_slow_queue_holds_up_no_other(installation: Installation, tmp_path: Path) -> None:
    slow, fast, gate = Journal(tmp_path, "slow"), Journal(tmp_path, "fast"), tmp_path / "gate"
    begun = tmp_path / "begun"
    body = f"touch {begun}; while [ -e {gate} ]; do sleep 0.05; done"
    write(
        installation,
        "queueing",
        slow=slow.hook(labelled("queued", executeHookOnSynchronization=False, queue="slow"), body=body),
        fast=fast.hook(labelled("queued", executeHookOnSynchronization=False)),
    )
    await installation.application("queues", "queueing", "1.0.0")
    await installation.ready("queues")
    gate.touch()
    await put(installation, "q-one", "queued", x="1")
    await fast.told("Added", "q-one")
    await eventually(begun.exists, what="the slow hook runs")  # and is told nothing more
    for number in range(5):
        await put(installation, f"q-more-{number}", "queued", x="1")
    await fast.told("Added", "q-more-4")
    queues = (await installation.lifecycles.queues(installation.key("queues"))).queues
    (head,) = queues[f"{installation.namespace}.queues/slow"]
    assert (head.name, head.running) == ("EventHook", True)
    assert slow.runs == []
    gate.unlink()
    await slow.told("Added", "q-more-4")
    assert [[named(item) for item in run] for run in slow.runs] == [["q-one"], [f"q-more-{n}" for n in range(5)]]


async def test_a_filter_that_loops_is_ended_and_reported_and_the_rest_goes_on(
    installation: Installation, tmp_path: Path
) -> None:
    journal = Journal(tmp_path)
    looping = 'if .data.x == "loop" then (def f: f; f) else .data.x end'
    write(installation, "looping", hook=journal.hook(labelled("looped", jqFilter=looping)))
    await installation.application("loops", "looping", "1.0.0")
    await installation.ready("loops")
    await put(installation, "l-bad", "looped", x="loop")
    await put(installation, "l-good", "looped", x="1")
    assert (await journal.told("Added", "l-good"))["filterResult"] == "1"

    async def reported() -> bool:
        return any("l-bad is left out" in one["note"] for one in await events(installation, "loops"))

    await eventually(reported, what="an Event about the object")
    await put(installation, "l-bad", "looped", x="2")
    assert (await journal.told("Added", "l-bad"))["filterResult"] == "2"


async def test_a_hook_watches_with_its_own_rights_only(installation: Installation, tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    write(installation, "prying", hook=journal.hook({"kind": "ns", "name": "all"}))
    await installation.application("pries", "prying", "1.0.0")
    obj = await installation.status("pries", lambda status: status.get("failure"))
    failure = obj["status"]["failure"]
    assert (failure["step"], failure["reason"], failure["actor"]) == ("Watch", "Forbidden", "admin")
    assert failure["message"].startswith("hooks/hook.sh, binding all: ")
    assert condition(obj, "HooksProcessed")["status"] == "False"
    await installation.delete("pries")
    await installation.gone("pries")


async def test_a_failing_event_hook_is_seen_tried_again_and_loses_nothing(
    installation: Installation, tmp_path: Path
) -> None:
    journal, broken = Journal(tmp_path), tmp_path / "broken"
    body = f"[ ! -e {broken} ] || {{ echo out of luck >&2; exit 3; }}"
    binding = labelled("failed", executeHookOnSynchronization=False)
    write(installation, "failing", hook=journal.hook(binding, body=body))
    await installation.application("fails", "failing", "1.0.0")
    await installation.ready("fails")
    broken.touch()
    await put(installation, "x-one", "failed", x="1")
    obj = await installation.status("fails", lambda status: status.get("failure"))
    assert obj["status"]["failure"]["reason"] == "EventHookFailed"
    assert "out of luck" in obj["status"]["failure"]["message"]
    assert condition(obj, "Ready")["reason"] == "EventHookFailed"
    await put(installation, "x-two", "failed", x="1")
    broken.unlink()
    await journal.told("Added", "x-two")
    assert [named(item) for item in journal.items] == ["x-one", "x-two"]
    await installation.status("fails", lambda status: not status.get("failure"))
    assert condition(await installation.ready("fails"), "HooksProcessed")["status"] == "True"
    await keep(installation, "fails", "event-hook-failure")
