"""What a schema cannot check, as conditions of each object."""

from __future__ import annotations

from typing import Any

import pytest
from domain.servicesets.rollout.fleets import chain, cluster, templates, wanted
from hypothesis import given
from hypothesis import strategies as st

from windlass.servicesets import (
    MultiClusterService,
    ServiceObject,
    ServiceSet,
    ServiceTemplate,
    ServiceTemplateChain,
    Snapshot,
    StateManagementProvider,
)
from windlass.servicesets.rollout import ConditionType, Fleet, ObjectConditions, conditions

HELM = {"helm": {"chartSpec": {"chart": "web", "version": "1.0.0"}}}
PROVIDER = StateManagementProvider.from_object(
    {"metadata": {"name": "ksm-projectsveltos"}, "spec": {"selector": {"matchLabels": {"a": "b"}}}}
)
Verdict = tuple[str, str, str]


def owner(name: str, *services: dict[str, Any], **spec: Any) -> MultiClusterService:
    document = {"metadata": {"name": name}, "spec": {"serviceSpec": {"services": list(services)}, **spec}}
    return MultiClusterService.from_object(document)


def judged(*objects: ServiceObject, providers: tuple[ServiceObject, ...] = (PROVIDER,)) -> list[ObjectConditions]:
    clusters = tuple(one for one in objects if one.KIND == "ClusterDeployment")
    owners = tuple(one for one in objects if isinstance(one, MultiClusterService))
    snapshot = Snapshot.of([*objects, *providers])
    return list(conditions(Fleet(clusters=clusters, multi_cluster_services=owners, snapshot=snapshot)))  # type: ignore[arg-type] - by kind


def of(found: list[ObjectConditions], kind: str, name: str) -> dict[str, Verdict]:
    (one,) = [one for one in found if (one.kind, one.key.name) == (kind, name)]
    return {item.type: (item.status, item.reason, item.message) for item in one.conditions}


def wrong(found: list[ObjectConditions]) -> dict[str, Verdict]:
    """What is False, by object and type."""
    return {
        f"{one.kind} {one.key}: {item.type}": (item.status, item.reason, item.message)
        for one in found
        for item in one.conditions
        if item.status != "True"
    }


def template(**spec: Any) -> ServiceTemplate:
    return ServiceTemplate.from_object({"metadata": {"namespace": "prod", "name": "t"}, "spec": spec})


def test_a_fleet_in_order() -> None:
    whole = judged(*templates(), cluster("a", wanted("x", 2), edge="1"), owner("m", wanted("y", 1)))
    assert wrong(whole) == {}
    assert of(whole, "MultiClusterService", "m") == {
        kind: ("True", f"{kind}Succeeded" if kind != "RolloutValidation" else "Succeeded", "")
        for kind in (
            "ServicesReferencesValidation",
            "ServicesDependencyValidation",
            "MultiClusterServiceDependencyValidation",
            "RolloutValidation",
        )
    }


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        (HELM, ""),
        ({"resources": {"localSourceRef": {"kind": "ConfigMap", "name": "a"}}}, ""),
        ({"helm": {"chartSource": {"remoteSourceSpec": {"oci": {"url": "oci://a/b"}}}}}, ""),
        ({}, "its spec names none of helm, kustomize, resources"),
        ({**HELM, "k8sConstraint": "new"}, "spec.k8sConstraint: "),
        (
            {"helm": {"chartSpec": {"chart": "a", "sourceRef": {"kind": "GitRepository", "name": "a"}}}},
            "spec.helm comes from a Git repository, which Windlass does not deliver yet",
        ),
        ({"kustomize": {"remoteSourceSpec": {"bucket": {"bucketName": "a"}}}}, "spec.kustomize comes from a bucket"),
        (
            {"helm": {"chartSource": {"localSourceRef": {"kind": "Bucket", "name": "a"}}}},
            "spec.helm comes from a bucket",
        ),
    ],
)
def test_templates(spec: dict[str, Any], problem: str) -> None:
    status, reason, message = of(judged(template(**spec)), "ServiceTemplate", "t")["Valid"]
    assert (status, reason) == (("False", "TemplateInvalid") if problem else ("True", "Succeeded"))
    assert message.startswith(problem)


def test_the_graph_of_a_chain() -> None:
    found = judged(*templates(2), chain("c", {1: [2, 3], 2: []}))
    assert of(found, "ServiceTemplateChain", "c")["Valid"] == (
        "False",
        "ChainInvalid",
        "template t1 may be upgraded to t3, which is not in supportedTemplates",
    )


