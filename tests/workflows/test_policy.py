"""When an upgrade fails, and the actions for single steps."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from temporalio.client import WorkflowExecutionStatus
from workflows.life import ACTION, Life
from workflows.world import artifact, hook, source

from support.waiting import eventually
from windlass.contracts.lifecycle import Limits, PauseAction, ResumeAction, RollbackAction
from windlass.contracts.objects import Condition, PackageStatus
from windlass.contracts.steps import HookRequest, Restored
from windlass.domain.errors import PermanentError, Reason, TransientError
from windlass.domain.lifecycle.steps import OnFailure, Step
from windlass.domain.packages.model import Binding

pytestmark = pytest.mark.stack

NOT_READY = TransientError(Reason.READINESS_TIMEOUT, "Deployment/web: 0 of 1 available")
BROKEN = PermanentError(Reason.APPLY_MANIFESTS_FAILED, "the template is broken")


async def good(life: Life, on_failure: OnFailure, attempts: int = 2, **fields: Any) -> None:
    """Bring version 1 with settings s1 to rest under a policy."""
    life.world.desired = replace(life.world.desired, on_failure=on_failure, attempts=attempts, **fields)
    await life.changed()
    await life.rests()
    life.world.log.clear()


def told(life: Life) -> PackageStatus:
    return life.world.statuses[-1].status


def ready(life: Life) -> Condition:
    return next(c for c in told(life).conditions or [] if c.type == "Ready")


def notes(life: Life) -> list[str]:
    return [note.reason for request in life.world.statuses for note in request.notes]


def releases(life: Life) -> list[str]:
    return [step for step in life.world.steps() if step.startswith("upgrade_release")]


async def test_a_failed_upgrade_goes_back_and_stays_there(life: Life) -> None:
    life.world.hooks = (hook("hooks/a", Binding.BEFORE_HELM),)
    await good(life, OnFailure.ROLLBACK)
    life.world.fail("helm.upgrade_release", NOT_READY, NOT_READY)
    await life.change(source=source("2"), settings="s2")
    status = await life.rests("RolledBack")
    assert (status.phase, status.version, status.failure) == ("RolledBack", "1", None)
    assert releases(life) == ["upgrade_release 2:s2", "upgrade_release 2:s2", "upgrade_release 1:s1"]
    back = life.world.steps()[life.world.steps().index("install 1") :]
    assert back == ["install 1", "load 1", "apply_settings s1", "beforeHelm hooks/a", "upgrade_release 1:s1"]
    said = told(life)
    assert (ready(life).status, ready(life).reason) == ("False", "RolledBack")
    assert "2 with these settings was rejected at UpgradeRelease (ReadinessTimeout)" in ready(life).message
    assert said.rejected is not None
    assert (said.rejected.version, said.rejected.settings, said.rejected.reason) == ("2", "s2", "ReadinessTimeout")
    assert (said.rejected.instead.version, said.rejected.instead.revision) == ("1", 3)
    assert [(one.version, one.revision) for one in said.revisions or []] == [("1", 3)]
    assert notes(life).count("RollingBack") == notes(life).count("RolledBack") == 1

    life.world.log.clear()
    await life.changed()
    await life.change(abandon=False)
    await life.rests("RolledBack")
    assert life.world.steps() == [], "what was rejected is not tried again"


async def test_another_wish_ends_a_rejection(life: Life) -> None:
    await good(life, OnFailure.ROLLBACK)
    life.world.fail("helm.upgrade_release", BROKEN)
    await life.change(source=source("2"))
    await life.rests("RolledBack")
    assert releases(life) == ["upgrade_release 2:s1", "upgrade_release 1:s1"], "what somebody must mend counts at once"
    await life.change(source=source("3"))
    status = await life.rests()
    assert (status.phase, status.version) == ("Running", "3")
    assert (told(life).rejected, ready(life).status) == (None, "True")


async def test_retry_tries_what_was_rejected_again(life: Life) -> None:
    await good(life, OnFailure.ROLLBACK)
    life.world.fail("helm.upgrade_release", BROKEN)
    await life.change(source=source("2"))
    await life.rests("RolledBack")
    answer = await life.lifecycles.retry(life.key, ACTION)
    assert (answer.accepted, answer.message) == (True, "2 is tried again")
    assert (await life.rests()).version == "2"


async def test_settings_that_fail_go_back_to_those_before(life: Life) -> None:
    await good(life, OnFailure.ROLLBACK)
    life.world.fail("package.apply_settings", PermanentError(Reason.VALIDATION_FAILED, "settings.port is too high"))
    await life.change(settings="s2")
    assert (await life.rests("RolledBack")).version == "1"
    assert life.world.steps() == ["apply_settings s2", "apply_settings s1", "upgrade_release 1:s1"]
    await life.change(settings="s1")
    assert (await life.rests()).phase == "Running"


async def test_the_way_back_is_tried_until_it_ends(life: Life) -> None:
    await good(life, OnFailure.ROLLBACK)
    life.world.fail("helm.upgrade_release", BROKEN, NOT_READY, NOT_READY, NOT_READY)
    await life.change(source=source("2"))
    assert (await life.rests("RolledBack")).version == "1"
    assert releases(life) == ["upgrade_release 2:s1", *["upgrade_release 1:s1"] * 4]


async def test_failures_with_other_settings_do_not_count(life: Life) -> None:
    await good(life, OnFailure.ROLLBACK, attempts=2)
    life.world.fail("helm.upgrade_release", NOT_READY)
    hold = life.world.hold("helm.upgrade_release")
    life.world.fail("helm.upgrade_release", NOT_READY)
    await life.change(settings="s2")
    await hold.started.wait()
    await life.change(settings="s3")
    assert (await life.rests()).settings == "s3"
    assert releases(life) == [f"upgrade_release 1:{settings}" for settings in ("s2", "s2", "s3", "s3")]


async def test_the_platforms_failures_send_nothing_back(life: Life) -> None:
    await good(life, OnFailure.ROLLBACK, attempts=1)
    down = TransientError(Reason.API_UNAVAILABLE, "the API server restarts")
    life.world.fail("helm.upgrade_release", down, down, down)
    await life.change(source=source("2"))
    assert (await life.rests()).version == "2"


async def test_a_first_installation_is_tried_again_under_any_policy(life: Life) -> None:
    life.world.desired = replace(life.world.desired, on_failure=OnFailure.HOLD, attempts=1)
    life.world.fail("helm.upgrade_release", NOT_READY, NOT_READY)
    await life.changed()
    assert (await life.rests()).version == "1"


async def test_a_held_upgrade_waits_for_retry(life: Life) -> None:
    await good(life, OnFailure.HOLD)
    life.world.fail("helm.upgrade_release", NOT_READY, NOT_READY, NOT_READY)
    await life.change(source=source("2"))
    assert (await life.rests("Held")).phase == "Held"
    said = told(life)
    assert said.held is not None
    assert (said.held.step, said.held.cause.value, said.held.reason) == ("UpgradeRelease", "Failed", "ReadinessTimeout")
    assert (ready(life).reason, said.failure.next_try if said.failure else "") == ("Held", None)
    (queue,) = (await life.lifecycles.queues(life.key)).queues.values()
    assert (queue[0].name, queue[0].held, queue[0].attempt) == ("UpgradeRelease", "Failed", 2)
    await life.changed()
    assert len(releases(life)) == 2
    assert not (await life.lifecycles.resume(life.key, ResumeAction(who="ada"))).accepted
    await life.lifecycles.retry(life.key, ACTION)
    await eventually(lambda: len(releases(life)) == 3)
    await life.rests("Held")
    await life.lifecycles.retry(life.key, ACTION)
    assert (await life.rests()).version == "2"


async def test_a_held_upgrade_can_be_rolled_back(life: Life) -> None:
    await good(life, OnFailure.HOLD, attempts=1)
    life.world.fail("helm.upgrade_release", NOT_READY)
    await life.change(source=source("2"))
    await life.rests("Held")
    answer = await life.lifecycles.rollback(life.key, RollbackAction(who="ada", why="it is late"))
    assert (answer.accepted, answer.message) == (True, "going back to revision 1 (1)")
    assert (await life.rests("RolledBack")).version == "1"
    assert told(life).rejected is not None
    assert [one.text for one in told(life).actions or []] == ["rollback to revision 1 (1)"]


async def test_a_held_upgrade_can_be_accepted_as_it_stands(life: Life) -> None:
    await good(life, OnFailure.HOLD, attempts=1)
    life.world.hooks = (hook("hooks/after", Binding.AFTER_HELM),)
    life.world.fail("helm.upgrade_release", NOT_READY)
    await life.change(source=source("2"))
    await life.rests("Held")
    assert (await life.lifecycles.skip(life.key, ACTION)).accepted
    status = await life.rests()
    assert (status.version, status.phase) == ("2", "Running")
    assert life.world.steps()[-1] == "afterHelm hooks/after"
    applied = next(c for c in told(life).conditions or [] if c.type == "ReadyInCluster")
    assert (applied.status, applied.reason, applied.message) == ("True", "Skipped", "ada accepted it: a test")
    assert [one.version for one in told(life).revisions or []] == ["1"], "what was accepted is not known to be good"


async def lost(life: Life, version: str) -> None:
    """Lose Temporal while the package is held; another workflow takes over what object and Secret tell of it."""
    kept = await life.status()
    await life.handle.terminate("Temporal's database is lost")
    life.world.restored = Restored(
        artifact=artifact(version), released=artifact(version), version=kept.version, control=kept.control
    )
    life.world.log.clear()
    life.world.statuses.clear()
    await life.changed()
    await life.rests("Held")
    assert life.world.steps() == []


async def test_a_hold_that_outlived_its_workflow_can_be_skipped(life: Life) -> None:
    await good(life, OnFailure.HOLD, attempts=1)
    life.world.hooks = (hook("hooks/a", Binding.BEFORE_HELM, Binding.AFTER_HELM),)
    life.world.fail("helm.upgrade_release", NOT_READY)
    await life.change(source=source("2"))
    await life.rests("Held")
    await lost(life, "2")
    answer = await life.lifecycles.skip(life.key, ACTION)
    assert answer.message == "going on with Install; UpgradeRelease is passed over when it is reached"
    status = await life.rests()
    assert (status.version, status.phase, status.control.passing) == ("2", "Running", None)
    assert life.world.steps() == [
        "install 2",
        "load 2",
        "apply_settings s1",
        "beforeHelm hooks/a",
        "afterHelm hooks/a",
    ]
    applied = next(c for c in told(life).conditions or [] if c.type == "ReadyInCluster")
    assert (applied.reason, applied.message) == ("Skipped", "ada accepted it: a test")
    assert [one.version for one in told(life).revisions or []] == ["1"]
    assert [(one.action, one.detail) for one in told(life).actions or []] == [("skip", "UpgradeRelease")]
    await life.change(settings="s2")
    await life.rests()
    assert releases(life) == ["upgrade_release 2:s2"], "one step was passed over, once"


async def test_a_change_takes_back_the_leave_to_skip(life: Life) -> None:
    await good(life, OnFailure.HOLD, attempts=1)
    life.world.fail("helm.upgrade_release", NOT_READY)
    await life.change(source=source("2"))
    await life.rests("Held")
    await lost(life, "2")
    hold = life.world.hold("package.load")
    assert (await life.lifecycles.skip(life.key, ACTION)).accepted
    await hold.started.wait()
    await life.change(settings="s2")
    hold.release()
    await life.rests()
    assert releases(life) == ["upgrade_release 2:s2"]


async def test_a_hold_that_outlived_its_workflow_is_not_skipped_where_it_could_not_be_before(life: Life) -> None:
    await good(life, OnFailure.HOLD, attempts=1)
    life.world.fail("package.apply_settings", PermanentError(Reason.VALIDATION_FAILED, "too high"))
    await life.change(settings="s2")
    await life.rests("Held")
    await lost(life, "1")
    answer = await life.lifecycles.skip(life.key, ACTION)
    assert answer.message == "ApplySettings cannot be skipped: nothing after ApplySettings can be done without it"


async def test_another_wish_ends_a_hold(life: Life) -> None:
    await good(life, OnFailure.HOLD, attempts=1)
    life.world.fail("helm.upgrade_release", NOT_READY)
    await life.change(source=source("2"))
    await life.rests("Held")
    await life.change(settings="s3")
    status = await life.rests()
    assert (status.version, told(life).held) == ("2", None)


async def test_a_held_package_can_be_removed(life: Life) -> None:
    await good(life, OnFailure.HOLD, attempts=1)
    life.world.fail("helm.upgrade_release", NOT_READY)
    await life.change(source=source("2"))
    await life.rests("Held")
    await life.change(deleting=True)
    assert await life.ended() is WorkflowExecutionStatus.COMPLETED


async def test_a_failing_hook_can_be_skipped_and_settings_cannot(life: Life) -> None:
    life.world.hooks = (hook("hooks/a", Binding.BEFORE_HELM),)
    life.world.fail("hook.run", PermanentError(Reason.BEFORE_HELM_HOOKS_FAILED, "exit 1"))
    await life.changed()
    await life.rests("Backoff")
    answer = await life.lifecycles.skip(life.key, ACTION)
    assert (answer.accepted, answer.message) == (True, "BeforeHelm hooks/a is passed over")
    await life.rests()
    life.world.fail("package.apply_settings", PermanentError(Reason.VALIDATION_FAILED, "too high"))
    await life.change(settings="s2")
    await life.rests("Backoff")
    answer = await life.lifecycles.skip(life.key, ACTION)
    assert not answer.accepted
    assert answer.message == "ApplySettings cannot be skipped: nothing after ApplySettings can be done without it"


async def test_a_running_step_is_cancelled_and_waits(life: Life) -> None:
    await good(life, OnFailure.RETRY)
    hold = life.world.hold("helm.upgrade_release")
    await life.change(source=source("2"))
    await hold.started.wait()
    answer = await life.lifecycles.cancel(life.key, ACTION)
    assert (answer.accepted, answer.message) == (
        True,
        "UpgradeRelease is being stopped; the lifecycle holds there",
    )
    await asyncio.wait_for(hold.cancelled.wait(), 10)
    assert (await life.rests("Held")).phase == "Held"
    assert told(life).held is not None
    assert told(life).failure is None
    assert not (await life.lifecycles.cancel(life.key, ACTION)).accepted
    assert "may be half made" in (await life.lifecycles.skip(life.key, ACTION)).message
    assert (await life.lifecycles.resume(life.key, ResumeAction(who="ada"))).accepted
    assert (await life.rests()).version == "2"
    assert releases(life) == ["upgrade_release 2:s1"] * 2


async def test_a_rollback_stops_what_runs(life: Life) -> None:
    await good(life, OnFailure.RETRY)
    hold = life.world.hold("helm.upgrade_release")
    await life.change(source=source("2"))
    await hold.started.wait()
    assert (await life.lifecycles.rollback(life.key, RollbackAction(who="ada"))).accepted
    await asyncio.wait_for(hold.cancelled.wait(), 10)
    assert (await life.rests("RolledBack")).version == "1"


async def test_rollback_to_a_revision(life: Life) -> None:
    await good(life, OnFailure.RETRY)
    for version in ("2", "3"):
        await life.change(source=source(version))
        await life.rests()
    refused = await life.lifecycles.rollback(life.key, RollbackAction(who="ada", to=9))
    assert refused.message == "revision 9 is no good release; there are: 1 (1), 2 (2), 3 (3)"
    refused = await life.lifecycles.rollback(life.key, RollbackAction(who="ada", to=3))
    assert refused.message == "revision 3 (3) is what the object asks for: request retry, or wait for it"
    assert (await life.lifecycles.rollback(life.key, RollbackAction(who="ada", to=1))).accepted
    assert (await life.rests("RolledBack")).version == "1"
    assert not (await life.lifecycles.rollback(life.key, RollbackAction(who="ada"))).accepted
    assert (await life.lifecycles.rollback(life.key, RollbackAction(who="ada", to=2))).accepted
    await eventually(lambda: told(life).version == "2" and told(life).step == "RolledBack")
    assert [(one.version, one.revision) for one in told(life).revisions or []] == [("3", 3), ("1", 4), ("2", 5)]


async def test_breakpoints_hold_one_after_the_other(life: Life) -> None:
    life.world.hooks = (hook("hooks/a", Binding.BEFORE_HELM, Binding.AFTER_HELM),)
    await good(life, OnFailure.RETRY)
    refused = await life.lifecycles.pause(life.key, PauseAction(who="ada", before=("lunch",)))
    assert not refused.accepted
    assert "no step 'lunch'" in refused.message
    answer = await life.lifecycles.pause(life.key, PauseAction(who="ada", before=("run", "afterHelm")))
    assert answer.message == "the lifecycle holds before UpgradeRelease, AfterHelm"
    assert not (await life.lifecycles.resume(life.key, ResumeAction(who="ada"))).accepted
    await life.change(source=source("2"))
    assert (await life.rests("Breakpoint")).phase == "Paused"
    assert life.world.steps()[-1] == "beforeHelm hooks/a"
    said = told(life)
    assert said.held is not None
    assert (said.held.step, said.held.cause.value) == ("UpgradeRelease", "Breakpoint")
    assert said.breakpoints == ["UpgradeRelease", "AfterHelm"]
    (queue,) = (await life.lifecycles.queues(life.key)).queues.values()
    assert [(step.name, step.held) for step in queue] == [
        ("UpgradeRelease", "Breakpoint"),
        ("AfterHelm hooks/a", "Breakpoint"),
    ]
    await life.lifecycles.resume(life.key, ResumeAction(who="ada"))
    await eventually(lambda: told(life).breakpoints == ["AfterHelm"] and told(life).step == "Breakpoint")
    assert life.world.steps()[-1] == "upgrade_release 2:s1"
    await life.lifecycles.resume(life.key, ResumeAction(who="ada", everything=True))
    await life.rests()
    assert told(life).breakpoints is None


async def test_a_breakpoint_before_the_uninstallation_holds_a_removal(life: Life) -> None:
    await good(life, OnFailure.RETRY)
    await life.lifecycles.pause(life.key, PauseAction(who="ada", before=("uninstall",)))
    await life.change(deleting=True)
    assert (await life.rests("Breakpoint")).phase == "Removing"
    await life.lifecycles.resume(life.key, ResumeAction(who="ada"))
    assert await life.ended() is WorkflowExecutionStatus.COMPLETED


async def test_a_cancelled_deletion_hook_can_be_skipped(life: Life) -> None:
    life.world.hooks = (hook("hooks/bye", Binding.BEFORE_DELETE_HELM),)
    await good(life, OnFailure.RETRY)
    hold = life.world.hold("hook.run")
    await life.change(deleting=True)
    await hold.started.wait()
    assert (await life.lifecycles.cancel(life.key, ACTION)).accepted
    await life.rests("Held")
    assert (await life.lifecycles.skip(life.key, ACTION)).accepted
    assert await life.ended() is WorkflowExecutionStatus.COMPLETED
    assert "uninstall_release" in life.world.steps()


async def test_what_is_known_of_failures_is_handed_over(life: Life) -> None:
    life.limits = Limits(events=30)
    await good(life, OnFailure.ROLLBACK)
    first = (await life.handle.describe()).run_id
    await life.lifecycles.pause(life.key, PauseAction(who="ada", before=("uninstall",)))
    life.world.fail("helm.upgrade_release", BROKEN)
    await life.change(source=source("2"))
    await life.rests("RolledBack")
    for _ in range(4):
        await life.change(abandon=False)
        await life.rests("RolledBack")
    assert (await life.handle.describe()).run_id != first
    assert (await life.status()).control.breakpoints == (Step.UNINSTALL_RELEASE,)
    assert releases(life) == ["upgrade_release 2:s1", "upgrade_release 1:s1"]
    assert told(life).rejected is not None
    assert (await life.lifecycles.retry(life.key, ACTION)).accepted
    assert (await life.rests()).version == "2"


async def test_a_hook_that_a_rollback_stops_does_not_lend_its_run_to_another(life: Life) -> None:
    life.world.hooks = (hook("hooks/a", Binding.BEFORE_HELM),)
    await good(life, OnFailure.RETRY)
    hold = life.world.hold("hook.run")
    await life.change(source=source("2"))
    await hold.started.wait()
    assert (await life.lifecycles.rollback(life.key, RollbackAction(who="ada"))).accepted
    await life.rests("RolledBack")
    runs = [one.run_id for one in life.world.requests if isinstance(one, HookRequest)]
    assert len(runs) == len(set(runs)) == 3
