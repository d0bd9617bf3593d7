"""A plan is what the decisions do: those of a rollout over its clusters, and those of a service set on one cluster."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

from domain.servicesets.rollout.fleets import (
    MINUTE,
    MINUTES,
    NOW,
    chain,
    cluster,
    fleet,
    stored_on,
    there,
    wanted,
)
from domain.servicesets.words import PROVIDER, own
from hypothesis import given, settings
from hypothesis import strategies as st

from windlass.domain.servicesets.models import ServiceSet
from windlass.domain.servicesets.rollout.critical import critical_path
from windlass.domain.servicesets.rollout.fleet import Change, Fleet
from windlass.domain.servicesets.rollout.intents import intents
from windlass.domain.servicesets.rollout.next_action import next_actions
from windlass.domain.servicesets.rollout.plan import Outcome, Plan, plan
from windlass.domain.servicesets.rollout.policy import RolloutPolicy, rounded_up
from windlass.domain.servicesets.rollout.state import ClusterState, Gate, Observed, Phase, Rollout
from windlass.domain.servicesets.rollout.timeline import Calendar, timeline
from windlass.domain.servicesets.rollout.waves import Target
from windlass.domain.servicesets.rollout.windows import opening_at
from windlass.servicesets import Snapshot, get_service_set_with_operation

NAMES = "abcd"
CHAINS = [
    chain("fork", {1: [3, 2], 2: [3], 3: [4], 4: [], 5: []}),
    chain("back", {1: [2], 2: [1, 3], 3: [2, 4], 4: [3, 1]}),
    chain("island", {1: [], 2: [], 3: [], 4: []}),
]


@st.composite
def services(draw: st.DrawFn) -> tuple[list[dict[str, Any]], list[Any]]:
    """What is wanted on a cluster, and what is there."""
    names = draw(st.lists(st.sampled_from(NAMES), unique=True, max_size=4))
    asked: list[dict[str, Any]] = []
    for place, name in enumerate(names):
        others = draw(st.sampled_from([names[:place]] * 3 + [names]))  # now and then a cycle
        after = draw(st.lists(st.sampled_from(others), unique=True, max_size=2)) if others else []
        more = draw(st.sampled_from([{}, {}, {}, {"values": "x: 1"}, {"disable": True}]))
        way = draw(st.sampled_from(["line", "line", "fork", "back", "island", ""]))
        asked.append(wanted(name, draw(st.integers(1, 4)), *after, chain=way, **more))
    held = [
        there(name, draw(st.integers(1, 4)), draw(st.sampled_from(["Deployed"] * 5 + ["Provisioning", "Failed", ""])))
        for name in draw(st.lists(st.sampled_from(NAMES), unique=True, max_size=4))
    ]
    return draw(st.permutations(asked)), held


# -- one cluster: the same steps as the service set's own decisions ----------------------------------------------------


def walked(one: Fleet) -> dict[str, list[tuple[float, str]]]:
    """Walk a cluster minute by minute with `get_service_set_with_operation`; return when which version was begun."""
    [owner] = one.clusters
    [there_] = one.snapshot.service_sets
    seen: dict[str, list[tuple[float, str]]] = {}
    for minute in range(20):
        objects = [*one.snapshot.templates.values(), *one.snapshot.chains.values(), PROVIDER, there_]
        decision = get_service_set_with_operation(Snapshot.of(objects), own(owner))
        after = decision.service_set
        before = {service.name: service for service in there_.spec.services}
        states = {state.name: state.to_object() for state in there_.status.services}
        for service in after.spec.services:
            old = before.get(service.name)
            if old is None or (old.template, old.version) != (service.template, service.version):
                seen.setdefault(service.name, []).append((minute, service.version))
            failed = states.get(service.name, {}).get("state") == "Failed"
            if not failed:
                told = {"name": service.name, "namespace": "default", "template": service.template}
                states[service.name] = told | {"version": service.version, "state": "Deployed"}
        names = {service.name for service in after.spec.services}
        document = after.to_object()
        document["status"] = {"services": [state for name, state in states.items() if name in names]}
        there_ = ServiceSet.from_object(document)
    return seen


@settings(max_examples=60, deadline=None)
@given(services())
def test_a_cluster_takes_the_steps_that_its_service_set_takes(given_: tuple[list[dict[str, Any]], list[Any]]) -> None:
    asked, held = given_
    one = fleet(cluster("edge", *asked), stored_on("edge", *held), *CHAINS)
    [its] = intents(one)
    if any(owned.hold for owned in its.owners):
        return
    planned = timeline(its, NOW, NOW, Calendar(None), MINUTES)
    expected = {
        service.intent.service.name: steps
        for service in planned
        if service.intent.change in {Change.INSTALL, Change.UPGRADE}
        if (
            steps := [
                ((hop.begins - NOW) / MINUTE, hop.version)
                for hop in service.hops
                if hop.start != hop.end or service.intent.under_way is None
            ]
        )
    }
    assert walked(one) == expected


# -- a fleet: the same beginnings as the rollout's own decisions -------------------------------------------------------

AMOUNT = st.one_of(st.integers(1, 3), st.sampled_from(["34%", "100%"]))
POLICY = st.fixed_dictionaries(
    {
        "waves": st.lists(AMOUNT, min_size=1, max_size=2),
        "maxConcurrent": AMOUNT,
        "failureBudget": st.integers(0, 2),
        "soak": st.sampled_from(["0s", "5m"]),
        "approval": st.sampled_from(["None", "AfterCanary", "EveryWave"]),
        "windows": st.sampled_from(
            [
                [],
                [{"schedule": "*/7 * * * *", "duration": "150s"}],
                [
                    {"schedule": "*/5 * * * *", "duration": "1m", "clusterSelector": {"matchLabels": {"zone": "a"}}},
                    {"schedule": "*/9 * * * *", "duration": "4m", "clusterSelector": {"matchLabels": {"zone": "b"}}},
                ],
            ]
        ),
    },
    optional={"canary": AMOUNT},
)


@st.composite
def fleets(draw: st.DrawFn) -> Fleet:
    objects: list[Any] = []
    for number in range(draw(st.integers(0, 6))):
        asked, held = draw(services())
        name = f"c{number}"
        objects += [cluster(name, *asked, zone="ab"[number % 2]), stored_on(name, *held)]
    return fleet(*objects, *CHAINS)


@settings(max_examples=100, deadline=None)
@given(fleets(), POLICY)
def test_clusters_begin_when_the_decisions_let_them(one: Fleet, values: dict[str, Any]) -> None:
    policy = RolloutPolicy.model_validate(values)
    made = plan(policy, one, NOW, MINUTES)
    assert made == plan(policy, one, NOW, MINUTES)
    if any(state.state == "Failed" for held in one.snapshot.service_sets for state in held.status.services):
        return  # a rollout also counts failures that no plan foresees; tables hold what is foreseen
    begun = driven(policy, made, [Target(str(one.name), one.labels) for one in intents(one)])
    assert begun == {one.name: one.begins for one in made.clusters if one.begins is not None}


def driven(policy: RolloutPolicy, made: Plan, targets: list[Target]) -> dict[str, datetime]:
    """Drive `next_actions` with clusters that take as long as the plan says; return when each was told to begin."""
    rollout, now, begun = Rollout.over(policy, targets), NOW, dict[str, datetime]()
    plans = {one.name: one for one in made.clusters}

    def state(name: str) -> ClusterState:
        one = plans[name]
        under_way = [
            hop.ends for service in one.services for hop in service.hops if hop.begins == NOW and hop.start == hop.end
        ]
        if name in begun:
            if one.ends is not None and now < one.ends:
                return ClusterState.RUNNING
            return ClusterState.DEPLOYED if one.outcome is Outcome.DEPLOYED else ClusterState.HELD
        if any(service.intent.under_way for service in one.services) and any(now < ends for ends in under_way):
            return ClusterState.RUNNING
        if one.outcome is Outcome.NOTHING or (one.begins is None and one.outcome is Outcome.DEPLOYED):
            return ClusterState.DEPLOYED
        # What never begins by itself is seen as held; for clusters behind a wave that does not end it is the same.
        return ClusterState.HELD if one.begins is None else ClusterState.WAITING

    for _ in range(300):
        decision = next_actions(rollout, {name: Observed(state(name)) for name in plans}, now)
        rollout = decision.rollout
        begun |= {action.cluster: now for action in decision.actions}
        if decision.phase is Phase.COMPLETE:
            return begun
        if approval := [hold for hold in decision.holds if hold.gate is Gate.APPROVAL]:
            first = approval[0].clusters[0]
            rollout = rollout.approve(next(wave.number for wave in rollout.waves if first in wave.clusters), "ann")
            continue
        if decision.actions:
            continue
        ends = [
            ends for one in plans.values() for service in one.services for hop in service.hops for ends in (hop.ends,)
        ]
        times = [at for at in [*ends, *(one.ends for one in plans.values() if one.ends)] if at > now]
        times += [decision.look_again] if decision.look_again else []
        if not times:
            return begun
        now = min(times)
    raise AssertionError(f"not over after 300 decisions: {decision}")


@settings(max_examples=100, deadline=None)
@given(fleets(), POLICY)
def test_a_plan_keeps_the_policy_and_says_what_decides_its_end(one: Fleet, values: dict[str, Any]) -> None:
    policy = RolloutPolicy.model_validate(values)
    made = plan(policy, one, NOW, MINUTES, approval_wait=timedelta(minutes=3))
    slots = rounded_up(policy.max_concurrent, len(made.clusters))
    for cluster_ in made.clusters:
        windows = policy.windows_of(next(its.labels for its in intents(one) if its.name == cluster_.name))
        for service in cluster_.services:
            assert all(before.ends <= after.begins for before, after in pairwise(service.hops))
            for hop in service.hops:
                inside = windows is None or any(opening_at(window, hop.begins) for window in windows)
                assert inside or (hop.begins == NOW and service.intent.under_way)
            reached = (
                service.hops[-1].version == service.intent.desired.version
                if (service.hops and service.intent.desired)
                else True
            )
            assert service.hold or service.intent.disabled or reached
        done = cluster_.outcome in {Outcome.NOTHING, Outcome.DEPLOYED}
        assert done != bool(cluster_.hold)
        if cluster_.begins is not None:
            at = cluster_.begins
            active = [
                other for other in made.clusters
                if other.begins is not None and other.ends is not None and other.begins <= at < other.ends
            ]  # fmt: skip
            assert len(active) <= slots
    parts = critical_path(made)
    if made.ends is None:
        assert parts == ()
    else:
        assert (parts[0].since, parts[-1].until) == (made.now, made.ends)
        assert all(before.until == after.since for before, after in pairwise(parts))
        assert all(part.since < part.until and part.text for part in parts)
