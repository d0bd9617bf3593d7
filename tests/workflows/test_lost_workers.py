"""Steps that lose their workers, and steps that begin in a local activity, under a virtual clock."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from workflows.virtual import VirtualLife
from workflows.world import following, hook, source

from windlass.contracts.lifecycle import Action, HookEvents, Limits, ResumeAction
from windlass.contracts.objects import PackageStatus
from windlass.domain.errors import PermanentError, Reason, TransientError
from windlass.domain.lifecycle import losses
from windlass.domain.lifecycle.losses import LOSSES
from windlass.domain.lifecycle.policy import Cause
from windlass.domain.packages.model import Binding
from windlass.temporal.failures import handed_over

HOUR = 3600.0
ACTION = Action(who="ada", why="a test")
BUSY = TransientError(Reason.APPLY_MANIFESTS_FAILED, "the API server is busy")
UPGRADE = "helm.upgrade_release"


@pytest.fixture
def life() -> Iterator[VirtualLife]:
    life = VirtualLife()
    yield life
    life.close()


def told(life: VirtualLife) -> PackageStatus:
    return life.world.statuses[-1].status


def ready(life: VirtualLife) -> tuple[str, str]:
    return next((c.reason, c.message) for c in told(life).conditions or [] if c.type == "Ready")


def held(life: VirtualLife) -> bool:
    control = life.dump().state.control
    return control.held is not None and control.held.cause is Cause.WORKER_LOST


def test_a_step_that_loses_its_worker_three_times_is_held(life: VirtualLife) -> None:
    life.losing.add(UPGRADE)
    life.changed()
    life.advance(HOUR)
    assert life.spent[UPGRADE] == LOSSES
    status = told(life)
    assert (status.step, status.phase) == ("Held", "Held")
    assert status.held is not None
    assert (status.held.step, status.held.cause) == ("UpgradeRelease", Cause.WORKER_LOST)
    assert ready(life) == (
        "Held",
        f"{losses.told('UpgradeRelease', LOSSES)}; request `retry`, or change the object",
    )
    assert status.failure is not None
    assert (status.failure.reason, status.failure.attempt, status.failure.next_try) == ("WorkerLost", LOSSES, None)
    assert "request `retry`" in (status.failure.hint or "")
    assert not life.advance(HOUR)


def test_two_losses_are_no_failure(life: VirtualLife) -> None:
    life.losing.add(UPGRADE)
    life.changed()
    life.advance(5)
    life.losing.clear()
    life.advance(60)
    assert life.hold() == "Idle"
    assert [one.status.failure for one in life.world.statuses if one.status.failure] == []
    assert "WorkerLost" not in [note.reason for one in life.world.statuses for note in one.notes]


def test_retry_tries_a_held_step_again(life: VirtualLife) -> None:
    life.losing.add(UPGRADE)
    life.changed()
    life.advance(60)
    refused = life.action("resume", ResumeAction(who="ada"))
    assert (refused.accepted, refused.message) == (False, "UpgradeRelease lost its worker and is held: request retry")
    assert not life.action("skip", ACTION).accepted
    assert life.action("retry", ACTION).accepted
    life.advance(60)
    assert life.spent[UPGRADE] == 2 * LOSSES, "counted anew"
    life.losing.clear()
    assert life.action("retry", ACTION).accepted
    assert life.hold() == "Idle"
    assert told(life).failure is None


def test_another_version_is_tried(life: VirtualLife) -> None:
    life.losing.add(UPGRADE)
    life.changed()
    life.advance(60)
    life.losing.clear()
    life.world.change(source=source("2"))
    life.changed()
    assert life.hold() == "Idle"


@pytest.mark.parametrize(
    "outcome", [BUSY, PermanentError(Reason.RELEASE_CONFLICT, "somebody else's")], ids=["transient", "permanent"]
)
def test_a_reported_outcome_begins_the_count_anew(life: VirtualLife, outcome: Exception) -> None:
    life.losing.add(UPGRADE)
    life.changed()
    for attempt in (1, 2):
        life.advance(4.5)  # one loss is known, another one on its way
        assert life.dump().state.interruptions is not None
        life.losing.clear()
        life.world.fail(UPGRADE, outcome)
        while (failure := life.dump().state.failure) is None or failure.attempt < attempt:
            life.advance(0.1)
        assert life.dump().state.interruptions is None
        life.losing.add(UPGRADE)
        life.action("retry", ACTION)
    assert not held(life)


def test_the_count_is_carried_to_the_next_run(life: VirtualLife) -> None:
    life.limits = Limits(events=12)  # less than the installation takes
    life.losing.add(UPGRADE)
    life.changed()
    life.advance(HOUR)
    assert life.runs > 1
    assert life.spent[UPGRADE] == LOSSES
    assert held(life)


def test_what_is_handed_over_is_never_held(life: VirtualLife) -> None:
    life.world.fail(UPGRADE, *[handed_over("this worker has lost the shard")] * 20)
    life.changed()
    life.advance(HOUR)
    assert life.spent[UPGRADE] == 21
    assert life.hold() == "Idle"
    assert [one.status.failure for one in life.world.statuses if one.status.failure] == []


def test_what_waited_for_its_turn_is_a_bystander(life: VirtualLife) -> None:
    life.waiting = True
    life.losing.add(UPGRADE)
    life.changed()
    life.advance(60)
    assert life.spent[UPGRADE] > LOSSES
    assert not held(life)
    life.losing.clear()
    life.advance(HOUR)
    assert life.hold() == "Idle"
    assert [one.status.failure for one in life.world.statuses if one.status.failure] == []


def test_a_hook_that_kills_its_worker_can_be_skipped(life: VirtualLife) -> None:
    life.world.hooks = (hook("hooks/a", Binding.BEFORE_HELM),)
    life.losing.add("hook.run")
    life.changed()
    life.advance(60)
    assert held(life)
    assert life.action("skip", ACTION).accepted
    assert life.hold() == "Idle"


def test_a_hook_queue_that_loses_its_worker_is_held_and_nothing_else(life: VirtualLife) -> None:
    life.world.hooks = (following("hooks/a"),)
    life.changed()
    life.world.mailboxes["main"] = ["x"]
    life.world.postponed = True
    life.losing.add("hook.run_events")
    life.tell_hooks(HookEvents(queue="main"))
    life.advance(60)
    status = told(life)
    assert status.failure is not None
    assert (status.failure.step, status.failure.reason) == ("EventHook main", "WorkerLost")
    assert not life.advance(HOUR)
    life.world.change(settings="s2")
    life.changed()
    assert "upgrade_release 1:s2" in life.world.steps()
    life.losing.clear()
    assert life.action("retry", ACTION).accepted
    assert told(life).failure is None


@pytest.mark.parametrize("name", ["package.install", "package.load", "package.apply_settings"])
def test_a_step_over_unopened_content_is_remote(life: VirtualLife, name: str) -> None:
    life.world.unopened.add(name)
    life.changed()
    assert life.hold() == "Idle"
    assert life.spent[name] == 2, "a local activity that leaves it, and a remote one"
    life.world.change(source=source("2"))
    life.losing.add(name)
    life.changed()
    life.advance(HOUR)
    assert held(life)
