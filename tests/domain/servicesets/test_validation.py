"""What has to be right before services are resolved (kcm.md section 3)."""

from __future__ import annotations

from typing import Any

import pytest
from domain.servicesets.words import NAMESPACE, chain, mcs, snapshot, template, wanted

from windlass.servicesets import (
    ChainInvalidError,
    ChainNotFoundError,
    DependencyCycleError,
    DependencyNotDefinedError,
    MixedVersionsError,
    NameInvalidError,
    Service,
    ServiceSetError,
    ServiceTemplateChain,
    TargetOutsideChainError,
    TemplateInvalidError,
    TemplateNotFoundError,
    TemplateNotInChainError,
    validate_chain,
    validate_dependencies,
    validate_multi_cluster_dependencies,
    validate_references,
)

WEB = chain("web", {"1.0.0": ["2.0.0"], "2.0.0": []})


def references(*services: Service, objects: list[Any] | None = None) -> list[type[ServiceSetError]]:
    return [type(error) for error in found(*services, objects=objects)]


def found(*services: Service, objects: list[Any] | None = None) -> tuple[ServiceSetError, ...]:
    taken = snapshot(WEB, *(objects or []), versions=["1.0.0", "2.0.0", "3.0.0"])
    return validate_references(services, NAMESPACE, taken.templates, taken.chains)


def test_all_is_well() -> None:
    assert (
        references(wanted("a", "1.0.0", chain="web"), wanted("b", "3.0.0"), wanted("a", "1.0.0", namespace="x")) == []
    )


@pytest.mark.parametrize(
    ("name", "namespace", "wrong"),
    [
        ("a.b-c", "web", []),
        ("", "", ["name"]),
        ("A", "", ["name"]),
        ("a_b", "", ["name"]),
        ("-a", "", ["name"]),
        ("a" * 254, "", ["name"]),
        ("a", "a.b", ["namespace"]),
        ("a", "x" * 64, ["namespace"]),
        ("A", "B", ["name", "namespace"]),
    ],
)
def test_names(name: str, namespace: str, wrong: list[str]) -> None:
    errors = found(wanted(name, "1.0.0", namespace=namespace))
    assert [error.field for error in errors if isinstance(error, NameInvalidError)] == wrong
    assert len(errors) == len(wrong)


def test_a_service_is_listed_once() -> None:
    (error,) = found(wanted("a", "1.0.0"), wanted("a", "2.0.0", namespace="default"))
    assert str(error).startswith("service default/a is listed more than once")


@pytest.mark.parametrize(
    ("spec", "status", "problem"),
    [
        ({}, {}, ""),
        ({}, {"valid": True}, ""),
        ({}, {"valid": False, "validationError": "no such chart"}, "no such chart"),
        ({}, {"valid": False}, "its status says so"),
        ({"helm": None}, {}, "its spec names none of helm, kustomize, resources"),
        ({"resources": {}}, {}, "its spec names helm and resources of helm, kustomize, resources"),
    ],
)
def test_templates_have_to_be_valid(spec: dict[str, Any], status: dict[str, Any], problem: str) -> None:
    document = template("1.0.0", name="x", **spec).to_object() | {"status": status}
    errors = found(Service(name="a", template="x"), objects=[type(template("1")).from_object(document)])
    assert [type(error) for error in errors] == ([TemplateInvalidError] if problem else [])
    assert all(f"ServiceTemplate prod/x of service default/a is not valid: {problem}" in str(one) for one in errors)


def test_references_have_to_lead_somewhere() -> None:
    assert references(wanted("a", "9")) == [TemplateNotFoundError]
    assert references(wanted("a", "1.0.0", chain="gone")) == [ChainNotFoundError]
    assert references(wanted("a", "3.0.0", chain="web")) == [TemplateNotInChainError]
    assert references(wanted("a", "9", chain="gone"), wanted("B", "3.0.0", chain="web")) == [
        TemplateNotFoundError,
        ChainNotFoundError,
        NameInvalidError,
        TemplateNotInChainError,
    ]


OUTSIDE = chain("outside", {"1.0.0": ["2.0.0", "3.0.0"], "2.0.0": []})


def mixed() -> ServiceTemplateChain:
    document = chain("mixed", {"1.0.0": ["2.0.0"], "2.0.0": [], "3.0.0": []}).to_object()
    document["spec"]["supportedTemplates"][0]["availableUpgrades"].append({"name": "t-3-0-0"})
    return ServiceTemplateChain.from_object(document)


def test_chains_have_to_be_valid() -> None:
    assert validate_chain(WEB) == ()
    (error,) = validate_chain(OUTSIDE)
    assert isinstance(error, TargetOutsideChainError)
    assert (error.chain, error.template, error.target) == (("prod", "outside"), "t-1-0-0", "t-3-0-0")
    (error,) = validate_chain(mixed())
    assert isinstance(error, MixedVersionsError)
    assert (error.template, error.versionless) == ("t-1-0-0", ("t-3-0-0",))
    judged = WEB.changed(status=WEB.status.changed(valid=False, validation_error="nobody likes it"))
    (error,) = validate_chain(judged)
    assert error.problem == "nobody likes it"
    assert str(error).startswith("ServiceTemplateChain prod/web is not valid: nobody likes it (correct the chain")


def test_an_invalid_chain_is_told_once() -> None:
    services = [wanted(name, "1.0.0", chain="outside") for name in "ab"]
    errors = found(*services, objects=[OUTSIDE])
    assert [type(error) for error in errors] == [TargetOutsideChainError]
    assert isinstance(errors[0], ChainInvalidError)


@pytest.mark.parametrize(
    ("graph", "undefined", "cycles"),
    [
        ({"a": "", "b": "a", "c": "a b"}, [], []),
        ({"a": "x", "b": "a x y x"}, ["a x", "b x", "b y"], []),
        ({"a": "a"}, [], [["a"]]),
        ({"a": "b", "b": "a"}, [], [["a", "b"]]),
        ({"a": "b", "b": "c", "c": "a", "d": "a"}, [], [["a", "b", "c"]]),
        ({"d": "c", "c": "b", "b": "c d"}, [], [["d", "c", "b"]]),
        ({"a": "b", "b": "a", "c": "d x", "d": "c a"}, ["c x"], [["a", "b"], ["c", "d"]]),
        ({"z": "y", "y": "z y"}, [], [["z", "y"]]),
    ],
)
def test_dependencies_of_services(graph: dict[str, str], undefined: list[str], cycles: list[list[str]]) -> None:
    services = [wanted(name, "1", *named.split()) for name, named in graph.items()]
    errors = validate_dependencies(services)
    assert [
        f"{one.dependent[-1]} {one.dependency[-1]}" for one in errors if isinstance(one, DependencyNotDefinedError)
    ] == undefined
    assert [list(one.members) for one in errors if isinstance(one, DependencyCycleError)] == [
        [f"service default/{name}" for name in members] for members in cycles
    ]
    assert len(errors) == len(undefined) + len(cycles)


def test_dependencies_of_multi_cluster_services() -> None:
    owners = [mcs("mesh", dependsOn=["base"]), mcs("base", dependsOn=["mesh", "gone"])]
    undefined, cycle = validate_multi_cluster_dependencies(owners)
    assert isinstance(undefined, DependencyNotDefinedError)
    assert undefined.message == "MultiClusterService base depends on MultiClusterService gone, which is not defined"
    assert isinstance(cycle, DependencyCycleError)
    assert cycle.members == ("MultiClusterService mesh", "MultiClusterService base")
    assert cycle.message.endswith("MultiClusterService mesh -> MultiClusterService base -> MultiClusterService mesh")
