"""At rest nothing happens: an hour of virtual time adds nothing to a history but the tries that a back-off demands.

Every hold is tried with every trouble that used to leave a deadline behind which nobody acted on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from workflows.virtual import VirtualLife
from workflows.world import following, source

from windlass.contracts.lifecycle import Action, Limits, PauseAction, ReleaseDrifted, RollbackAction
from windlass.contracts.steps import DriftResult
from windlass.domain.backoff import CAP, JITTER, PERMANENT
from windlass.domain.drift.comparison import Change, Difference
from windlass.domain.errors import PermanentError, Reason, TransientError
from windlass.domain.lifecycle.steps import OnFailure

HOUR = 3600.0
ACTION = Action(who="ada", why="a test")
BUSY = TransientError(Reason.APPLY_MANIFESTS_FAILED, "the API server is busy")
BROKEN = PermanentError(Reason.VALIDATION_FAILED, "settings.port: 0 is not a port")
CHANGED = Difference(kind="ConfigMap", name="web", change=Change.CHANGED)

type Act = Callable[[VirtualLife], None]


@pytest.fixture
def life() -> Iterator[VirtualLife]:
    life = VirtualLife()
    yield life
    life.close()


def change(life: VirtualLife, **fields: object) -> None:
    life.world.change(**fields)
    life.changed()


# -- holds -----------------------------------------------------------------------------------------------------------


def idle(_life: VirtualLife) -> None:
    pass


def paused(life: VirtualLife) -> None:
    life.action("pause", PauseAction(who="ada"))


def paused_with_news(life: VirtualLife) -> None:
    life.action("pause", PauseAction(who="ada"))
    change(life, source=source("2"))


def suspended(life: VirtualLife) -> None:
    change(life, suspended=True)


def disabled(life: VirtualLife) -> None:
    life.world.disabled = "not on this cluster"
    change(life, settings="s2")


def at_a_breakpoint(life: VirtualLife) -> None:
    life.action("pause", PauseAction(who="ada", before=("run",)))
    change(life, source=source("2"))


def removal_at_a_breakpoint(life: VirtualLife) -> None:
    life.action("pause", PauseAction(who="ada", before=("uninstall",)))
    change(life, deleting=True)


def cancelled(life: VirtualLife) -> None:
    life.world.fail("helm.upgrade_release", *[BUSY] * 1000)
    change(life, source=source("2"))
    life.advance(5)
    life.action("cancel", ACTION)
    life.world.heal("helm.upgrade_release")


def held_by_policy(life: VirtualLife) -> None:
    life.world.fail("helm.upgrade_release", BROKEN)
    change(life, source=source("2"), on_failure=OnFailure.HOLD)


def rolled_back(life: VirtualLife) -> None:
    change(life, source=source("2"))
    life.advance(5)
    life.action("rollback", RollbackAction(who="ada"))


def synchronizing(life: VirtualLife) -> None:
    life.world.hooks = (following("hooks/a"),)
    life.world.unsynchronized = 1
    change(life, source=source("2"))


def held_after_lost_workers(life: VirtualLife) -> None:
    life.losing.add("helm.upgrade_release")
    change(life, source=source("2"))
    life.advance(60)
    life.losing.clear()


HOLDS: dict[str, Act] = {
    "Idle": idle,
    "Paused": paused,
    "Paused, with something to do": paused_with_news,
    "Suspended": suspended,
    "Disabled": disabled,
    "Breakpoint": at_a_breakpoint,
    "Breakpoint of a removal": removal_at_a_breakpoint,
    "Held, cancelled": cancelled,
    "Held by policy": held_by_policy,
    "Held after lost workers": held_after_lost_workers,
    "RolledBack": rolled_back,
    "Synchronizing": synchronizing,
}


# -- troubles --------------------------------------------------------------------------------------------------------


def none(_life: VirtualLife) -> None:
    pass


def a_comparison_is_due(life: VirtualLife) -> None:
    """Something could not be compared: in a minute it is to be compared again."""
    life.world.drifted.append(DriftResult(revision=life.world.revision, unclear=("ConfigMap web",)))
    life.drifted(ReleaseDrifted(revision=life.world.revision, objects=(CHANGED,)))


def a_status_is_not_written(life: VirtualLife) -> None:
    life.world.fail("status.write", PermanentError(Reason.API_REJECTED, "status is not served"))


def a_look_fails(life: VirtualLife) -> None:
    life.world.fail("package.observe", TransientError(Reason.API_UNAVAILABLE, "connection refused"))


def events_are_not_recorded(life: VirtualLife) -> None:
    life.world.deaf = 1


TROUBLES: dict[str, Act] = {
    "none": none,
    "comparison due": a_comparison_is_due,
    "status not written": a_status_is_not_written,
    "look fails": a_look_fails,
    "events not recorded": events_are_not_recorded,
}


@pytest.mark.parametrize("trouble", TROUBLES)
@pytest.mark.parametrize("hold", HOLDS)
def test_a_hold_costs_nothing(life: VirtualLife, hold: str, trouble: str) -> None:
    life.changed()
    assert life.hold() == "Idle"
    TROUBLES[trouble](life)
    HOLDS[hold](life)
    life.advance(2 * 60)  # what the trouble calls for is done by then, if it can be
    assert life.hold() == hold.partition(",")[0].partition(" ")[0]
    assert not life.advance(HOUR)


def test_what_was_due_is_done_when_the_hold_ends(life: VirtualLife) -> None:
    life.changed()
    a_comparison_is_due(life)
    paused(life)
    life.advance(HOUR)
    compared = life.world.steps().count("check_drift detect")
    life.action("resume", ACTION)
    assert life.world.steps().count("check_drift detect") == compared + 1
    assert not life.advance(HOUR)


# -- failures --------------------------------------------------------------------------------------------------------


def timers(name: str) -> int:
    """How many timers a try takes: one until it, and one beside a remote activity, which would show it in status."""
    return 2 if name == "helm.upgrade_release" else 1


FAILING = ["package.apply_settings", "helm.upgrade_release", "package.observe", "status.write"]


@pytest.mark.parametrize("trouble", TROUBLES)
@pytest.mark.parametrize("name", FAILING)
def test_a_transient_failure_costs_its_tries(life: VirtualLife, name: str, trouble: str) -> None:
    life.changed()
    TROUBLES[trouble](life)
    life.world.fail(name, *[BUSY] * 1000)
    change(life, settings="s2")
    life.advance(10 * 60)  # the back-off has come to its cap
    spent = life.advance(HOUR)
    tries = spent[name]
    assert HOUR / CAP / (1 + JITTER) - 1 <= tries <= HOUR / CAP / (1 - JITTER) + 1
    assert abs(spent["timers"] - tries * timers(name)) <= timers(name)
    assert abs(spent["status.write"] - tries) <= 1
    assert set(spent) <= {"tasks", "timers", "status.write", name}


@pytest.mark.parametrize("trouble", TROUBLES)
@pytest.mark.parametrize("name", ["package.apply_settings", "helm.upgrade_release"])
def test_a_permanent_failure_is_looked_at_every_ten_minutes(life: VirtualLife, name: str, trouble: str) -> None:
    life.changed()
    TROUBLES[trouble](life)
    life.world.fail(name, *[BROKEN] * 100)
    change(life, settings="s2")
    life.advance(2 * 60)
    spent = life.advance(HOUR)
    assert 1 <= spent[name] <= HOUR / PERMANENT / (1 - JITTER) + 1
    assert abs(spent["timers"] - spent[name] * timers(name)) <= timers(name)
    assert set(spent) <= {"tasks", "timers", "status.write", name}


def test_a_back_off_is_carried_to_the_next_run(life: VirtualLife) -> None:
    life.limits = Limits(events=60)
    life.changed()
    life.world.fail("helm.upgrade_release", *[BUSY] * 1000)
    change(life, settings="s2")
    life.advance(10 * 60)
    spent = life.advance(HOUR)
    assert life.runs > 1
    assert spent["helm.upgrade_release"] <= HOUR / CAP / (1 - JITTER) + 1
