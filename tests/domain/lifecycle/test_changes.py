from __future__ import annotations

import pytest
from domain.lifecycle.lives import running, source, wanted

from windlass.domain.lifecycle.changes import Event, cancels, classify
from windlass.domain.lifecycle.steps import Desired, Next, Progress, Scope, Step

DELETING = wanted(deleting=True)


@pytest.mark.parametrize(
    ("before", "after", "event"),
    [
        (wanted(), wanted(), Event.NONE),
        (wanted(), wanted(generation=2), Event.NONE),
        (wanted(finalizer=False), wanted(), Event.NONE),
        (wanted(), wanted(settings="s2"), Event.SETTINGS_CHANGED),
        (wanted(), wanted(suspended=True), Event.SCHEDULE_CHANGED),
        (wanted(suspended=True), wanted(), Event.SCHEDULE_CHANGED),
        (wanted(), wanted(delete_on_disable=True), Event.SCHEDULE_CHANGED),
        (wanted(), wanted(suspended=True, settings="s2"), Event.SCHEDULE_CHANGED),
        (wanted(), wanted(source=source("2")), Event.VERSION_CHANGED),
        (wanted(), wanted(source=source("2"), settings="s2", suspended=True), Event.VERSION_CHANGED),
        (wanted(), DELETING, Event.REMOVED),
        (wanted(), wanted(deleting=True, abandon=True, source=source("2")), Event.REMOVED),
        (wanted(), wanted(uid="u2"), Event.REMOVED),
        (wanted(), Desired(), Event.REMOVED),
        (DELETING, DELETING, Event.NONE),
        (DELETING, wanted(deleting=True, abandon=True), Event.ABANDONED),
        (wanted(), wanted(abandon=True), Event.NONE),
        (DELETING, Desired(), Event.REMOVED),
        (Desired(), Desired(), Event.NONE),
    ],
)
def test_the_strongest_change_wins(before: Desired, after: Desired, event: Event) -> None:
    assert classify(before, after) is event


EVERYTHING = frozenset(Scope)


@pytest.mark.parametrize(
    ("event", "scopes"),
    [
        (Event.VERSION_CHANGED, EVERYTHING),
        (Event.REMOVED, EVERYTHING),
        (Event.SCHEDULE_CHANGED, {Scope.SCHEDULE}),
        (Event.SETTINGS_CHANGED, {Scope.SETTINGS}),
        (Event.ABANDONED, set()),
        (Event.NONE, set()),
    ],
)
def test_a_change_cancels_the_steps_of_its_scope(event: Event, scopes: set[Scope]) -> None:
    cancelled = {scope for scope in Scope if cancels(event, Next(step=Step.UPGRADE_RELEASE, scope=scope), Progress())}
    assert cancelled == scopes


@pytest.mark.parametrize("event", [event for event in Event if event is not Event.ABANDONED])
@pytest.mark.parametrize("step", Step)
def test_a_removal_in_flight_is_never_started_over(event: Event, step: Step) -> None:
    assert not cancels(event, Next(step=step, scope=Scope.SCHEDULE), running(removing=True))


@pytest.mark.parametrize("step", Step)
def test_abandoning_ends_the_teardown_and_no_other_step(step: Step) -> None:
    teardown = {Step.LOAD, Step.BEFORE_DELETE_HELM, Step.UNINSTALL_RELEASE, Step.AFTER_DELETE_HELM}
    assert cancels(Event.ABANDONED, Next(step=step), running(removing=True)) == (step in teardown)
