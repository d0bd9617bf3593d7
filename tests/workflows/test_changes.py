"""What a change does to a step that is running."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest
from temporalio.client import WorkflowExecutionStatus
from workflows.life import ACTION, Life
from workflows.world import hook, source

from support.waiting import eventually
from windlass.domain.errors import PermanentError, Reason
from windlass.domain.lifecycle.conditions import Status, Type, find
from windlass.domain.packages.model import Binding

pytestmark = pytest.mark.stack


async def test_another_version_cancels_a_running_release_and_awaits_its_end(life: Life) -> None:
    hold = life.world.hold("helm.upgrade_release")
    await life.changed()
    await hold.started.wait()
    await life.change(source=source("2"))
    status = await life.rests()
    assert hold.cancelled.is_set()
    assert status.version == "2"
    assert status.failure is None
    assert life.world.steps()[5:] == [
        "upgrade_release 1:s1",
        "download 2",
        "install 2",
        "load 2",
        "apply_settings s1",
        "upgrade_release 2:s1",
    ]


async def test_new_settings_leave_the_first_release_running_and_follow_it(life: Life) -> None:
    hold = life.world.hold("helm.upgrade_release")
    await life.changed()
    await hold.started.wait()
    await life.change(settings="s2")
    await eventually(lambda: life.world.log.count("observe") == 2)
    hold.release()
    await life.rests()
    assert not hold.cancelled.is_set()
    assert life.world.steps()[5:] == ["upgrade_release 1:s1", "apply_settings s2", "upgrade_release 1:s2"]


async def test_newer_settings_cancel_the_run_of_older_ones(life: Life) -> None:
    await life.changed()
    await life.rests()
    life.world.log.clear()
    hold = life.world.hold("helm.upgrade_release")
    await life.change(settings="s2")
    await hold.started.wait()
    await life.change(settings="s3")
    await life.rests()
    assert hold.cancelled.is_set()
    assert life.world.steps() == [
        "apply_settings s2",
        "upgrade_release 1:s2",
        "apply_settings s3",
        "upgrade_release 1:s3",
    ]


async def test_settings_that_arrive_before_loading_are_not_lost(life: Life) -> None:
    hold = life.world.hold("package.download")
    await life.changed()
    await hold.started.wait()
    await life.change(settings="s2")
    hold.release()
    await life.rests()
    assert life.world.steps()[-2:] == ["apply_settings s2", "upgrade_release 1:s2"]


async def test_settings_that_change_while_they_are_read_are_looked_at_again(life: Life) -> None:
    hold = life.world.hold("package.install")
    await life.changed()
    await hold.started.wait()
    life.world.change(settings="s2")  # nobody has told of it when the step reads it
    hold.release()
    await life.rests()
    assert life.world.steps()[-2:] == ["apply_settings s2", "upgrade_release 1:s2"]
    assert (await life.status()).settings == "s2"


async def test_suspending_cancels_the_release_of_a_start(life: Life) -> None:
    hold = life.world.hold("helm.upgrade_release")
    await life.changed()
    await hold.started.wait()
    await life.change(suspended=True)
    await life.rests("Suspended")
    assert hold.cancelled.is_set()
    await life.change(suspended=False)
    assert (await life.rests()).version == "1"


async def test_removal_cancels_a_running_release_and_takes_away_what_it_may_have_made(life: Life) -> None:
    hold = life.world.hold("helm.upgrade_release")
    await life.changed()
    await hold.started.wait()
    await life.change(deleting=True)
    assert await life.ended() is WorkflowExecutionStatus.COMPLETED
    assert hold.cancelled.is_set()
    assert life.world.steps()[5:] == ["upgrade_release 1:s1", "uninstall_release", "clean_up", "release_finalizer"]


async def test_removal_in_flight_is_not_started_over(life: Life) -> None:
    life.world.hooks = (hook("hooks/bye", Binding.BEFORE_DELETE_HELM),)
    await life.changed()
    await life.rests()
    life.world.log.clear()
    hold = life.world.hold("helm.uninstall_release")
    await life.change(deleting=True)
    await hold.started.wait()
    await life.change(source=source("2"), settings="s2")
    await eventually(lambda: life.world.log.count("observe") == 2)
    hold.release()
    assert await life.ended() is WorkflowExecutionStatus.COMPLETED
    assert not hold.cancelled.is_set()
    assert life.world.steps() == [
        "beforeDeleteHelm hooks/bye",
        "uninstall_release",
        "clean_up",
        "release_finalizer",
    ]


async def test_abandoning_ends_an_uninstall_that_hangs(life: Life) -> None:
    await life.changed()
    await life.rests()
    life.world.log.clear()
    hold = life.world.hold("helm.uninstall_release")
    await life.change(deleting=True)
    await hold.started.wait()
    await life.change(abandon=True)
    assert await life.ended() is WorkflowExecutionStatus.COMPLETED
    assert hold.cancelled.is_set()
    assert life.world.steps() == ["uninstall_release", "clean_up", "release_finalizer"]


async def test_changes_during_a_step_coalesce_into_one_look(life: Life) -> None:
    hold = life.world.hold("package.download")
    looking = life.world.hold("package.observe")
    looking.release()
    await life.changed()
    await hold.started.wait()
    slow = life.world.hold("package.observe")
    await life.changed()
    await slow.started.wait()
    life.world.change(settings="s2")
    for _ in range(20):
        await life.changed()
    slow.release()
    await eventually(lambda: life.world.log.count("observe") == 3)
    hold.release()
    await life.rests()
    assert life.world.log.count("observe") == 3
    assert life.world.release == "1:s2"


async def test_an_object_created_again_while_the_old_one_is_looked_for_lives(life: Life) -> None:
    await life.changed()
    await life.rests()
    looking = life.world.hold("package.observe")
    await life.change(exists=False)
    await looking.started.wait()
    # The answer "it is gone" is on its way when the name is taken again; the watcher tells the running lifecycle.
    life.world.change(exists=True, uid="u2", finalizer=False)
    await life.changed()
    looking.release()
    assert (await life.rests()).version == "1"
    assert life.world.statuses[-1].uid == "u2"
    assert life.world.desired.finalizer


async def test_a_failed_look_after_a_removal_does_not_miss_the_next_object(life: Life) -> None:
    await life.changed()
    await life.rests()
    hold = life.world.hold("helm.uninstall_release")
    await life.change(deleting=True)
    await hold.started.wait()
    # The one signal that tells of the next object is taken notice of during the removal; there is no other.
    looks = life.world.log.count("observe")
    await life.change(uid="u2", deleting=False, finalizer=False)
    await eventually(partial(life.world.looked, looks + 1))
    life.world.fail("package.observe", PermanentError(Reason.FORBIDDEN, "may not read applications"))
    hold.release()
    assert (await life.rests()).version == "1"
    assert life.world.statuses[-1].uid == "u2"


async def test_an_object_that_was_replaced_unseen_begins_with_nothing_said_and_no_actions(life: Life) -> None:
    await life.changed()
    await life.rests()
    await life.lifecycles.pause(life.key, ACTION)
    await life.rests("Paused")
    life.world.log.clear()
    life.world.statuses.clear()
    hold = life.world.hold("helm.upgrade_release")
    await life.change(uid="u2", finalizer=False)
    await hold.started.wait()
    first = (await eventually(lambda: life.world.statuses))[0].status
    assert {c.type for c in first.conditions or [] if c.status == "True"}.isdisjoint({"Ready", "HooksProcessed"})
    hold.release()
    status = await life.rests()
    assert status.actions == ()
    assert find(status.conditions, Type.READY).status is Status.TRUE
    assert life.world.steps() == [
        "add_finalizer",
        "install 1",
        "load 1",
        "apply_settings s1",
        "upgrade_release 1:s1",
    ]


@pytest.mark.parametrize("at", ["package.observe", "helm.upgrade_release", "status.write", "hook.run", "rest"])
async def test_cancelling_the_workflow_ends_it(life: Life, at: str) -> None:
    life.world.hooks = (hook("hooks/a", Binding.BEFORE_HELM),)
    if at == "rest":
        await life.changed()
        await life.rests()
    else:
        hold = life.world.hold(at)
        await life.changed()
        await hold.started.wait()
    await life.handle.cancel()
    async with asyncio.timeout(10):
        assert await life.ended() is WorkflowExecutionStatus.CANCELED
