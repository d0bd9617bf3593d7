"""Actions of ActionRequests have their effect once, whatever happens between who passes them on and the lifecycle."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest
from temporalio.client import Client, WorkflowExecutionStatus
from workflows.life import Life
from workflows.world import FakeWorld

from support.waiting import eventually
from windlass.contracts.lifecycle import Action, Limits, PauseAction, ResumeAction
from windlass.contracts.objects import ACTIONS_KEPT, ActionRecord
from windlass.contracts.steps import Restored
from windlass.domain.errors import Actor, PermanentError, Reason, TransientError

pytestmark = pytest.mark.stack

PAUSE = PauseAction(who="ada", why="a test", uid="u-pause", asked=time.time())
RESUME = ResumeAction(who="ada", why="a test", uid="u-resume", asked=time.time())


async def carried_out(life: Life) -> list[str]:
    """Return the actions that status holds."""
    return [one.action for one in (await life.status()).actions]


async def test_the_same_request_is_carried_out_once(life: Life) -> None:
    await life.changed()
    await life.rests()
    first = await life.lifecycles.carry_out(life.key, "pause", PAUSE)
    assert first.accepted
    await life.lifecycles.carry_out(life.key, "resume", RESUME)
    again = await life.lifecycles.carry_out(life.key, "pause", PAUSE)
    assert again == first
    view = await life.status()
    assert not view.paused, "the second time it did nothing"
    assert [one.action for one in view.actions] == ["pause", "resume"]


async def test_two_at_a_time_are_one(life: Life) -> None:
    await life.changed()
    await life.rests()
    send = life.lifecycles.carry_out
    one, other = await asyncio.gather(send(life.key, "pause", PAUSE), send(life.key, "pause", PAUSE))
    assert one == other
    assert one.accepted
    assert await carried_out(life) == ["pause"]


async def test_the_uid_is_written_before_the_effect(life: Life) -> None:
    await life.changed()
    await life.rests()
    before = len(life.world.statuses)
    await life.lifecycles.carry_out(life.key, "pause", PAUSE)
    await life.rests("Paused")
    first, *_, last = [one.status for one in life.world.statuses[before:]]
    assert [one.uid for one in first.actions or []] == ["u-pause"]
    assert not first.paused
    assert last.paused
    assert [one.uid for one in last.actions or []] == ["u-pause"]


async def test_without_a_status_there_is_no_effect_and_the_next_try_has_it(life: Life) -> None:
    await life.changed()
    await life.rests()
    life.world.fail("status.write", PermanentError(Reason.FORBIDDEN, "no rights", actor=Actor.ADMIN))
    with pytest.raises(TransientError, match="cannot be written now"):
        await life.lifecycles.carry_out(life.key, "pause", PAUSE)
    view = await life.status()
    assert (view.paused, view.actions) == (False, ())
    assert (await life.lifecycles.carry_out(life.key, "pause", PAUSE)).accepted


async def test_a_refused_request_leaves_no_trace(life: Life) -> None:
    await life.changed()
    await life.rests()
    answer = await life.lifecycles.carry_out(life.key, "resume", RESUME)
    assert (answer.accepted, answer.unknown, answer.message) == (False, False, "not paused")
    assert await carried_out(life) == []


async def test_what_an_earlier_workflow_has_written_is_unknown_to_the_next(temporal: Client) -> None:
    kept = ActionRecord(action="pause", uid=PAUSE.uid, who="ada", at=datetime.fromtimestamp(int(PAUSE.asked), UTC))
    life = Life(client=temporal, world=FakeWorld(restored=Restored(actions=(kept,))))
    async with life.worker():
        await life.changed()
        await life.rests()
        answer = await life.lifecycles.carry_out(life.key, "pause", PAUSE)
        assert (answer.accepted, answer.unknown) == (False, True)
        assert not (await life.status()).paused
        other = await life.lifecycles.carry_out(life.key, "pause", PAUSE.model_copy(update={"uid": "u-other"}))
        assert other.accepted, "one whose uid is nowhere has had no effect"
        await life.handle.terminate("the test is over")


async def test_what_is_older_than_all_that_status_keeps_is_unknown(temporal: Client) -> None:
    kept = tuple(
        ActionRecord(action="retry", uid=f"u-{number}", who="ada", at=datetime.fromtimestamp(int(PAUSE.asked), UTC))
        for number in range(ACTIONS_KEPT)
    )
    life = Life(client=temporal, world=FakeWorld(restored=Restored(actions=kept)))
    async with life.worker():
        await life.changed()
        await life.rests()
        old = PAUSE.model_copy(update={"uid": "u-old", "asked": PAUSE.asked - 3600})
        assert (await life.lifecycles.carry_out(life.key, "pause", old)).unknown
        new = PAUSE.model_copy(update={"uid": "u-new", "asked": PAUSE.asked + 1})
        assert (await life.lifecycles.carry_out(life.key, "pause", new)).accepted
        await life.handle.terminate("the test is over")


@pytest.fixture
async def short(temporal: Client) -> AsyncIterator[Life]:
    """A lifecycle whose runs are short."""
    life = Life(client=temporal, world=FakeWorld(), limits=Limits(events=20))
    async with life.worker():
        yield life
        if (await life.handle.describe()).status is WorkflowExecutionStatus.RUNNING:
            await life.handle.terminate("the test is over")


async def test_answers_are_carried_over_to_the_next_run(short: Life) -> None:
    await short.changed()
    await short.rests()
    first = await short.lifecycles.carry_out(short.key, "pause", PAUSE)
    await short.lifecycles.carry_out(short.key, "resume", RESUME)
    run = (await short.handle.describe()).run_id

    async def next_run() -> bool:
        await short.lifecycles.carry_out(short.key, "retry", Action(who="ada", uid="u-retry"))
        await short.changed()
        return (await short.handle.describe()).run_id != run

    await eventually(next_run, what="another run has taken over")
    assert await short.lifecycles.carry_out(short.key, "pause", PAUSE) == first
    view = await short.status()
    assert (view.paused, [one.action for one in view.actions]) == (False, ["pause", "resume"])
