"""Actions of people, and questions."""

from __future__ import annotations

import asyncio

import pytest
from temporalio.client import WorkflowExecutionStatus
from workflows.life import ACTION, Life
from workflows.world import hook

from support.waiting import eventually
from windlass.domain.packages.model import Binding

pytestmark = pytest.mark.stack


async def test_pausing_finishes_the_running_step_and_begins_no_other(life: Life) -> None:
    hold = life.world.hold("package.download")
    await life.changed()
    await hold.started.wait()
    answer = await life.lifecycles.pause(life.key, ACTION)
    assert (answer.accepted, answer.step) == (True, "Download")
    hold.release()
    assert (await life.rests("Paused")).phase == "Paused"
    assert life.world.steps() == ["add_finalizer", "download 1"]
    assert not (await life.lifecycles.pause(life.key, ACTION)).accepted
    assert (await life.lifecycles.resume(life.key, ACTION)).accepted
    await life.rests()
    assert [o.action for o in life.world.statuses[-1].status.actions or []] == ["pause", "resume"]
    assert not (await life.lifecycles.resume(life.key, ACTION)).accepted


async def test_changes_wait_while_paused_and_removal_does_not(life: Life) -> None:
    await life.changed()
    await life.rests()
    await life.lifecycles.pause(life.key, ACTION)
    life.world.log.clear()
    await life.change(settings="s2")
    await life.rests("Paused")
    assert life.world.steps() == []
    await life.change(deleting=True)
    assert await life.ended() is WorkflowExecutionStatus.COMPLETED


async def test_a_pause_ends_with_the_life_it_was_ordered_for(life: Life) -> None:
    await life.changed()
    await life.rests()
    await life.lifecycles.pause(life.key, ACTION)
    await life.rests("Paused")
    hold = life.world.hold("package.release_finalizer")
    await life.change(deleting=True)
    await hold.started.wait()
    life.world.change(uid="u2", deleting=False, finalizer=False)
    await life.changed()
    hold.release()
    assert (await life.rests()).actions == ()


async def test_questions_are_answered_while_a_step_runs(life: Life) -> None:
    life.world.hooks = (hook("hooks/a", Binding.BEFORE_HELM, Binding.AFTER_HELM),)
    hold = life.world.hold("hook.run")
    await life.changed()
    await hold.started.wait()
    status = await life.status()
    assert (status.phase, status.step, status.hold) == ("Installing", "BeforeHelm hooks/a", "")
    (queue,) = (await life.lifecycles.queues(life.key)).queues.values()
    assert [(step.name, step.running) for step in queue] == [
        ("BeforeHelm hooks/a", True),
        ("UpgradeRelease", False),
        ("AfterHelm hooks/a", False),
    ]
    dump = await life.lifecycles.dump(life.key)
    assert dump.running == "BeforeHelm hooks/a"
    assert dump.state.progress.loaded is not None
    hold.release()
    await life.rests()
    assert list((await life.lifecycles.queues(life.key)).queues.items()) == [("prod.web", ())]


async def test_questions_are_answered_after_the_end(life: Life) -> None:
    await life.changed()
    await life.rests()
    await life.change(deleting=True)
    await life.ended()
    assert (await life.status()).phase == "Removed"


async def test_a_long_step_shows_in_status_after_a_second_and_a_short_one_does_not(life: Life) -> None:
    hold = life.world.hold("helm.upgrade_release")
    await life.changed()
    await hold.started.wait()
    started = asyncio.get_running_loop().time()
    await eventually(lambda: life.world.statuses)
    assert asyncio.get_running_loop().time() - started > 0.8
    told = life.world.statuses[-1].status
    assert (told.phase, told.step) == ("Installing", "UpgradeRelease")
    hold.release()
    await life.rests()
    assert life.world.log.count("status") == 2


async def test_nobody_is_told_that_new_settings_run_before_they_do(life: Life) -> None:
    life.world.hooks = (hook("hooks/a", Binding.BEFORE_HELM),)
    await life.changed()
    await life.rests()
    life.world.statuses.clear()
    hold = life.world.hold("hook.run")
    await life.change(settings="s2")
    await hold.started.wait()
    told = (await eventually(lambda: life.world.statuses))[-1].status
    ready = next(c for c in told.conditions or [] if c.type == "Ready")
    assert (told.observed_generation, ready.status) == (2, "False")
    hold.release()
    await life.rests()
