"""The next decision: by table, and over any course of events."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from windlass.domain.servicesets.rollout.next_action import next_actions
from windlass.domain.servicesets.rollout.policy import RolloutPolicy, rounded_down, rounded_up
from windlass.domain.servicesets.rollout.state import (
    ActionKind,
    ClusterState,
    Decision,
    Gate,
    Observed,
    Phase,
    Rollout,
)
from windlass.domain.servicesets.rollout.waves import Target
from windlass.domain.servicesets.rollout.windows import opening_at

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
STATES = {
    "w": ClusterState.WAITING,
    "r": ClusterState.RUNNING,
    "b": ClusterState.BETWEEN,
    "d": ClusterState.DEPLOYED,
    "f": ClusterState.FAILED,
    "h": ClusterState.HELD,
    "g": ClusterState.GONE,
}
NIGHT = {"schedule": "0 22 * * *", "duration": "6h"}


def rollout(clusters: int, **policy: Any) -> Rollout:
    targets = [Target(f"c{number}", {"zone": "ab"[number % 2]}) for number in range(clusters)]
    return Rollout.over(RolloutPolicy.model_validate(policy), targets)


def seen(states: str) -> dict[str, Observed]:
    """``wr.``: c0 waits, c1 runs, nothing is known of c2."""
    return {f"c{n}": Observed(STATES[one], "because") for n, one in enumerate(states) if one != "."}


def begun(one: Rollout, *numbers: int, settled: Mapping[int, datetime] | None = None) -> Rollout:
    return replace(
        one,
        started=dict.fromkeys((f"c{number}" for number in numbers), NOON - HOUR),
        settled={f"c{number}": at for number, at in (settled or {}).items()},
    )


def told(decision: Decision) -> list[str]:
    return [f"{action.kind} {action.cluster}" for action in decision.actions]


def gates(decision: Decision) -> list[str]:
    return [f"{hold.gate} {' '.join(hold.clusters)}".strip() for hold in decision.holds]


@pytest.mark.parametrize(
    ("one", "states", "actions", "holds", "phase"),
    [
        (rollout(2), "ww", ["Start c0", "Start c1"], ["Progress c0 c1"], "Progressing"),
        (rollout(3, maxConcurrent=2), "www", ["Start c0", "Start c1"], ["Concurrency c2", "Progress c0 c1"],
         "Progressing"),
        (rollout(3, waves=[1]), "www", ["Start c0"], ["Progress c0"], "Progressing"),
        (rollout(3, waves=[1]), "dww", ["Start c1"], ["Progress c1"], "Progressing"),
        (rollout(2), "dd", [], [], "Complete"),
        (rollout(0), "", [], [], "Complete"),
        (rollout(2), "gd", [], [], "Complete"),
        (begun(rollout(2), 0, 1), "rr", [], ["Progress c0 c1"], "Progressing"),
        (begun(rollout(2), 0, 1), "ww", [], ["Progress c0 c1"], "Progressing"),
        (begun(rollout(2), 0, 1), "br", ["Continue c0"], ["Progress c0 c1"], "Progressing"),
        (begun(rollout(2), 0), "fw", [], ["FailureBudget c1"], "Held"),
        (begun(rollout(2, failureBudget=1), 0), "fw", ["Start c1"], ["Progress c1"], "Progressing"),
        (begun(rollout(4, failureBudget="49%"), 0, 1), "ffww", [], ["FailureBudget c2 c3"], "Held"),
        (begun(rollout(3), 0, 1), "fbw", [], ["FailureBudget c1 c2"], "Held"),
        (begun(rollout(3), 0, 1), "frw", [], ["FailureBudget c2", "Progress c1"], "Progressing"),
        (begun(rollout(2), 0, 1), "fd", [], ["FailureBudget c0"], "Held"),
        (begun(rollout(2, failureBudget=1), 0, 1), "fd", [], [], "Complete"),
        (rollout(2), "fw", ["Start c0", "Start c1"], ["Progress c0 c1"], "Progressing"),
        (rollout(2, waves=[1]), "hw", [], ["Cluster c0"], "Held"),
        (rollout(2), "hw", ["Start c1"], ["Cluster c0", "Progress c1"], "Progressing"),
        (rollout(2, waves=[1]), ".w", [], ["Observation c0"], "Held"),
        (rollout(2, maxConcurrent=1), "wr", [], ["Concurrency c0", "Progress c1"], "Progressing"),
        (rollout(2, windows=[NIGHT]), "ww", [], ["Window c0 c1"], "Waiting"),
        (begun(rollout(2, windows=[NIGHT]), 0), "br", [], ["Window c0", "Progress c1"], "Progressing"),
        (rollout(2, windows=[NIGHT | {"clusterSelector": {"matchLabels": {"zone": "c"}}}]), "ww", [], ["Window c0 c1"],
         "Held"),
        (rollout(2, windows=[NIGHT | {"clusterSelector": {"matchLabels": {"zone": "a"}}},
                             {"schedule": "0 11 * * *", "duration": "2h",
                              "clusterSelector": {"matchLabels": {"zone": "b"}}}]),
         "ww", ["Start c1"], ["Window c0", "Progress c1"], "Progressing"),
        (rollout(2, approval="EveryWave"), "ww", [], ["Approval c0 c1"], "Held"),
        (rollout(2, approval="EveryWave").approve(1, "ann"), "ww", ["Start c0", "Start c1"], ["Progress c0 c1"],
         "Progressing"),
        (rollout(2, approval="AfterCanary", canary=1), "ww", ["Start c0"], ["Progress c0"], "Progressing"),
        (rollout(2, approval="AfterCanary", canary=1), "dw", [], ["Approval c1"], "Held"),
        (rollout(2, approval="AfterCanary", waves=[1]), "dw", ["Start c1"], ["Progress c1"], "Progressing"),
        (begun(rollout(2, waves=[1], soak="2h"), 0, settled={0: NOON - HOUR}), "dw", [], ["Soak c1"], "Waiting"),
        (begun(rollout(2, waves=[1], soak="1h"), 0, settled={0: NOON - HOUR}), "dw", ["Start c1"], ["Progress c1"],
         "Progressing"),
        (rollout(2, waves=[1], soak="2h"), "dw", ["Start c1"], ["Progress c1"], "Progressing"),
        (begun(rollout(2, waves=[1], soak="2h", approval="EveryWave"), 0, settled={0: NOON - HOUR}), "dw", [],
         ["Soak c1", "Approval c1"], "Waiting"),
        (begun(rollout(3, waves=[1]), 0, 1, settled={0: NOON - HOUR}), "rdw", [], ["Progress c0"], "Progressing"),
    ],
)  # fmt: skip
def test_next_actions(one: Rollout, states: str, actions: list[str], holds: list[str], phase: str) -> None:
    decision = next_actions(one, seen(states), NOON)
    assert told(decision) == actions
    assert gates(decision) == holds
    assert decision.phase == phase
    assert all(hold.reason for hold in decision.holds)
    assert all(action.reason for action in decision.actions)


def test_the_night_is_when_to_look_again() -> None:
    decision = next_actions(rollout(2, windows=[NIGHT]), seen("ww"), NOON)
    assert decision.look_again == NOON + 10 * HOUR
    assert "opens at 2026-06-01 22:00 UTC" in decision.holds[0].reason


def test_the_end_of_the_soak_is_when_to_look_again() -> None:
    one = begun(rollout(2, waves=[1], soak="2h"), 0)
    first = next_actions(one, seen("dw"), NOON)
    assert first.look_again == NOON + 2 * HOUR
    assert told(next_actions(first.rollout, seen("dw"), NOON + 2 * HOUR)) == ["Start c1"]


def test_a_cluster_that_moves_again_soaks_anew() -> None:
    one = begun(rollout(2, waves=[1], soak="2h"), 0, settled={0: NOON - HOUR})
    moving = next_actions(one, seen("rw"), NOON)
    assert moving.rollout.settled == {}
    assert next_actions(moving.rollout, seen("dw"), NOON).look_again == NOON + 2 * HOUR


def test_a_mended_cluster_lets_the_rollout_go_on() -> None:
    one = begun(rollout(2), 0)
    assert told(next_actions(one, seen("fw"), NOON)) == []
    assert told(next_actions(one, seen("dw"), NOON)) == ["Start c1"]


def test_the_budget_says_who_failed() -> None:
    [hold] = next_actions(begun(rollout(9), 0, 1, 2, 3), seen("ffffwwwww"), NOON).holds
    assert "4 of 9 clusters failed (c0, c1, c2, and 1 more), 0 may" in hold.reason


def test_only_waves_that_exist_are_approved_and_the_first_to_agree_is_kept() -> None:
    one = rollout(2).approve(1, "ann").approve(1, "bob")
    assert one.approved == {1: "ann"}
    with pytest.raises(ValueError, match="there is no wave 2"):
        one.approve(2, "ann")


# -- any course --------------------------------------------------------------------------------------------------------

AMOUNT = st.one_of(st.integers(1, 5), st.sampled_from(["10%", "34%", "100%"]))
WINDOW = st.builds(
    lambda minute, hours, zone: {"schedule": f"{minute} */{hours} * * *", "duration": "50m", "timeZone": zone},
    st.integers(0, 59),
    st.integers(1, 6),
    st.sampled_from(["UTC", "Europe/Berlin", "Australia/Lord_Howe"]),
)
POLICY = st.fixed_dictionaries(
    {
        "waves": st.lists(AMOUNT, min_size=1, max_size=2),
        "maxConcurrent": AMOUNT,
        "failureBudget": st.one_of(st.integers(0, 3), st.just("30%")),
        "soak": st.sampled_from(["0s", "30m", "3h"]),
        "approval": st.sampled_from(["None", "AfterCanary", "EveryWave"]),
        "windows": st.lists(WINDOW, max_size=2),
    },
    optional={"canary": AMOUNT},
)


class Fleet:
    """Clusters that do what they are told, in steps, and fail when the test says so."""

    def __init__(self, steps: list[int], fails: set[int]) -> None:
        self.left = {f"c{number}": count for number, count in enumerate(steps)}
        self.states = {
            name: ClusterState.WAITING if count else ClusterState.DEPLOYED for name, count in self.left.items()
        }
        self.fails = {f"c{number}" for number in fails}

    def observed(self) -> dict[str, Observed]:
        return {name: Observed(state) for name, state in self.states.items()}

    def begin(self, name: str) -> None:
        assert self.states[name] in {ClusterState.WAITING, ClusterState.BETWEEN}
        self.states[name] = ClusterState.RUNNING

    def end_step(self, name: str) -> None:
        self.left[name] -= 1
        between = ClusterState.BETWEEN if self.left[name] else ClusterState.DEPLOYED
        self.states[name] = ClusterState.FAILED if name in self.fails and self.left[name] < 2 else between

    def running(self) -> list[str]:
        return [name for name, state in self.states.items() if state is ClusterState.RUNNING]


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_whatever_happens_the_policy_holds_and_it_ends_or_says_why_not(data: st.DataObject) -> None:
    steps = data.draw(st.lists(st.integers(0, 3), min_size=1, max_size=8))
    fleet = Fleet(steps, data.draw(st.sets(st.integers(0, len(steps) - 1), max_size=3)))
    one = rollout(len(steps), **data.draw(POLICY))
    wave_of = {name: wave for wave in one.waves for name in wave.clusters}
    budget = rounded_down(one.policy.failure_budget, len(steps))
    slots = rounded_up(one.policy.max_concurrent, len(steps))
    now, starts = NOON, list[str]()
    for _ in range(400):
        before = fleet.observed()
        decision = next_actions(one, before, now)
        assert next_actions(one, before, now) == decision
        assert next_actions(decision.rollout, before, now).rollout.started == decision.rollout.started
        failed = [name for name in starts if fleet.states[name] is ClusterState.FAILED]
        for action in decision.actions:
            windows = one.policy.windows_of(one.labels[action.cluster])
            assert windows is None or any(opening_at(window, now) for window in windows)
            assert len(failed) <= budget
            if action.kind is ActionKind.START:
                assert action.cluster not in starts
                starts.append(action.cluster)
                wave = wave_of[action.cluster]
                earlier = [name for name, its in wave_of.items() if its.number < wave.number]
                assert all(fleet.states[name] in {ClusterState.DEPLOYED, ClusterState.FAILED} for name in earlier)
            fleet.begin(action.cluster)
        assert (
            len([name for name in starts if fleet.states[name] in {ClusterState.RUNNING, ClusterState.BETWEEN}])
            <= slots
        )
        one = decision.rollout
        if decision.phase is Phase.COMPLETE:
            assert not decision.holds
            assert set(fleet.states.values()) <= {ClusterState.DEPLOYED, ClusterState.FAILED}
            return
        assert decision.holds
        assert all(hold.reason and (hold.until is None or hold.until > now) for hold in decision.holds)
        if decision.phase is Phase.HELD and not fleet.running():
            gates_shut = {hold.gate for hold in decision.holds}
            assert gates_shut <= {Gate.BUDGET, Gate.APPROVAL}
            if Gate.APPROVAL not in gates_shut or Gate.BUDGET in gates_shut:
                return
            number = next(wave_of[hold.clusters[0]].number for hold in decision.holds if hold.gate is Gate.APPROVAL)
            one = one.approve(number, "ann")
        running = fleet.running()
        if running and (decision.look_again is None or data.draw(st.booleans())):
            fleet.end_step(data.draw(st.sampled_from(running)))
            now += timedelta(minutes=data.draw(st.sampled_from([0, 7, 45])))
        elif decision.look_again is not None:
            now = decision.look_again
    pytest.fail(f"neither ended nor held after 400 rounds: {decision}")
