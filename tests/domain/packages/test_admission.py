"""Which namespaces a repository serves."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.contracts.repositories import PackageRepositorySpec
from windlass.domain.packages.admission import EVERYONE, NOBODY, Audience, Operator, Requirement

OPEN = {"kind": "oci", "oci": {"url": "oci://registry.example.com/packages"}}
CLOSED = {"kind": "oci", "oci": {**OPEN["oci"], "secretRef": {"name": "login"}}}  # type: ignore[dict-item]
TEAM = {"matchLabels": {"team": "a"}}

keys = st.sampled_from(["team", "stage", "zone"])
values = st.sampled_from(["a", "b", ""])
labels = st.dictionaries(keys, values)
requirements = st.builds(
    Requirement, key=keys, operator=st.sampled_from(Operator), values=st.frozensets(values, max_size=2)
)
audiences = st.builds(
    Audience,
    everyone=st.booleans(),
    names=st.frozensets(st.sampled_from(["prod", "test"])),
    selector=st.lists(requirements, max_size=3).map(tuple),
)
namespaces = st.sampled_from(["prod", "test", "other"])


def audience(spec: dict[str, Any], **allowed: Any) -> Audience:
    document = {**spec, **({"allowedNamespaces": allowed} if allowed else {})}
    return PackageRepositorySpec.model_validate(document).audience


def test_without_a_login_everybody_is_served() -> None:
    assert audience(OPEN) == EVERYONE
    assert audience({"kind": "file", "file": {"path": "/packages"}}) == EVERYONE


@pytest.mark.parametrize("reference", ["secretRef", "certSecretRef"])
def test_with_a_login_nobody_is_served_until_the_repository_says_who(reference: str) -> None:
    oci = {"url": "oci://registry.example.com/packages", reference: {"name": "one"}}
    assert audience({"kind": "oci", "oci": oci}) == NOBODY


def test_a_repository_with_a_login_may_say_that_it_serves_everybody() -> None:
    assert audience(CLOSED, **{"from": "All"}) == EVERYONE


def test_a_list_closes_a_repository_without_a_login() -> None:
    found = audience(OPEN, names=["prod"])
    assert found.serves("prod", {})
    assert not found.serves("test", {"team": "a"})


def test_selected_without_names_and_selector_is_nobody() -> None:
    assert audience(OPEN, **{"from": "Selected"}) == NOBODY
    assert not audience(OPEN, selector={}).serves("prod", {"team": "a"})


@pytest.mark.parametrize(
    ("expression", "served"),
    [
        ({"key": "team", "operator": "In", "values": ["a", "b"]}, ["a", "b"]),
        ({"key": "team", "operator": "NotIn", "values": ["a"]}, ["b", None]),
        ({"key": "team", "operator": "Exists"}, ["a", "b"]),
        ({"key": "team", "operator": "DoesNotExist"}, [None]),
    ],
)
def test_operators_are_those_of_kubernetes(expression: dict[str, Any], served: list[str | None]) -> None:
    found = audience(CLOSED, selector={"matchExpressions": [expression]})
    teams = ["a", "b", None]
    assert [team for team in teams if found.serves("prod", {"team": team} if team else {})] == served


def test_names_and_selector_add_up() -> None:
    found = audience(CLOSED, names=["prod"], selector=TEAM)
    assert found.serves("prod", {})
    assert found.serves("test", {"team": "a"})
    assert not found.serves("test", {"team": "b"})


@given(audiences, namespaces, labels, labels)
def test_labels_matter_only_where_they_are_asked_for(
    found: Audience, namespace: str, one: dict[str, str], other: dict[str, str]
) -> None:
    if not found.asks_labels(namespace):
        assert found.serves(namespace, one) == found.serves(namespace, other)


@given(audiences, namespaces, labels)
def test_whom_it_serves_was_named_or_fulfils_every_requirement(
    found: Audience, namespace: str, given_labels: dict[str, str]
) -> None:
    selected = bool(found.selector) and all(one.holds(given_labels) for one in found.selector)
    assert found.serves(namespace, given_labels) == (found.everyone or namespace in found.names or selected)


@given(requirements, labels)
def test_opposite_operators_never_agree(requirement: Requirement, given_labels: dict[str, str]) -> None:
    opposite = {
        Operator.IN: Operator.NOT_IN,
        Operator.NOT_IN: Operator.IN,
        Operator.EXISTS: Operator.DOES_NOT_EXIST,
        Operator.DOES_NOT_EXIST: Operator.EXISTS,
    }[requirement.operator]
    other = Requirement(key=requirement.key, operator=opposite, values=requirement.values)
    assert requirement.holds(given_labels) is not other.holds(given_labels)
