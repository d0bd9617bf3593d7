"""What a decision costs grows with the number of services, and not faster. Calls are counted, no time is taken."""

from __future__ import annotations

import itertools
import sys
from types import FrameType
from typing import Any

import pytest
from domain.servicesets.words import chain, cluster, own, reported, service_set, snapshot, stored, wanted

from windlass.servicesets import (
    OperationRequisites,
    ServiceSetOperation,
    Snapshot,
    get_service_set_with_operation,
    validate_dependencies,
)

HOPS = [f"{number}.0.0" for number in range(11)]


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


def situation(services: int, *, shared: bool) -> tuple[Snapshot, OperationRequisites]:
    """Services in a row of dependencies, every second one deployed, on chains of ten hops."""
    chains = ["web"] if shared else [f"web{number}" for number in range(services)]
    desired = [
        wanted(f"s{number}", HOPS[-1], *([f"s{number - 1}"] if number % 7 else []), chain=chains[number % len(chains)])
        for number in range(services)
    ]
    held = service_set(
        [stored(f"s{number}", HOPS[number % 2]) for number in range(services)],
        [reported(f"s{number}", "Deployed", HOPS[0]) for number in range(services)],
    )
    way = {start: [end] for start, end in itertools.pairwise(HOPS)} | {HOPS[-1]: []}
    return snapshot(held, *(chain(name, way) for name in chains), versions=HOPS), own(cluster(*desired))


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


def test_the_search_for_cycles_is_linear_too() -> None:
    def cost(services: int) -> int:
        ring = [wanted(f"s{number}", "1", f"s{(number + 1) % services}", "s0") for number in range(services)]
        return calls(lambda: validate_dependencies(ring))

    few, many = cost(100), cost(400)
    assert many <= few * 4 * 1.1
