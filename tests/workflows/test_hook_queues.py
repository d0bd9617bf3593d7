"""Hook queues beside the main queue: when they run, what holds them up, what they hold up."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace

import pytest
from workflows.life import ACTION, Life
from workflows.world import artifact, following, hook, source

from support.waiting import eventually
from windlass.contracts.lifecycle import HookEvents
from windlass.contracts.steps import EventsRequest
from windlass.domain.errors import Actor, PermanentError, Reason, TransientError
from windlass.domain.lifecycle.steps import OnFailure
from windlass.domain.packages.model import Binding

pytestmark = pytest.mark.stack


async def tell(life: Life, queue: str, *items: str) -> None:
    """Put items into a mailbox and signal once, as the worker does."""
    life.world.mailboxes.setdefault(queue, []).extend(items)
    await life.lifecycles.hook_events(life.key, HookEvents(queue=queue, sequence=1))


async def did(life: Life, *lines: str) -> None:
    """Wait until all of these were done."""
    await eventually(lambda: set(lines) <= set(life.world.log), what=f"{lines} in {life.world.log}")


async def test_the_first_release_waits_for_the_synchronization(life: Life) -> None:
    life.world.hooks = (following("hooks/x"), hook("hooks/y", Binding.ON_STARTUP, Binding.BEFORE_HELM))
    life.world.mailboxes = {"main": ["synchronization", "event"]}
    life.world.unsynchronized = 1
    hold = life.world.hold("hook.run_events")
    await life.changed()
    await life.rests("Synchronizing")
    assert life.world.steps()[-3:] == ["onStartup hooks/y", "watch", "events main: synchronization"]
    hold.release()
    await life.rests()
    steps = life.world.steps()
    assert steps.index("events main: synchronization") < steps.index("beforeHelm hooks/y")
    await did(life, "events main: event", "upgrade_release 1:s1")


async def test_a_signal_empties_the_mailbox_run_by_run(life: Life) -> None:
    life.world.hooks = (following("hooks/x"),)
    await life.changed()
    await life.rests()
    assert not [line for line in life.world.log if line.startswith("events")]
    await tell(life, "main", "a", "b", "c")
    await did(life, "events main: a", "events main: b", "events main: c")
    queues = (await life.lifecycles.queues(life.key)).queues
    assert queues["prod.web/main"] == ()


async def test_values_changed_by_an_event_are_released_once_more(life: Life) -> None:
    life.world.hooks = (following("hooks/x"),)
    await life.changed()
    await life.rests()
    await tell(life, "main", "values")
    await did(life, "upgrade_release 1:s1+event")
    await life.rests()


async def test_values_changed_during_a_release_are_released_after_it(life: Life) -> None:
    life.world.hooks = (following("hooks/x"),)
    hold = life.world.hold("helm.upgrade_release")
    await life.changed()
    await eventually(hold.started.is_set)
    await tell(life, "main", "values")
    await did(life, "events main: values")
    hold.release()
    await did(life, "upgrade_release 1:s1+event")
    await life.rests()


async def test_a_failing_queue_is_seen_and_holds_up_no_other(life: Life) -> None:
    life.world.hooks = (following("hooks/x"), following("hooks/y", queue="other"))
    await life.changed()
    await life.rests()
    life.world.fail("hook.run_events", PermanentError(Reason.EVENT_HOOK_FAILED, "no luck", actor=Actor.AUTHOR))
    await tell(life, "main", "a")

    def seen() -> bool:
        status = life.world.statuses[-1].status
        found = {one.type: (one.status, one.reason) for one in status.conditions or []}
        failure = status.failure
        return (
            found["HooksProcessed"] == ("False", "EventHookFailed")
            and found["Ready"] == ("False", "EventHookFailed")
            and failure is not None
            and failure.step == "EventHook main"
        )

    await eventually(seen, what="the failure in status")
    await tell(life, "other", "b")
    await did(life, "events other: b")

    assert life.world.log.count("events main: a") == 1
    assert (await life.lifecycles.retry(life.key, ACTION)).message == "EventHook main is tried again"

    def mended() -> bool:
        status = life.world.statuses[-1].status
        return status.failure is None and all(
            one.status == "True" for one in status.conditions or [] if one.type in {"HooksProcessed", "Ready"}
        )

    await eventually(mended, what="the end of the failure in status")
    assert life.world.log.count("events main: a") == 2


async def test_a_new_version_ends_the_old_ones_hooks_first(life: Life) -> None:
    life.world.hooks = (following("hooks/x"),)
    await life.changed()
    await life.rests()
    hold = life.world.hold("hook.run_events")
    await tell(life, "main", "a", "b")
    await eventually(hold.started.is_set)
    await life.change(source=source("2"))
    await eventually(hold.cancelled.is_set)
    await life.rests()
    steps = life.world.steps()
    assert steps.index("unwatch") < steps.index("install 2")
    assert "events main: b" not in steps


async def test_a_suspended_package_runs_no_event_hooks_and_a_resumed_one_does(life: Life) -> None:
    life.world.hooks = (following("hooks/x"),)
    await life.changed()
    await life.rests()
    await life.change(suspended=True)
    await life.rests("Suspended")
    assert life.world.steps()[-1] == "unwatch"
    await tell(life, "main", "a")
    assert "events main: a" not in life.world.log
    await life.change(suspended=False)
    await life.rests()
    assert life.world.log.count("watch") == 2


async def test_a_held_package_goes_on_with_the_events_of_what_is_loaded(life: Life) -> None:
    life.world.desired = replace(life.world.desired, on_failure=OnFailure.HOLD, attempts=1)
    life.world.hooks = (following("hooks/x"),)
    await life.changed()
    await life.rests()
    life.world.fail("helm.upgrade_release", TransientError(Reason.READINESS_TIMEOUT, "0 of 1 available"))
    await life.change(source=source("2"))
    await life.rests("Held")
    life.world.log.clear()
    await tell(life, "main", "event", "values")
    await did(life, "events main: event", "events main: values")
    ran = [one for one in life.world.requests if isinstance(one, EventsRequest)]
    assert {one.artifact for one in ran} == {artifact("2")}
    assert (await life.status()).phase == "Held"
    assert life.world.steps() == ["events main: event", "events main: values"], "no step is begun"
    assert (await life.lifecycles.retry(life.key, ACTION)).accepted
    await did(life, "upgrade_release 2:s1+event")
    await life.lifecycles.pause(life.key, ACTION)
    await life.rests("Paused")
    life.world.log.clear()
    await tell(life, "main", "event")
    await life.changed()
    await eventually(lambda: "observe" in life.world.log)
    assert life.world.steps() == [], "paused, nothing is begun"


async def test_a_paused_package_keeps_its_events(life: Life) -> None:
    life.world.hooks = (following("hooks/x"),)
    await life.changed()
    await life.rests()
    await life.lifecycles.pause(life.key, ACTION)
    await tell(life, "main", "a")
    queues = (await life.lifecycles.queues(life.key)).queues
    assert [one.name for one in queues["prod.web/main"]] == ["EventHook"]
    assert "events main: a" not in life.world.log
    await life.lifecycles.resume(life.key, ACTION)
    await did(life, "events main: a")


async def test_removal_ends_the_queues_before_anything_else(life: Life) -> None:
    life.world.hooks = (following("hooks/x", Binding.BEFORE_DELETE_HELM),)
    await life.changed()
    await life.rests()
    hold = life.world.hold("hook.run_events")
    await tell(life, "main", "a")
    await eventually(hold.started.is_set)
    await life.change(deleting=True)
    await life.ended()
    assert hold.cancelled.is_set()
    steps = life.world.steps()
    assert steps[steps.index("unwatch") :][:3] == ["unwatch", "beforeDeleteHelm hooks/x", "uninstall_release"]


async def test_everything_is_carried_into_the_next_run(life: Life) -> None:
    life.world.hooks = (following("hooks/x"),)
    life.limits = life.limits.model_copy(update={"events": 40})
    await life.changed()
    await life.rests()
    first = (await life.handle.describe()).run_id
    for number in range(12):
        await tell(life, "main", f"n{number}")
    await did(life, *(f"events main: n{number}" for number in range(12)))
    assert (await life.handle.describe()).run_id != first
    assert len([line for line in life.world.log if re.match(r"events main: n\d", line)]) == 12
    assert life.world.log.count("watch") == 1


async def test_telling_can_be_cancelled_while_no_worker_answers(life: Life) -> None:
    await life.changed()
    nobody = replace(life, installation=f"{life.installation}-nobody")
    await nobody.changed()
    telling = asyncio.create_task(nobody.lifecycles.hook_events(nobody.key, HookEvents(queue="main")))
    await asyncio.sleep(0.5)  # the request is on its way, and nobody says so
    telling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await telling
    await nobody.handle.terminate()


def runs_of(life: Life) -> list[EventsRequest]:
    return [request for request in life.world.requests if isinstance(request, EventsRequest)]


async def test_a_run_that_has_begun_ahead_is_come_for_under_its_id(life: Life) -> None:
    life.world.hooks = (following("hooks/x"),)
    await life.changed()
    await life.rests()
    life.world.mailboxes["main"] = ["a"]
    await life.lifecycles.hook_events(life.key, HookEvents(queue="main", sequence=1, run="ahead-1"))
    await did(life, "events main: a")
    await tell(life, "main", "b")
    await did(life, "events main: b")
    first, second = runs_of(life)
    assert (first.run_id, second.run_id != "ahead-1") == ("ahead-1", True)
    assert 0 < first.at <= second.at


async def test_a_run_that_has_begun_ahead_is_come_for_after_the_one_under_way(life: Life) -> None:
    life.world.hooks = (following("hooks/x"),)
    await life.changed()
    await life.rests()
    hold = life.world.hold("hook.run_events")
    await tell(life, "main", "a")
    await eventually(hold.started.is_set)
    # The worker has seen the end of the run that the workflow still waits for.
    life.world.mailboxes["main"].append("b")
    await life.lifecycles.hook_events(life.key, HookEvents(queue="main", sequence=2, run="ahead-2"))
    hold.release()
    await did(life, "events main: a", "events main: b")
    await eventually(lambda: "ahead-2" in {request.run_id for request in runs_of(life)})
    assert next(request.run_id for request in runs_of(life)) != "ahead-2"


async def test_an_answered_pause_holds_for_what_would_begin_ahead(life: Life) -> None:
    life.world.hooks = (following("hooks/x"),)
    await life.changed()
    await life.rests()
    await life.lifecycles.pause(life.key, ACTION)
    assert life.world.log.count("hold") == 1
    await tell(life, "main", "a")
    await life.lifecycles.pause(life.key, ACTION)
    assert "events main: a" not in life.world.log
    await life.lifecycles.resume(life.key, ACTION)
    await did(life, "events main: a")


async def test_a_pause_of_a_package_that_follows_nothing_holds_nothing(life: Life) -> None:
    await life.changed()
    await life.rests()
    await life.lifecycles.pause(life.key, ACTION)
    assert "hold" not in life.world.log
