"""Chains: tables from kcm.md, and what holds for any graph."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.domain.servicesets import chains
from windlass.domain.servicesets.chains import ChainGraph, UpgradeStep, check, next_hop, upgrade_paths
from windlass.domain.servicesets.errors import (
    ChainTooLargeError,
    MixedVersionsError,
    TargetOutsideChainError,
    TemplateMissingError,
    TemplateNotInChainError,
)
from windlass.domain.servicesets.keys import ObjectKey
from windlass.domain.servicesets.models import ServiceTemplateChain, ServiceUpgradePaths


def chain_of(edges: Mapping[str, Any]) -> ServiceTemplateChain:
    """A chain of templates ``a1`` with version 1 and so on: ``{"a1": "a2 a3"}``; a list holds edges as they are."""

    def upgrades(value: Any) -> list[dict[str, str]]:
        if isinstance(value, str):
            return [{"name": name, "version": f"{name[1:]}.0.0"} for name in value.split()]
        return list(value)

    templates = [{"name": name, "availableUpgrades": upgrades(value)} for name, value in edges.items()]
    return ServiceTemplateChain.from_object(
        {"metadata": {"namespace": "team", "name": "web"}, "spec": {"supportedTemplates": templates}}
    )


def shown(routes: tuple[chains.Route, ...]) -> list[str]:
    return [" ".join(step.name for step in route) for route in routes]


LINE = {"a1": "a2", "a2": "a3", "a3": ""}
SHORTCUT = {"a1": "a3 a2", "a2": "a3", "a3": ""}
DEAD_END = {"a1": "a2 a4", "a2": "a3", "a3": "", "a4": "a5", "a5": ""}
DIAMOND = {"a1": "a3 a2", "a2": "a4", "a3": "a4", "a4": ""}
PAIR = {"a1": "a2", "a2": "a1"}
ROLLBACKS = {"a1": "a3 a2", "a2": "a3 a1", "a3": "a2 a1"}
NAMES_ONLY = {"a1": [{"name": "a2"}], "a2": [{"name": "a1"}, {"name": "a3"}], "a3": [{"name": "a2"}]}


@pytest.mark.parametrize(
    ("edges", "start", "expected"),
    [
        (LINE, "a1", ["a2", "a2 a3"]),
        (LINE, "a2", ["a3"]),
        (LINE, "a3", []),
        (SHORTCUT, "a1", ["a2", "a2 a3"]),
        (DEAD_END, "a1", ["a2", "a2 a3", "a4", "a4 a5"]),
        (DIAMOND, "a1", ["a2", "a3", "a3 a4"]),
        (PAIR, "a1", ["a2"]),
        (ROLLBACKS, "a1", ["a2", "a2 a3"]),
        (ROLLBACKS, "a3", ["a2 a1", "a2"]),
        (ROLLBACKS, "a2", ["a1", "a3"]),
        (NAMES_ONLY, "a1", ["a2", "a2 a3"]),
        ({"a1": "a9"}, "a1", ["a9"]),
        ({"a1": "a1 a2", "a2": ""}, "a1", ["a2"]),
        ({"a10": "", "a9": "a10", "a1": "a9"}, "a1", ["a9 a10", "a9"]),
    ],
    ids=[
        "line", "from the middle", "at the end", "a shortcut is not taken", "a dead end leads only to itself",
        "the first listed of two", "two that lead back and forth", "with rollbacks: every step up",
        "with rollbacks: every step down", "with rollbacks: never away from the target", "cycles without versions",
        "a target outside the chain", "a template that leads to itself", "1.10 comes after 1.9",
    ],
)  # fmt: skip
def test_upgrade_paths(edges: Mapping[str, Any], start: str, expected: list[str]) -> None:
    assert shown(upgrade_paths(chain_of(edges), start)) == expected


def test_an_upgrade_listed_twice_counts_where_it_is_listed_first() -> None:
    """Two routes of equal length: the chain lists b first, so repeating it later changes nothing."""
    once = chain_of({"a1": "b2 c3", "b2": "d4", "c3": "d4", "d4": ""})
    twice = chain_of({"a1": "b2 c3 b2", "b2": "d4", "c3": "d4", "d4": ""})
    assert upgrade_paths(twice, "a1") == upgrade_paths(once, "a1")
    assert ChainGraph.of(twice).next_hop("a1", "d4") == UpgradeStep("b2", "2.0.0")


def test_leading_zeros_are_read_as_numbers() -> None:
    """On the way from 2024.01 to 2024.03 nothing turns round, though the chain leads back."""
    edges = [
        {"name": name, "availableUpgrades": [{"name": end, "version": end[1:]} for end in ends]}
        for name, ends in {
            "t2024.01.05": ["t2024.02.05", "t2024.03.05"],
            "t2024.02.05": ["t2024.03.05", "t2024.01.05"],
            "t2024.03.05": ["t2024.02.05"],
        }.items()
    ]
    chain = ServiceTemplateChain.from_object({"spec": {"supportedTemplates": edges}})
    route = ChainGraph.of(chain).route("t2024.01.05", "t2024.03.05")
    assert [step.version for step in route or ()] == ["2024.02.05", "2024.03.05"]


def test_a_missing_version_is_the_name() -> None:
    assert upgrade_paths(chain_of(NAMES_ONLY), "a2") == ((UpgradeStep("a1", "a1"),), (UpgradeStep("a3", "a3"),))
    assert upgrade_paths(chain_of(LINE), "a2") == ((UpgradeStep("a3", "3.0.0"),),)


def test_a_start_outside_the_chain_is_an_error_that_names_both() -> None:
    with pytest.raises(TemplateNotInChainError, match=r"a7 is not in .* team/web"):
        upgrade_paths(chain_of({"a1": "a7"}), "a7")


@pytest.mark.parametrize(
    ("edges", "errors"),
    [
        (LINE, []),
        (NAMES_ONLY, []),
        ({"a1": "a2"}, [TargetOutsideChainError]),
        ({"a1": [{"name": "a2"}, {"name": "a3", "version": "3"}], "a2": "", "a3": ""}, [MixedVersionsError]),
        ({"a1": [{"name": "a2"}], "a2": "a3", "a3": ""}, []),
        ({"a1": [{"name": "a2"}, {"name": "a4", "version": "4"}], "a2": "", "a3": ""},
         [TargetOutsideChainError, MixedVersionsError]),
    ],
    ids=["valid", "versionless", "target outside", "mixed", "mixed over two templates", "both"],
)  # fmt: skip
def test_check(edges: Mapping[str, Any], errors: list[type[Exception]]) -> None:
    assert [type(error) for error in check(chain_of(edges))] == errors


def test_check_names_templates_that_do_not_exist() -> None:
    [error] = check(chain_of(LINE), {"a1", "a3"})
    assert isinstance(error, TemplateMissingError)
    assert error.template == "a2"
    assert "ServiceTemplateChain team/web" in str(error)


def large(templates: int) -> dict[str, Any]:
    return {f"a{number}": f"a{number + 1}" for number in range(1, templates)} | {f"a{templates}": ""}


def test_the_largest_chain_is_taken_and_a_larger_one_refused() -> None:
    most = chains.MAX_TEMPLATES
    paths = upgrade_paths(chain_of(large(most)), "a1")
    assert sum(map(len, paths)) == most * (most - 1) // 2
    with pytest.raises(ChainTooLargeError, match=f"{most + 1} templates"):
        upgrade_paths(chain_of(large(most + 1)), "a1")
    assert [type(error) for error in check(chain_of(large(most + 1)))] == [ChainTooLargeError]


def entry(*routes: str) -> ServiceUpgradePaths:
    return ServiceUpgradePaths.from_object(
        {
            "name": "web",
            "namespace": "shop",
            "template": "a1",
            "availableUpgrades": [
                {"versions": [{"name": name, "version": f"{name[1:]}.0.0"} for name in route.split()]}
                for route in routes
            ],
        }
    )


@pytest.mark.parametrize(
    ("routes", "current", "target", "expected"),
    [
        (["a2", "a2 a3"], "a1", "a3", "a2"),
        (["a2", "a2 a3"], "a2", "a3", "a3"),
        (["a3", "a2 a3"], "a1", "a3", "a2"),
        (["a2 a3 a4"], "a1", "a3", "a2"),
        (["a2 a3 a4", "a5 a3"], "a1", "a3", "a5"),
        (["a2", "a2 a3"], "a1", "a4", None),
        (["a2 a1"], "a1", "a1", None),
        ([], "a1", "a2", None),
        (["a2 a3"], "a3", "a2", "a2"),
    ],
    ids=[
        "first step", "after the current one", "the farther target wins", "the target on the way",
        "a route that ends there before one that passes", "unreachable", "at the target of a cyclic chain", "no paths",
        "the current one behind the target",
    ],
)  # fmt: skip
def test_next_hop(routes: list[str], current: str, target: str, expected: str | None) -> None:
    step = next_hop(entry(*routes), current, target)
    assert (step and step.name) == expected


# -- any graph ---------------------------------------------------------------------------------------------------------

NODES = st.integers(1, 7)


@st.composite
def graphs(draw: st.DrawFn, *, acyclic: bool = False) -> ChainGraph:
    size = draw(NODES)
    pairs = [(a, b) for a in range(size) for b in range(size) if a < b or not acyclic]
    edges = draw(st.lists(st.sampled_from(pairs), unique=True, max_size=20)) if pairs else []
    labels = draw(st.permutations(range(size)))
    versions = draw(st.lists(st.sampled_from(["", "1.0.0", "2.0.0", "3.0.0", "4.0.0"]), min_size=size, max_size=size))

    def step(number: int) -> UpgradeStep:
        return UpgradeStep(f"t{labels[number]}", versions[number] or f"t{labels[number]}")

    return ChainGraph(
        ObjectKey("n", "c"), {f"t{labels[a]}": [step(b) for start, b in edges if start == a] for a in range(size)}
    )


def simple_routes(graph: ChainGraph, start: str) -> Iterator[tuple[str, ...]]:
    """Every route that visits no template twice."""
    stack: list[tuple[str, ...]] = [(start,)]
    while stack:
        route = stack.pop()
        yield route[1:]
        stack += [(*route, s.name) for s in reversed(graph.upgrades[route[-1]]) if s.name not in route]


@given(graphs(acyclic=True))
def test_without_cycles_the_longest_route_first_listed_is_taken(graph: ChainGraph) -> None:
    for start in graph.templates:
        best: dict[str, tuple[str, ...]] = {}
        for names in simple_routes(graph, start):
            if names and len(names) > len(best.get(names[-1], ())):
                best[names[-1]] = names
        found = {route[-1].name: tuple(step.name for step in route) for route in graph.routes(start)}
        assert found == best


@given(graphs())
def test_a_route_exists_where_one_can_be_walked_and_visits_nothing_twice(graph: ChainGraph) -> None:
    for start, target in itertools.product(graph.templates, repeat=2):
        route = graph.route(start, target)
        reachable = any(names[-1:] == (target,) for names in simple_routes(graph, start)) or start == target
        assert (route is not None) == reachable
        if route is not None:
            names = [start, *(step.name for step in route)]
            assert len(set(names)) == len(names)
            assert names[-1] == target
            assert all(b in {s.name for s in graph.upgrades[a]} for a, b in itertools.pairwise(names))


@given(graphs())
def test_after_a_step_the_rest_of_the_route_is_what_is_left(graph: ChainGraph) -> None:
    for start in graph.templates:
        for route in graph.routes(start):
            assert graph.route(route[0].name, route[-1].name) == route[1:]


@given(graphs())
def test_the_entry_of_a_service_leads_the_same_way_as_the_graph(graph: ChainGraph) -> None:
    for start in graph.templates:
        paths = ServiceUpgradePaths.from_object(
            {"availableUpgrades": [{"versions": [step._asdict() for step in route]} for route in graph.routes(start)]}
        )
        for target in graph.templates:
            assert next_hop(paths, start, target) == graph.next_hop(start, target)
