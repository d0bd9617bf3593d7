"""Whole lives: what is done, and in which order."""

from __future__ import annotations

from dataclasses import replace

import pytest
from temporalio.client import WorkflowExecutionStatus
from workflows.life import Life
from workflows.world import artifact, hook, source

from windlass.contracts.steps import Restored
from windlass.domain.errors import Reason, TransientError
from windlass.domain.lifecycle.steps import Desired, completion_mark
from windlass.domain.packages.model import Binding

pytestmark = pytest.mark.stack

HOOKS = (
    hook("hooks/late", Binding.ON_STARTUP, Binding.BEFORE_HELM, order=20),
    hook("hooks/early", Binding.BEFORE_HELM, Binding.AFTER_HELM, Binding.BEFORE_DELETE_HELM, order=10),
    hook("hooks/last", Binding.AFTER_DELETE_HELM),
)
INSTALL = ["add_finalizer", "download 1", "install 1", "load 1", "apply_settings s1", "upgrade_release 1:s1"]
RUN = ["beforeHelm hooks/early", "beforeHelm hooks/late", "upgrade_release 1:s1", "afterHelm hooks/early"]
REMOVAL = ["uninstall_release", "clean_up", "release_finalizer"]


async def test_install(life: Life) -> None:
    await life.changed()
    status = await life.rests()
    assert life.world.steps() == INSTALL
    assert (status.phase, status.version, status.failure) == ("Running", "1", None)
    told = life.world.statuses[-1].status
    assert {c.type: c.status for c in told.conditions or []} == {
        "Ready": "True",
        "RequirementsMet": "True",
        "ReadyOnFilesystem": "True",
        "ReadyInRuntime": "True",
        "SettingsValid": "True",
        "WaitConverge": "False",
        "HooksProcessed": "True",
        "HelmApplied": "True",
        "ReadyInCluster": "True",
        "InSync": "True",
    }


async def test_content_that_is_at_hand_is_not_downloaded(life: Life) -> None:
    life.world.at_hand = True
    await life.changed()
    status = await life.rests()
    assert life.world.steps() == [step for step in INSTALL if step != "download 1"]
    assert (status.phase, status.version, status.failure) == ("Running", "1", None)


async def test_install_with_hooks_in_order(life: Life) -> None:
    life.world.hooks = HOOKS
    await life.changed()
    await life.rests()
    assert life.world.steps() == [*INSTALL[:-1], "onStartup hooks/late", *RUN]


async def test_values_changed_after_helm_make_exactly_one_more_release(life: Life) -> None:
    life.world.hooks = HOOKS[1:]
    life.world.after_helm_changes_values = True
    await life.changed()
    await life.rests()
    assert life.world.steps()[5:] == [
        "beforeHelm hooks/early",
        "upgrade_release 1:s1",
        "afterHelm hooks/early",
        "upgrade_release 1:s1+after",
    ]


@pytest.mark.parametrize(("before", "after"), [("1", "2"), ("2", "1")], ids=["upgrade", "downgrade"])
async def test_another_version_keeps_the_release_until_it_is_upgraded(life: Life, before: str, after: str) -> None:
    life.world.hooks = HOOKS
    life.world.desired = replace(life.world.desired, source=source(before))
    await life.changed()
    await life.rests()
    life.world.log.clear()
    await life.change(source=source(after))
    status = await life.rests()
    assert life.world.steps() == [
        f"download {after}",
        f"install {after}",
        f"load {after}",
        "apply_settings s1",
        "onStartup hooks/late",
        *[step.replace("1:", f"{after}:") for step in RUN],
    ]
    assert status.version == after


async def test_new_settings_are_applied_and_run_without_starting_again(life: Life) -> None:
    life.world.hooks = HOOKS
    await life.changed()
    await life.rests()
    life.world.log.clear()
    await life.change(settings="s2")
    await life.rests()
    assert life.world.steps() == ["apply_settings s2", *[step.replace("s1", "s2") for step in RUN]]


async def test_a_look_that_finds_nothing_new_does_nothing(life: Life) -> None:
    await life.changed()
    await life.rests()
    events = len(await life.events())
    life.world.log.clear()
    await life.change()
    await life.rests()
    assert life.world.steps() == []
    assert len(await life.events()) - events < 15


async def test_suspension_keeps_the_release_and_resuming_starts_again(life: Life) -> None:
    life.world.hooks = HOOKS
    await life.changed()
    await life.rests()
    life.world.log.clear()
    await life.change(suspended=True)
    assert (await life.rests("Suspended")).phase == "Suspended"
    assert life.world.steps() == []
    assert life.world.release == "1:s1"
    await life.change(suspended=False)
    await life.rests()
    assert life.world.steps() == ["onStartup hooks/late", *RUN]