def test_a_retired_template_does_not_make_a_chain_invalid() -> None:
    found = of(judged(*templates(2), chain("c", {1: [2], 2: [9], 9: []})), "ServiceTemplateChain", "c")
    assert found["Valid"] == ("True", "Succeeded", "")
    assert found["TemplatesExist"] == ("False", "TemplateNotFound", "there is no ServiceTemplate t9")


def test_what_status_said_before_does_not_count() -> None:
    whole = [
        one.changed(status=one.status.changed(valid=False, validation_error="old"))
        if isinstance(one, ServiceTemplate | ServiceTemplateChain)
        else one
        for one in templates(2)
    ]
    assert wrong(judged(*whole, cluster("a", wanted("x", 2)))) == {}


def test_validity_is_what_the_status_of_templates_and_chains_has() -> None:
    bad = chain("c", {1: [2]}).to_object()
    bad["metadata"]["generation"] = 3
    (found,) = [one for one in judged(ServiceTemplateChain.from_object(bad)) if one.kind == "ServiceTemplateChain"]
    assert found.validity.to_object() == {
        "valid": False,
        "validationError": "template t1 may be upgraded to t2, which is not in supportedTemplates",
        "observedGeneration": 3,
    }


def test_references_of_services() -> None:
    found = judged(*templates(2), cluster("a", wanted("x", 9), wanted("y", 1, chain="none"), wanted("z", 2)))
    status, reason, message = of(found, "ClusterDeployment", "a")["ServicesReferencesValidation"]
    assert (status, reason) == ("False", "ServicesReferencesValidationFailed")
    assert message == (
        "ServiceTemplate prod/t9 of service default/x does not exist; "
        "template t9 of service default/x is not in supportedTemplates of ServiceTemplateChain prod/line; "
        "ServiceTemplateChain prod/none of service default/y does not exist"
    )


def test_one_invalid_object_does_not_touch_another() -> None:
    good, bad = cluster("good", wanted("x", 2)), cluster("bad", wanted("x", 9))
    assert {key.partition(":")[0] for key in wrong(judged(*templates(2), good, bad))} == {"ClusterDeployment prod/bad"}


def test_an_invalid_template_is_told_of_those_that_use_it() -> None:
    found = judged(template(), cluster("a", {"name": "x", "template": "t"}))
    assert "is not valid: its spec names none" in of(found, "ClusterDeployment", "a")["ServicesReferencesValidation"][2]


@pytest.mark.parametrize(
    ("provider", "message"),
    [
        ((), "StateManagementProvider ksm-projectsveltos of ServiceSet prod/a does not exist"),
        ((PROVIDER.changed(spec=PROVIDER.spec.changed(selector=None)),), "the selector of StateManagementProvider"),
    ],
)
def test_the_provider_of_services(provider: tuple[ServiceObject, ...], message: str) -> None:
    found = judged(*templates(2), cluster("a", wanted("x", 2)), providers=provider)
    assert message in of(found, "ClusterDeployment", "a")["ServicesReferencesValidation"][2]


def test_a_provider_without_a_selector() -> None:
    found = judged(providers=(StateManagementProvider.new("", "p"),))
    assert of(found, "StateManagementProvider", "p")["Valid"][:2] == ("False", "SelectorMissing")


def test_dependencies_of_services() -> None:
    found = judged(*templates(2), cluster("a", wanted("x", 2, "y"), wanted("y", 2, "x", "z")))
    assert of(found, "ClusterDeployment", "a")["ServicesDependencyValidation"] == (
        "False",
        "ServicesDependencyValidationFailed",
        (
            "service default/y depends on service default/z, which is not defined; "
            "dependencies form a cycle: service default/x -> service default/y -> service default/x"
        ),
    )


def test_dependencies_of_owners_are_told_of_those_that_have_them() -> None:
    found = judged(
        owner("a", dependsOn=["b"]),
        owner("b", dependsOn=["a"]),
        owner("c", dependsOn=["a"]),
        owner("d", dependsOn=["x"]),
    )
    told = {name: of(found, "MultiClusterService", name)["MultiClusterServiceDependencyValidation"] for name in "abcd"}
    cycle = "dependencies form a cycle: MultiClusterService a -> MultiClusterService b -> MultiClusterService a"
    assert told["a"] == told["b"] == ("False", "MultiClusterServiceDependencyValidationFailed", cycle)
    assert told["c"][0] == "True"
    assert told["d"][2] == "MultiClusterService d depends on MultiClusterService x, which is not defined"


