from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from domain.lifecycle.lives import ready, running, source, wanted

from windlass.contracts.lifecycle import Failure, LifecycleState
from windlass.contracts.objects import PackageStatus, ReleaseStatus, WorkflowStatus
from windlass.contracts.status import (
    MESSAGE_CAP,
    details,
    is_ready,
    package_status,
    phase,
    queues_view,
    status_digest,
    status_view,
    step_text,
    with_ready,
)
from windlass.domain.errors import Actor
from windlass.domain.ids import PackageKey
from windlass.domain.lifecycle.conditions import (
    EXCEPTIONAL,
    REQUIRED,
    Conditions,
    Type,
    apply,
    false,
    find,
    initial,
    true,
)
from windlass.domain.lifecycle.effects import Phase
from windlass.domain.lifecycle.steps import Hold, Next, Step, next_step

KEY = PackageKey(namespace="prod", name="web")
WHERE = WorkflowStatus(id="windlass/package/prod.web", run_id="r1")
IDLE = Next(step=Step.WAIT, hold=Hold.IDLE)
FAILURE = Failure(
    step="UpgradeRelease",
    reason="ReadinessTimeout",
    message="Deployment/web: 0 of 1 available",
    hint="look at its pods",
    actor="user",
    attempt=2,
    at=100.5,
    next_try=160.9,
)


def conditions() -> Conditions:
    return apply(initial(10.0), [true(type_, "Done") for type_ in REQUIRED], generation=4, now=20.9)


def state(**fields: Any) -> LifecycleState:
    base = LifecycleState(
        desired=wanted(generation=4),
        progress=running(),
        conditions=conditions(),
        version="1",
        release=ReleaseStatus(name="prod.web", namespace="prod", revision=3),
    )
    return base.model_copy(update=fields)


def test_ready_is_summarised_and_its_time_moves_with_it() -> None:
    first = with_ready(state(), Hold.IDLE, 30.0)
    assert is_ready(first)
    assert find(first, Type.READY).since == 30.0
    again = with_ready(state(conditions=first), Hold.IDLE, 40.0)
    assert find(again, Type.READY).since == 30.0
    lost = with_ready(state(conditions=first, failure=FAILURE), Hold.BACKOFF, 50.0)
    assert not is_ready(lost)
    assert (find(lost, Type.READY).since, find(lost, Type.READY).reason) == (50.0, "ReadinessTimeout")


def test_what_runs_for_a_newer_wish_is_not_ready_whatever_the_last_run_left() -> None:
    found = with_ready(state(progress=ready(active=True)), None, 30.0)
    assert find(found, Type.READY).reason == "Progressing"


def test_the_status_at_rest() -> None:
    status = package_status(state(conditions=with_ready(state(), Hold.IDLE, 30.0)), IDLE, WHERE)
    assert (status.phase, status.step, status.version, status.digest) == ("Running", "Idle", "1", "d1")
    assert (status.observed_generation, status.completed, status.failure) == (4, "d1/s1", None)
    assert (status.release, status.workflow) == (state().release, WHERE)
    ready_ = next(condition for condition in status.conditions or [] if condition.type == "Ready")
    assert (ready_.status, ready_.observed_generation) == ("True", 4)
    assert ready_.last_transition_time == datetime(1970, 1, 1, 0, 0, 30, tzinfo=UTC)
    assert len(status.conditions or []) == len(Type) - len(EXCEPTIONAL)


def test_the_status_of_a_failure() -> None:
    status = package_status(state(failure=FAILURE), Next(step=Step.WAIT, hold=Hold.BACKOFF), WHERE)
    failure = status.failure
    assert failure is not None
    assert (failure.step, failure.reason, failure.attempt, failure.actor) == (
        "UpgradeRelease",
        "ReadinessTimeout",
        2,
        Actor.USER,
    )
    assert (failure.message, failure.hint) == ("Deployment/web: 0 of 1 available", "look at its pods")
    assert failure.next_try == datetime(1970, 1, 1, 0, 2, 40, tzinfo=UTC)
    assert status.step == "Backoff"


def test_long_messages_are_cut_in_conditions_and_whole_in_the_failure() -> None:
    long = "x" * (MESSAGE_CAP + 1)
    broken = apply(conditions(), [false(Type.HELM_APPLIED, "Failed", long)], generation=4, now=21.0)
    status = package_status(state(conditions=broken, failure=FAILURE.model_copy(update={"message": long})), IDLE, WHERE)
    applied = next(condition for condition in status.conditions or [] if condition.type == "HelmApplied")
    assert len(applied.message) == MESSAGE_CAP
    assert status.failure is not None
    assert status.failure.message == long


def test_nothing_known_is_nothing_said() -> None:
    status = package_status(LifecycleState(), IDLE, WHERE)
    assert (status.version, status.digest, status.release, status.completed) == (None, None, None, None)


def test_a_status_is_written_again_only_when_it_differs() -> None:
    status = package_status(state(), IDLE, WHERE)
    assert status_digest(status) == status_digest(PackageStatus.model_validate(status.model_dump(by_alias=True)))
    assert status_digest(status) != status_digest(status.model_copy(update={"phase": "Paused"}))


def test_the_view_of_people() -> None:
    view = status_view(KEY, state(failure=FAILURE), IDLE)
    assert (view.package, view.phase, view.hold, view.step) == ("prod.web", "Running", "Idle", "Idle")
    assert (view.version, view.digest, view.settings, view.failure) == ("1", "d1", "s1", FAILURE)


@pytest.mark.parametrize(
    ("step", "text"),
    [
        (IDLE, "Idle"),
        (Next(step=Step.DOWNLOAD), "Download"),
        (next_step(wanted(), ready()), "Startup hooks/first"),
    ],
)
def test_what_runs_in_words(step: Next, text: str) -> None:
    assert step_text(step) == text


def test_the_queue_shows_what_is_left_and_what_failed_at_its_head() -> None:
    upgrade = state(desired=wanted(source=source("2")), failure=FAILURE)
    (queue,) = queues_view(KEY, upgrade, None).queues.values()
    assert [(step.index, step.name) for step in queue] == [
        (1, "Download"),
        (2, "Install"),
        (3, "Load"),
        (4, "ApplySettings"),
        (5, "Startup"),
        (6, "UpgradeRelease"),
    ]
    assert (queue[0].attempt, queue[0].error) == (2, FAILURE.message)
    assert queue[0].next_try == datetime(1970, 1, 1, 0, 2, 40, tzinfo=UTC)
    assert {(step.attempt, step.error, step.next_try) for step in queue[1:]} == {(0, "", None)}


def test_a_running_step_has_no_next_try() -> None:
    upgrade = state(desired=wanted(source=source("2")), failure=FAILURE)
    (queue,) = queues_view(KEY, upgrade, Next(step=Step.DOWNLOAD)).queues.values()
    assert (queue[0].running, queue[0].next_try) == (True, None)
    assert not any(step.running for step in queue[1:])


def test_nothing_left_is_an_empty_queue() -> None:
    assert queues_view(KEY, state(), None).queues == {"prod.web": ()}
    assert queues_view(KEY, state(desired=wanted(settings="s2"), paused=True), None).queues == {"prod.web": ()}


def test_the_temporal_ui_reads_phase_step_version_and_failure() -> None:
    text = details(state(failure=FAILURE), IDLE)
    for word in ("Running", "Idle", "version 1", "UpgradeRelease failed (ReadinessTimeout), attempt 2"):
        assert word in text


def test_the_phase_is_that_of_the_state() -> None:
    assert phase(state(paused=True)) is Phase.PAUSED