async def test_suspension_with_delete_on_disable_takes_the_release_away(life: Life) -> None:
    life.world.hooks = HOOKS
    await life.changed()
    await life.rests()
    life.world.log.clear()
    await life.change(suspended=True, delete_on_disable=True)
    assert (await life.rests("Suspended")).version == ""
    assert life.world.steps() == ["beforeDeleteHelm hooks/early", "uninstall_release", "afterDeleteHelm hooks/last"]
    life.world.log.clear()
    await life.change(suspended=False)
    assert (await life.rests()).version == "1"
    assert life.world.steps() == ["load 1", "apply_settings s1", "onStartup hooks/late", *RUN]


async def test_removal(life: Life) -> None:
    life.world.hooks = HOOKS
    await life.changed()
    await life.rests()
    life.world.log.clear()
    await life.change(deleting=True)
    assert await life.ended() is WorkflowExecutionStatus.COMPLETED
    assert life.world.steps() == [
        "beforeDeleteHelm hooks/early",
        "uninstall_release",
        "afterDeleteHelm hooks/last",
        "clean_up",
        "release_finalizer",
    ]
    assert not life.world.desired.exists


async def test_a_package_that_never_loaded_leaves_nothing(life: Life) -> None:
    life.world.fail("package.download", TransientError(Reason.PACKAGE_NOT_FOUND, "there is no web 1"))
    hold = life.world.hold("package.download")
    await life.changed()
    await hold.started.wait()
    await life.change(deleting=True)
    assert await life.ended() is WorkflowExecutionStatus.COMPLETED
    assert hold.cancelled.is_set()
    assert life.world.steps() == ["add_finalizer", "download 1", "download 1", "clean_up", "release_finalizer"]


async def test_a_release_that_is_abandoned_stays_and_no_hook_runs(life: Life) -> None:
    life.world.hooks = HOOKS
    await life.changed()
    await life.rests()
    life.world.log.clear()
    await life.change(deleting=True, abandon=True)
    assert await life.ended() is WorkflowExecutionStatus.COMPLETED
    assert life.world.steps() == ["clean_up", "release_finalizer"]
    assert life.world.release == "1:s1"


async def test_a_package_created_again_during_its_removal_lives(life: Life) -> None:
    await life.changed()
    await life.rests()
    hold = life.world.hold("helm.uninstall_release")
    await life.change(deleting=True)
    await hold.started.wait()
    life.world.log.clear()
    # Its finalizer was taken by hand, and the name is in use again: the removal of the old life is finished first.
    life.world.desired = Desired(exists=True, uid="u2", generation=1, source=source("1"), settings="s9")
    await life.changed()
    hold.release()
    await life.rests()
    assert life.world.steps() == [*REMOVAL[1:], *[step.replace("s1", "s9") for step in INSTALL]]
    assert life.world.statuses[-1].uid == "u2"


async def test_a_rebuilt_lifecycle_runs_no_hook_and_looks_once_whether_the_release_stands(life: Life) -> None:
    life.world.hooks = HOOKS
    await life.changed()
    await life.rests()
    told = life.world.statuses[-1].status
    await life.handle.terminate("Temporal's database is lost")
    assert told.completed == completion_mark(artifact("1"), "s1")
    life.world.restored = Restored(
        artifact=artifact("1"), released=artifact("1"), completed=told.completed, version=told.version or ""
    )
    life.world.log.clear()
    await life.changed()
    await life.rests()
    assert life.world.steps() == ["install 1", "load 1", "apply_settings s1", "upgrade_release 1:s1"]


async def test_a_rebuilt_removal_goes_on_where_it_can(life: Life) -> None:
    life.world.hooks = HOOKS
    life.world.desired = replace(life.world.desired, finalizer=True, deleting=True)
    life.world.restored = Restored(artifact=artifact("2"), released=artifact("1"))
    hold = life.world.hold("helm.uninstall_release")
    await life.changed()
    await hold.started.wait()
    await life.change()  # a second look during the removal must not start it over
    hold.release()
    assert await life.ended() is WorkflowExecutionStatus.COMPLETED
    assert life.world.steps() == [
        "load 1",
        "beforeDeleteHelm hooks/early",
        "uninstall_release",
        "afterDeleteHelm hooks/last",
        "clean_up",
        "release_finalizer",
    ]
