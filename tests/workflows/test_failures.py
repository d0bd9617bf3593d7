"""What fails is visible, is tried again with back-off, and blocks nothing that need not wait."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from temporalio.client import WorkflowExecutionStatus
from workflows.life import ACTION, Life
from workflows.world import hook, source

from support.waiting import eventually
from windlass.contracts.objects import FailureStatus, PackageStatus
from windlass.contracts.steps import HookRequest
from windlass.domain.backoff import FREE_INTERRUPTIONS, JITTER, PERMANENT
from windlass.domain.errors import Actor, PermanentError, Reason, TransientError
from windlass.domain.lifecycle.conditions import Status, Type, find
from windlass.domain.packages.model import Binding

pytestmark = pytest.mark.stack

BUSY = TransientError(Reason.APPLY_MANIFESTS_FAILED, "release web in prod: the API server is busy", hint="wait")
BROKEN = PermanentError(Reason.VALIDATION_FAILED, "settings.port: 0 is not a port", hint="1 to 65535", actor=Actor.USER)


def told(life: Life) -> PackageStatus:
    return life.world.statuses[-1].status


async def failed(life: Life, attempt: int = 1) -> FailureStatus:
    """Wait until this attempt's failure stands in the object's status."""

    def failure() -> FailureStatus | None:
        found = told(life).failure if life.world.statuses else None
        return found if found and found.attempt >= attempt else None

    return await eventually(failure, what=f"failure {attempt} in status")


async def test_a_failure_stands_in_status_and_heals(life: Life) -> None:
    life.world.fail("helm.upgrade_release", BUSY, BUSY)
    before = time.time()
    await life.changed()
    failure = await failed(life, 2)
    assert (failure.step, failure.reason, failure.attempt) == ("UpgradeRelease", "ApplyManifestsFailed", 2)
    assert (failure.message, failure.hint, failure.actor) == (BUSY.message, "wait", None)
    conditions = {c.type: c for c in told(life).conditions or []}
    assert conditions["HelmApplied"].status == "False"
    assert (conditions["Ready"].status, conditions["Ready"].reason) == ("False", "ApplyManifestsFailed")
    status = await life.rests()
    # 0.5 s after the first failure and 0.75 s after the second, give or take a fifth.
    assert time.time() - before > (0.5 + 0.75) * (1 - JITTER)
    assert status.failure is None
    assert told(life).failure is None
    assert life.world.steps().count("upgrade_release 1:s1") == 3


async def test_what_somebody_must_repair_waits_ten_minutes_and_says_so(life: Life) -> None:
    life.world.fail("package.apply_settings", BROKEN)
    await life.changed()
    failure = await failed(life)
    assert failure.actor is Actor.USER
    assert failure.next_try is not None
    assert PERMANENT * (1 - JITTER) - 5 < (failure.next_try - datetime.now(UTC)).total_seconds() < 1.2 * PERMANENT
    assert {c.type: c.reason for c in told(life).conditions or [] if c.status == "False"} == {
        "SettingsValid": "ValidationFailed",
        "ReadyInRuntime": "ApplySettings",
        "Ready": "ValidationFailed",
    }
    (queue,) = (await life.lifecycles.queues(life.key)).queues.values()
    assert (queue[0].name, queue[0].attempt, queue[0].error) == ("ApplySettings", 1, BROKEN.message)
    assert queue[0].next_try == failure.next_try


async def test_repairing_the_object_tries_at_once(life: Life) -> None:
    life.world.fail("package.apply_settings", BROKEN)
    await life.changed()
    await failed(life)
    await life.change(settings="s2")
    assert (await life.rests()).settings == "s2"


async def test_an_order_tries_at_once_and_is_kept(life: Life) -> None:
    life.world.fail("package.apply_settings", BROKEN)
    await life.changed()
    await failed(life)
    answer = await life.lifecycles.retry(life.key, ACTION)
    assert answer.accepted
    await life.rests()
    assert [(o.action, o.who, o.why) for o in told(life).actions or []] == [("retry", "ada", "a test")]
    notes = [note.note for request in life.world.statuses for note in request.notes]
    assert "ada requested retry: a test" in notes
    again = await life.lifecycles.retry(life.key, ACTION)
    assert (again.accepted, again.message) == (False, "nothing has failed")


async def test_a_failed_wish_is_forgotten_with_the_wish(life: Life) -> None:
    await life.changed()
    await life.rests()
    life.world.fail("helm.uninstall_release", *[BUSY] * 50)
    await life.change(suspended=True, delete_on_disable=True)
    await failed(life)
    await life.change(delete_on_disable=False)
    status = await life.rests("Suspended")
    assert status.failure is None
    conditions = {c.type: c.reason for c in told(life).conditions or []}
    assert conditions["Ready"] == "Suspended"


async def test_a_package_that_cannot_be_loaded_is_downloaded_anew(life: Life) -> None:
    life.world.fail("package.load", PermanentError(Reason.LOAD_FAILED, "package.yaml:3: no name"))
    await life.changed()
    await failed(life)
    await life.lifecycles.retry(life.key, ACTION)
    await life.rests()
    assert life.world.steps()[1:6] == ["download 1", "install 1", "load 1", "download 1", "install 1"]


async def test_the_first_look_may_fail(life: Life) -> None:
    life.world.fail("package.observe", PermanentError(Reason.FORBIDDEN, "may not read applications"))
    await life.changed()
    await eventually(lambda: "observe" in life.world.log)
    status = await eventually(life.status)
    assert status.failure is not None
    assert (status.failure.step, status.failure.reason) == ("Observe", "Forbidden")
    assert life.world.statuses == []
    await life.changed()
    assert (await life.rests()).failure is None


async def test_a_status_that_cannot_be_written_holds_nothing_up(life: Life) -> None:
    life.world.fail("status.write", *[PermanentError(Reason.API_REJECTED, "status is not served")] * 3)
    await life.changed()
    await life.rests()
    assert life.world.steps()[-1] == "upgrade_release 1:s1"
    assert life.world.log.count("status") == 4
    notes = [note.reason for note in life.world.statuses[-1].notes]
    assert "Ready" in notes  # nothing that is owed was lost


async def test_a_status_that_cannot_be_written_is_tried_with_back_off(life: Life) -> None:
    life.world.fail("status.write", *[PermanentError(Reason.API_REJECTED, "status is not served")] * 1000)
    await life.changed()
    await eventually(lambda: life.world.log.count("status") == 1)
    before = time.time()
    await eventually(lambda: life.world.log.count("status") >= 3)
    assert time.time() - before > (0.5 + 0.75) * (1 - JITTER) - 0.1


@pytest.mark.parametrize(
    ("name", "line"), [("helm.upgrade_release", "upgrade_release 1:s1"), ("hook.run", "beforeHelm hooks/a")]
)
async def test_a_step_that_lost_its_worker_is_taken_up_again_at_once(life: Life, name: str, line: str) -> None:
    life.world.hooks = (hook("hooks/a", Binding.BEFORE_HELM),)
    begun = life.world.lose(name)
    await life.changed()
    await begun.wait()
    await life.rests()
    assert life.world.steps().count(line) == 2
    assert FREE_INTERRUPTIONS >= 1
    runs = {request.run_id for request in life.world.requests if isinstance(request, HookRequest)}
    assert len(runs) == 1  # so that a run that was journalled is not repeated


async def test_a_hook_that_failed_runs_again_and_holds_the_release_up(life: Life) -> None:
    life.world.hooks = (hook("hooks/a", Binding.BEFORE_HELM),)
    life.world.fail("hook.run", TransientError(Reason.BEFORE_HELM_HOOKS_FAILED, "hooks/a: exit status 1"))
    await life.changed()
    assert (await failed(life)).step == "BeforeHelm hooks/a"
    assert {c.type: c.reason for c in told(life).conditions or []}["HooksProcessed"] == "BeforeHelmHooksFailed"
    await life.rests()
    assert life.world.steps()[5:] == ["beforeHelm hooks/a", "beforeHelm hooks/a", "upgrade_release 1:s1"]


async def test_a_removal_is_not_held_up_by_an_earlier_failure(life: Life) -> None:
    life.world.fail("package.download", PermanentError(Reason.ARCHIVE_REJECTED, "web-1.tgz: a path leads out of it"))
    await life.changed()
    await failed(life)
    await life.change(deleting=True)
    assert await life.ended() is WorkflowExecutionStatus.COMPLETED


async def test_another_version_does_not_wait_for_the_back_off_of_the_last(life: Life) -> None:
    life.world.fail("package.download", PermanentError(Reason.ARCHIVE_REJECTED, "web-1.tgz: a path leads out of it"))
    await life.changed()
    await failed(life)
    await life.change(source=source("2"))
    assert (await life.rests()).version == "2"


async def test_events_that_were_not_recorded_go_with_the_next_status(life: Life) -> None:
    life.world.deaf = 100
    await life.changed()
    await life.rests()
    lost = life.world.statuses[-1].notes
    assert "Ready" in [note.reason for note in lost]
    writes, life.world.deaf = len(life.world.statuses), 0
    await life.change(settings="s2")
    await life.rests()
    assert life.world.statuses[writes].notes[: len(lost)] == lost
    await life.change(settings="s3")
    await life.rests()
    assert not set(lost) & set(life.world.statuses[-1].notes), "once they are recorded that is it"


async def test_no_more_events_are_kept_than_ten(life: Life) -> None:
    life.world.deaf = 100
    await life.changed()
    await life.rests()
    for number in range(2, 9):
        await life.change(settings=f"s{number}", suspended=number % 2 == 0)
        await eventually(lambda seen=number: life.world.statuses[-1].status.observed_generation == seen)
    kept = [len(request.notes) for request in life.world.statuses]
    assert max(kept) == 10
    assert life.world.statuses[-1].notes[-1].at >= life.world.statuses[-1].notes[0].at


async def test_a_place_that_a_worker_allows_by_now_is_looked_at_before_anything_else(life: Life) -> None:
    """The object says nothing of it: another worker, with other settings, serves the package."""
    life.world.desired = replace(life.world.desired, refused=True)
    hold = life.world.hold("package.place")
    await life.changed()
    await hold.started.wait()
    life.world.desired = replace(life.world.desired, refused=False)
    hold.release()
    await life.rests()
    assert life.world.steps().count("place") == 1
    assert life.world.steps()[-1].startswith("upgrade_release")


async def test_a_place_that_is_refused_for_a_while_leaves_no_failure_behind(life: Life) -> None:
    """Somebody asks for another place and takes that back, or the installation changes its mind."""
    await life.changed()
    await life.rests()
    life.world.fail("package.place", PermanentError(Reason.TARGET_REFUSED, "reserved", actor=Actor.USER))
    life.world.desired = replace(life.world.desired, refused=True)
    await life.changed()
    await failed(life)
    life.world.desired = replace(life.world.desired, refused=False)
    await life.changed()
    status = await life.rests()
    assert status.failure is None
    assert find(status.conditions, Type.REQUIREMENTS_MET).status is Status.TRUE
    assert find(status.conditions, Type.READY).status is Status.TRUE