def test_the_places_of_an_owner_are_those_of_its_clusters() -> None:
    selector = {"clusterSelector": {"matchLabels": {"edge": "1"}}}
    missing = owner("m", wanted("x", 9), **selector)
    assert wrong(judged(*templates(2), cluster("a", edge="0"), missing)) == {}
    assert "MultiClusterService m: ServicesReferencesValidation" in wrong(
        judged(*templates(2), cluster("a", edge="1"), missing)
    )


@pytest.mark.parametrize(
    ("rollout", "problem"),
    [
        ({"windows": [{"schedule": "0 25 * * *", "duration": "1h"}]}, "spec.rollout.windows[0].schedule: '0 25"),
        ({"canarySelector": {"matchLabels": {"ring": "0"}}}, "canarySelector picks none of the clusters"),
    ],
)
def test_rollouts(rollout: dict[str, Any], problem: str) -> None:
    selector = {"clusterSelector": {"matchLabels": {"edge": "1"}}}
    found = judged(cluster("a", edge="1"), owner("m", rollout=rollout, **selector))
    status, reason, message = of(found, "MultiClusterService", "m")["RolloutValidation"]
    assert (status, reason) == ("False", "RolloutInvalid")
    assert problem in message


@pytest.mark.parametrize(
    ("labels", "spec", "expected"),
    [
        ({"a": "b"}, {"cluster": "edge"}, ("True", "Succeeded", "")),
        ({}, {"cluster": "edge"}, ("False", "SelectorInvalid", "StateManagementProvider ksm-projectsveltos does not")),
        ({"a": "b"}, {"cluster": "gone"}, ("False", "ReferenceNotFound", "ClusterDeployment prod/gone does not exist")),
        (
            {"a": "b"},
            {"cluster": "edge", "multiClusterService": "gone"},
            ("False", "ReferenceNotFound", "MultiClusterService gone does not exist"),
        ),
        (
            {"a": "b"},
            {"cluster": "edge", "services": [{"name": "x", "template": "t9"}]},
            ("False", "TemplateNotFound", "ServiceTemplate prod/t9 of service default/x does not exist"),
        ),
    ],
)
def test_service_sets(labels: dict[str, str], spec: dict[str, Any], expected: Verdict) -> None:
    service_set = ServiceSet.from_object(
        {
            "metadata": {"namespace": "prod", "name": "s", "labels": labels},
            "spec": {"provider": {"name": "ksm-projectsveltos"}, **spec},
        }
    )
    status, reason, message = of(judged(cluster("edge"), service_set), "ServiceSet", "s")["Valid"]
    assert (status, reason) == expected[:2]
    assert message.startswith(expected[2])


NUMBERS = st.integers(1, 4)


@given(
    edges=st.dictionaries(NUMBERS, st.lists(NUMBERS, max_size=3)),
    services=st.lists(
        st.tuples(st.sampled_from("xyz"), NUMBERS, st.sampled_from(["", "x", "y", "z", "q"])), max_size=4
    ),
    depends=st.dictionaries(st.sampled_from("abc"), st.lists(st.sampled_from("abcd"), max_size=2)),
    known=st.integers(0, 4),
)
def test_every_object_is_judged_whatever_they_hold(
    edges: dict[int, list[int]], services: list[tuple[str, int, str]], depends: dict[str, list[str]], known: int
) -> None:
    entries = [wanted(name, hop, *([after] if after else []), chain="c") for name, hop, after in services]
    selector = {"clusterSelector": {"matchLabels": {"edge": "1"}}}
    owners = [owner(name, *entries, dependsOn=named, **selector) for name, named in depends.items()]
    objects = [*templates(known), chain("c", edges), cluster("k", *entries, edge="1"), *owners]
    found = judged(*objects)
    assert sorted((one.kind, str(one.key)) for one in found) == sorted(
        (one.KIND, f"{one.metadata.namespace}/{one.metadata.name}".lstrip("/")) for one in [*objects, PROVIDER]
    )
    for one in found:
        assert [item.type for item in one.conditions] == list(dict.fromkeys(item.type for item in one.conditions))
        for item in one.conditions:
            assert item.type in set(ConditionType)
            assert bool(item.message) is (item.status == "False")
            assert len(item.message.encode()) <= 1024
