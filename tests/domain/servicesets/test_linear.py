"""What decisions and plans cost grows with services and chains, and not faster. Calls are counted, no time is taken."""

from __future__ import annotations

import itertools
import sys
from types import FrameType
from typing import Any

import pytest
from domain.servicesets.rollout.fleets import NOW, stored_on, templates, there
from domain.servicesets.rollout.fleets import cluster as on_cluster
from domain.servicesets.rollout.fleets import wanted as wanted_at
from domain.servicesets.words import chain, cluster, own, reported, service_set, snapshot, stored, wanted

from windlass.domain.servicesets.rollout.fleet import Fleet
from windlass.domain.servicesets.rollout.plan import plan
from windlass.domain.servicesets.rollout.policy import RolloutPolicy
from windlass.servicesets import (
    ClusterDeployment,
    OperationRequisites,
    ServiceSetOperation,
    Snapshot,
    get_service_set_with_operation,
    validate_dependencies,
)

POLICY = RolloutPolicy.model_validate({"canary": 1, "waves": ["20%"], "maxConcurrent": "10%", "soak": "30m"})


def calls(work: Any) -> int:
    """The calls of Python functions that ``work`` makes."""
    count = 0

    def counted(_: FrameType, event: str, __: Any) -> None:
        nonlocal count
        count += event == "call"

    before = sys.getprofile()
    sys.setprofile(counted)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


def situation(services: int, *, shared: bool, length: int = 10) -> tuple[Snapshot, OperationRequisites]:
    """Services in rows of dependencies, every second one deployed, at the start of chains of some hops."""
    hops = [f"{number}.0.0" for number in range(length + 1)]
    chains = ["web"] if shared else [f"web{number}" for number in range(services)]
    desired = [
        wanted(f"s{number}", hops[-1], *([f"s{number - 1}"] if number % 7 else []), chain=chains[number % len(chains)])
        for number in range(services)
    ]
    held = service_set(
        [stored(f"s{number}", hops[number % 2]) for number in range(services)],
        [reported(f"s{number}", "Deployed", hops[0]) for number in range(services)],
    )
    way = {start: [end] for start, end in itertools.pairwise(hops)} | {hops[-1]: []}
    return snapshot(held, *(chain(name, way) for name in chains), versions=hops), own(cluster(*desired))


@pytest.mark.parametrize("shared", [True, False], ids=["one chain", "a chain each"])
def test_a_decision_is_linear_in_services(shared: bool) -> None:
    def cost(services: int) -> int:
        taken, requisites = situation(services, shared=shared)
        decision = get_service_set_with_operation(taken, requisites)
        assert decision.operation is ServiceSetOperation.UPDATE
        return calls(lambda: get_service_set_with_operation(taken, requisites))

    cost(10)  # what is kept between calls is there from here on
    few, many = cost(50), cost(200)
    assert many <= few * 4 * 1.1


@pytest.mark.parametrize("shared", [True, False], ids=["one chain", "a chain each"])
def test_a_decision_is_linear_in_the_length_of_chains(shared: bool) -> None:
    def cost(length: int) -> int:
        taken, requisites = situation(20, shared=shared, length=length)
        return calls(lambda: get_service_set_with_operation(taken, requisites))

    cost(5)
    few, many = cost(20), cost(80)
    assert many <= few * 4 * 1.1


@pytest.mark.parametrize(("clusters", "length"), [(40, 10), (10, 40)], ids=["clusters", "steps"])
def test_a_plan_is_linear_in_clusters_and_in_steps(clusters: int, length: int) -> None:
    def cost(clusters: int, length: int) -> int:
        whole = moving(clusters, length)
        made = plan(POLICY, whole, NOW)
        assert made.complete
        assert sum(len(one.hops) for its in made.clusters for one in its.services) == 3 * clusters * (length - 1)
        return calls(lambda: plan(POLICY, whole, NOW))

    cost(10, 10)
    assert cost(clusters, length) <= cost(10, 10) * 4 * 1.1


def moving(clusters: int, length: int) -> Fleet:
    """Clusters with three services in a row of dependencies, all with the whole chain before them."""
    asked = [wanted_at("a", length), wanted_at("b", length, "a"), wanted_at("c", length, "b")]
    objects = [
        one
        for number in range(clusters)
        for one in (
            on_cluster(f"c{number:03}", *asked),
            stored_on(f"c{number:03}", *(there(name, 1) for name in "abc")),
        )
    ]
    return Fleet(
        clusters=tuple(one for one in objects if isinstance(one, ClusterDeployment)),
        snapshot=Snapshot.of([*templates(length), *objects]),
    )


def test_the_search_for_cycles_is_linear_too() -> None:
    def cost(services: int) -> int:
        ring = [wanted(f"s{number}", "1", f"s{(number + 1) % services}", "s0") for number in range(services)]
        return calls(lambda: validate_dependencies(ring))

    few, many = cost(100), cost(400)
    assert many <= few * 4 * 1.1
