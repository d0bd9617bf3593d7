"""Plans by table."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from domain.servicesets.rollout.fleets import (
    MINUTE,
    MINUTES,
    NOW,
    chain,
    cluster,
    fleet,
    minute,
    planned,
    shared,
    shown,
    stored_on,
    templates,
    there,
    wanted,
)

from windlass.domain.servicesets.keys import object_key
from windlass.domain.servicesets.models import (
    DEFAULT_PROVIDER,
    ClusterDeployment,
    MultiClusterService,
    ServiceSet,
    StateManagementProvider,
)
from windlass.domain.servicesets.rollout.fleet import Fleet
from windlass.domain.servicesets.rollout.plan import Outcome, Plan, plan
from windlass.domain.servicesets.rollout.policy import RolloutPolicy
from windlass.domain.servicesets.rollout.predictions import DEFAULT, PastStep, Predictions
from windlass.domain.servicesets.rollout.state import Gate
from windlass.domain.servicesets.snapshot import Snapshot


def edge(*services: Any, stored: tuple[Any, ...] = (), extra: tuple[Any, ...] = ()) -> Fleet:
    return fleet(cluster("edge", *services), stored_on("edge", *stored), *extra)


FORK = chain("fork", {1: [2, 3], 2: [3], 3: []})
BACK = chain("back", {1: [2], 2: [1, 3], 3: [2]})
ISLAND = chain("island", {1: [], 3: []})

CYCLE = "dependencies form a cycle: {} (take one of these out of the other's dependsOn)"
RING = CYCLE.format("default/a -> default/b -> default/a")
ALONE = CYCLE.format("default/a -> default/a")

CASES = {
    "every hop of the chain": (edge(wanted("a", 4), stored=(there("a", 1),)),
                               {"a": ["2.0.0 0-1", "3.0.0 1-2", "4.0.0 2-3"]}),
    "a shortcut is not taken": (edge(wanted("a", 3, chain="fork"), stored=(there("a", 1),), extra=(FORK,)),
                                {"a": ["2.0.0 0-1", "3.0.0 1-2"]}),
    "at its target, in a cyclic chain too": (edge(wanted("a", 2, chain="back"), stored=(there("a", 2),), extra=(BACK,)),
                                             {"a": []}),
    "back along the chain": (edge(wanted("a", 1, chain="back"), stored=(there("a", 3),), extra=(BACK,)),
                             {"a": ["2.0.0 0-1", "1.0.0 1-2"]}),
    "down without a route": (edge(wanted("a", 1), stored=(there("a", 4),)), {"a": ["1.0.0 0-1"]}),
    "up without a route": (edge(wanted("a", 3, chain="island"), stored=(there("a", 1),), extra=(ISLAND,)),
                           {"a": ["held: chain island has no route from t1 to t3"]}),
    "a fresh installation goes straight": (edge(wanted("a", 4)), {"a": ["4.0.0 0-1"]}),
    "no chain restricts nothing": (edge(wanted("a", 4, chain=""), stored=(there("a", 1),)), {"a": ["4.0.0 0-1"]}),
    "no longer desired": (edge(stored=(there("a", 1),)), {"a": ["- 0-1"]}),
    "disabled": (edge(wanted("a", 4, disable=True), stored=(there("a", 1),)), {"a": []}),
    "what depends on a disabled one": (edge(wanted("b", 2, "a"), wanted("a", 4, disable=True), stored=(there("a", 1),)),
                                       {"a": [], "b": ["held: service default/a is held: it is disabled"]}),
    "disabled and absent": (edge(wanted("a", 4, disable=True)), {"a": []}),
    "other values": (edge(wanted("a", 1, values="x: 1"), stored=(there("a", 1),)), {"a": ["1.0.0 0-1"]}),
    "under way first": (edge(wanted("a", 3), stored=(there("a", 2, "Provisioning"),)),
                        {"a": ["2.0.0 0-1", "3.0.0 1-2"]}),
    "under way to the target": (edge(wanted("a", 2), stored=(there("a", 2, ""),)), {"a": ["2.0.0 0-1"]}),
    "failed": (edge(wanted("a", 3), stored=(there("a", 2, "Failed"),)), {"a": ["held: it failed at 2.0.0"]}),
    "dependencies first, to their end": (
        edge(wanted("b", 3, "a"), wanted("a", 3), stored=(there("a", 1), there("b", 2))),
        {"a": ["2.0.0 0-1", "3.0.0 1-2"], "b": ["3.0.0 2-3"]},
    ),
    "through a service that need not move": (
        edge(wanted("c", 2, "b"), wanted("b", 1, "a"), wanted("a", 3),
             stored=(there("a", 1), there("b", 1), there("c", 1))),
        {"a": ["2.0.0 0-1", "3.0.0 1-2"], "b": [], "c": ["2.0.0 2-3"]},
    ),
    "a held dependency holds": (
        edge(wanted("b", 3, "a"), wanted("a", 3, chain="island"), stored=(there("a", 1), there("b", 2)),
             extra=(ISLAND,)),
        {"a": ["held: chain island has no route from t1 to t3"],
         "b": ["held: service default/a is held: chain island has no route from t1 to t3"]},
    ),
    "a cycle holds its members and what is behind them": (
        edge(wanted("a", 2, "b"), wanted("b", 2, "a"), wanted("c", 2, "b"), wanted("d", 2), wanted("e", 1, "a"),
             stored=(there("a", 1), there("b", 1), there("c", 1), there("d", 1), there("e", 1))),
        {"a": [f"held: {RING}"], "b": [f"held: {RING}"], "c": [f"held: service default/b is held: {RING}"],
         "d": ["2.0.0 0-1"], "e": []},
    ),
    "a cycle of services that are as desired": (
        edge(wanted("a", 1, "b"), wanted("b", 1, "a"), wanted("c", 2, "a"),
             stored=(there("a", 1), there("b", 1), there("c", 1))),
        {"a": [], "b": [], "c": [f"held: service default/a is held: {RING}"]},
    ),
    "itself": (edge(wanted("a", 2, "a"), stored=(there("a", 1),)), {"a": [f"held: {ALONE}"]}),
    "other values hold nobody up": (
        edge(wanted("b", 3, "a"), wanted("a", 1, values="x: 1"), stored=(there("a", 1), there("b", 2))),
        {"a": ["1.0.0 0-1"], "b": ["3.0.0 0-1"]},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("one", "expected"), CASES.values(), ids=CASES.keys())
def test_one_cluster(one: Fleet, expected: dict[str, list[str]]) -> None:
    assert shown(planned(one)) == {f"edge {name}": hops for name, hops in expected.items()}


@pytest.mark.parametrize(
    ("one", "text"),
    [
        (edge(wanted("a", 3, chain="none"), wanted("b", 2), stored=(there("a", 1), there("b", 1))),
         "ServiceTemplateChain prod/none of service default/a does not exist"),
        (edge(wanted("a", 9), wanted("b", 2), stored=(there("b", 1),)),
         "ServiceTemplate prod/t9 of service default/a does not exist"),
        (edge(wanted("a", 3, chain="island"), wanted("b", 2), stored=(there("a", 2), there("b", 1)), extra=(ISLAND,)),
         "template t2 of service default/a is not in supportedTemplates of ServiceTemplateChain prod/island"),
        (edge(wanted("a", 3, "gone"), wanted("b", 2), stored=(there("a", 2), there("b", 1))),
         "service default/a depends on service default/gone, which is not among the desired services"),
        (edge(wanted("a", 3), wanted("b", 2), stored=(there("a", 2), there("b", 1), there("gone", 9, version=""))),
         "ServiceTemplate prod/t9 of service default/gone does not exist"),
    ],
    ids=["chain", "template", "template not in chain", "dependency", "template of what is removed"],
)  # fmt: skip
def test_what_is_missing_holds_the_whole_set_and_is_named(one: Fleet, text: str) -> None:
    made = planned(one)
    assert all(len(hops) == 1 and text in hops[0] for hops in shown(made).values())
    assert made.clusters[0].outcome is Outcome.HELD
    assert not made.complete


def moving(count: int, **labels: str) -> list[Any]:
    """Clusters c0, c1, ... with one service each that has two steps to go."""
    return [
        one
        for number in range(count)
        for one in (
            cluster(f"c{number}", wanted("a", 3), zone="ab"[number % 2], **labels),
            stored_on(f"c{number}", there("a", 1)),
        )
    ]


def begins(made: Plan) -> list[float | None]:
    return [minute(one.begins) for one in made.clusters]


NIGHT: dict[str, Any] = {"schedule": "0 22 * * *", "duration": "90s", "timeZone": "UTC"}


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ({}, [0, 0, 0, 0]),
        ({"maxConcurrent": 1}, [0, 2, 4, 6]),
        ({"maxConcurrent": 3}, [0, 0, 0, 2]),
        ({"waves": [2]}, [0, 0, 2, 2]),
        ({"waves": [2], "maxConcurrent": 1}, [0, 2, 4, 6]),
        ({"canary": 1, "soak": "10m"}, [0, 12, 12, 12]),
        ({"waves": [1], "soak": "10m"}, [0, 12, 24, 36]),
        ({"windows": [NIGHT]}, [600, 600, 600, 600]),
        ({"windows": [NIGHT | {"clusterSelector": {"matchLabels": {"zone": "a"}}},
                      {"schedule": "0 * * * *", "duration": "1h", "clusterSelector": {"matchLabels": {"zone": "b"}}}]},
         [600, 0, 600, 0]),
        ({"windows": [NIGHT | {"clusterSelector": {"matchLabels": {"zone": "a"}}}]}, [600, None, 600, None]),
    ],
)  # fmt: skip
def test_when_clusters_begin(policy: dict[str, Any], expected: list[float | None]) -> None:
    assert begins(planned(fleet(*moving(4)), **policy)) == expected


def test_a_step_that_misses_the_window_waits_for_the_next() -> None:
    hours = [{"schedule": "0 * * * *", "duration": "90s"}]
    made = planned(fleet(*moving(1)), Predictions(default=2 * MINUTE), windows=hours)
    [first, second] = made.clusters[0].services[0].hops
    assert (minute(first.begins), minute(first.ends), minute(second.begins)) == (0, 2, 60)
    assert second.wait is not None
    assert (second.wait.gate, minute(second.wait.since)) == (Gate.WINDOW, 2)


def test_approvals_take_what_is_assumed() -> None:
    policy = RolloutPolicy.model_validate({"canary": 1, "approval": "AfterCanary", "soak": "10m"})
    made = plan(policy, fleet(*moving(3)), NOW, MINUTES, approval_wait=timedelta(hours=1))
    assert begins(made) == [0, 62, 62]
    assert [(wait.gate, minute(wait.until)) for wait in made.waves[1].waits] == [(Gate.SOAK, 12), (Gate.APPROVAL, 62)]


def test_waves_after_one_that_does_not_end_never_begin() -> None:
    stuck = cluster("b0", wanted("a", 3, chain="island")), stored_on("b0", there("a", 1)), ISLAND
    made = planned(fleet(*stuck, *moving(2)), waves=[1])
    assert [one.outcome for one in made.clusters] == [Outcome.HELD, Outcome.NOT_BEGUN, Outcome.NOT_BEGUN]
    assert made.waves[2].hold == "wave 1 does not end: prod/b0 cannot go on"
    assert made.clusters[2].hold == made.waves[2].hold
    assert not made.complete


def test_failures_above_the_budget_stop_what_has_not_begun() -> None:
    failing = cluster("b0", wanted("a", 3)), stored_on("b0", there("a", 2, "Failed"))
    made = planned(fleet(*failing, *moving(3)), maxConcurrent=2)
    assert [one.outcome for one in made.clusters] == [Outcome.FAILED, Outcome.HELD, *[Outcome.NOT_BEGUN] * 2]
    assert "1 clusters have failed (prod/b0), 0 may" in made.clusters[3].hold
    within = planned(fleet(*failing, *moving(3)), maxConcurrent=2, failureBudget=1)
    assert begins(within) == [0, 0, 0, 2]


def test_a_cluster_that_has_failed_at_its_target_takes_no_time() -> None:
    made = planned(edge(wanted("a", 1), stored=(there("a", 1, "Failed"),)))
    assert (made.ends, made.clusters[0].outcome, made.complete) == (None, Outcome.FAILED, False)


def test_services_for_many_clusters_and_their_order() -> None:
    base, top = shared("base", wanted("a", 3), zone="a"), shared("top", wanted("b", 2), after=["base"], zone="a")
    edge_ = cluster("edge", zone="a")
    sets = [
        stored_on(object_key("", edge_, owner).name, service, cluster="edge", owner=owner.metadata.name)
        for owner, service in ((base, there("a", 1)), (top, there("b", 1)))
    ]
    made = planned(fleet(edge_, cluster("other", zone="b"), *sets, shared=[top, base]))
    assert shown(made) == {"edge a": ["2.0.0 0-1", "3.0.0 1-2"], "edge b": ["2.0.0 2-3"]}
    assert {one.name: one.outcome for one in made.clusters} == {
        "prod/edge": Outcome.DEPLOYED,
        "prod/other": Outcome.NOTHING,
    }


def test_owners_that_wait_for_each_other_are_named_and_others_go_on() -> None:
    owners = [
        shared("one", wanted("a", 1), after=["two"], zone="a"),
        shared("two", wanted("b", 1), after=["one"], zone="a"),
        shared("behind", wanted("c", 1), after=["two"], zone="a"),
        shared("beside", wanted("d", 1), zone="a"),
    ]
    ring = CYCLE.format("one -> two -> one")
    assert shown(planned(fleet(cluster("edge", zone="a"), shared=owners))) == {
        "edge a": [f"held: {ring}"],
        "edge b": [f"held: {ring}"],
        "edge c": [f"held: MultiClusterService two is not deployed here: {ring}"],
        "edge d": ["1.0.0 0-1"],
    }


def test_a_missing_owner_is_named() -> None:
    made = planned(fleet(cluster("edge", zone="a"), shared=[shared("one", wanted("a", 1), after=["gone"], zone="a")]))
    [[hold]] = shown(made).values()
    assert hold.startswith("held: MultiClusterService one depends on MultiClusterService gone, which is not defined (")


def on_management(*owners: MultiClusterService, stored: tuple[ServiceSet, ...] = (), **policy: Any) -> Plan:
    """A plan of one cluster, ``edge``, that has nothing to do, and the management cluster; both in ``prod``."""
    whole = Fleet(
        clusters=(cluster("edge", zone="a"),),
        multi_cluster_services=owners,
        snapshot=Snapshot.of([*templates(), *stored]),
        system_namespace="prod",
    )
    return plan(RolloutPolicy.model_validate(policy), whole, NOW, MINUTES)


def on_itself(name: str, *services: dict[str, Any], **more: Any) -> MultiClusterService:
    document = shared(name, *services, **more).to_object()
    document["spec"]["serviceSpec"]["provider"] = {"selfManagement": True}
    return MultiClusterService.from_object(document)


def test_the_management_cluster_is_one_of_the_fleet() -> None:
    base, top = on_itself("base", wanted("a", 3)), on_itself("top", wanted("b", 1), after=["base"])
    held = stored_on(object_key("prod", None, base).name, there("a", 1), owner="base").to_object()
    held["spec"]["cluster"] = ""
    made = on_management(base, top, shared("other", wanted("c", 1), zone="b"), stored=(ServiceSet.from_object(held),))
    assert shown(made) == {"management a": ["2.0.0 0-1", "3.0.0 1-2"], "management b": ["1.0.0 2-3"]}
    assert [one.name for one in made.clusters] == ["management", "prod/edge"]


def test_policies_pick_the_management_cluster_by_its_label() -> None:
    label = {"matchLabels": {"windlass.dev/management-cluster": "true"}}
    made = on_management(on_itself("base", wanted("a", 1), zone="a"), canarySelector=label, soak="5m")
    assert [one.wave.clusters for one in made.waves] == [("management",), ("prod/edge",)]
    assert shown(made) == {"management a": ["1.0.0 0-1"], "edge a": ["1.0.0 6-7"]}


def test_without_services_for_it_the_management_cluster_has_no_part() -> None:
    assert [one.name for one in on_management(shared("all", wanted("a", 1), zone="a")).clusters] == ["prod/edge"]


@pytest.mark.parametrize(
    ("owners", "steps"),
    [
        ([shared("mesh", wanted("a", 1), zone="b")], {"edge a": ["- 0-1"]}),
        ([], {"edge a": ["- 0-1"]}),
        ([shared("mesh", wanted("a", 1), zone="a")], {"edge a": []}),
        ([shared("mesh", wanted("a", 1), zone="b", keep=True)], {}),
    ],
    ids=["selects it no longer", "is gone", "selects it", "keeps services on mismatch"],
)
def test_what_a_shared_service_leaves_behind_is_removed(
    owners: list[MultiClusterService], steps: dict[str, list[str]]
) -> None:
    edge_ = cluster("edge", zone="a")
    held = stored_on(object_key("", edge_, shared("mesh")).name, there("a", 1), cluster="edge", owner="mesh")
    assert shown(planned(fleet(edge_, held, shared=owners))) == steps


def provider(name: str, **spec: Any) -> StateManagementProvider:
    return StateManagementProvider.from_object({"metadata": {"name": name}, "spec": spec})


@pytest.mark.parametrize(
    ("providers", "hold"),
    [
        ([], ""),
        ([provider(DEFAULT_PROVIDER, selector={})], ""),
        ([provider(DEFAULT_PROVIDER, selector={}, suspend=True)],
         "StateManagementProvider ksm-projectsveltos is suspended (spec.suspend)"),
        ([provider(DEFAULT_PROVIDER)], "ServiceSet prod/edge cannot be built: the selector of"),
        ([provider("flux", selector={})], "StateManagementProvider ksm-projectsveltos of ServiceSet prod/edge"),
    ],
    ids=["none are given", "ready", "suspended", "without a selector", "another one"],
)  # fmt: skip
def test_what_no_provider_delivers_is_held(providers: list[Any], hold: str) -> None:
    made = planned(fleet(cluster("edge", wanted("a", 1)), *providers))
    [[told]] = shown(made).values()
    assert told.startswith(f"held: {hold}" if hold else "1.0.0 0-1")


def test_a_priority_out_of_range_holds_too() -> None:
    document = cluster("edge", wanted("a", 1)).to_object()
    document["spec"]["serviceSpec"]["priority"] = 0
    [[told]] = shown(planned(fleet(ClusterDeployment.from_object(document)))).values()
    assert told.startswith("held: serviceSpec.priority is 0")


def test_a_cluster_in_dry_run_keeps_its_own_services_as_they_are() -> None:
    document = cluster("edge", wanted("a", 3), wanted("b", 1, "a"), zone="a").to_object()
    document["spec"]["dryRun"] = True
    held = stored_on("edge", there("a", 1), there("gone", 1))
    mesh = shared("mesh", wanted("m", 1), zone="a")
    made = planned(fleet(ClusterDeployment.from_object(document), held, shared=[mesh]))
    assert shown(made) == {"edge a": [], "edge b": [], "edge m": ["1.0.0 0-1"]}
    assert made.complete


def test_predictions_are_medians_of_the_same_step() -> None:
    past = [PastStep("t1", "t2", minutes * MINUTE) for minutes in (1, 2, 90)]
    known = Predictions([*past, PastStep("", "t1", timedelta())])
    assert known.of("t1", "t2") == (2 * MINUTE, 3)
    assert known.of("t2", "t3") == (DEFAULT, 0)
    assert known.of("", "t1") == (timedelta(seconds=1), 1)
    made = planned(fleet(*moving(1)), Predictions(past, MINUTE))
    assert [(minute(hop.ends), hop.samples) for hop in made.clusters[0].services[0].hops] == [(2, 3), (3, 0)]


def test_two_clusters_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="same namespace and name"):
        planned(fleet(cluster("edge"), cluster("edge")))
