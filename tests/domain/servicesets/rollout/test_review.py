"""What validation refuses of a fleet, by object."""

from __future__ import annotations

from dataclasses import replace

from domain.servicesets.rollout.fleets import cluster, fleet, shared, wanted

from windlass.domain.servicesets.models import MultiClusterService, ServiceTemplateChain
from windlass.domain.servicesets.rollout.fleet import Fleet
from windlass.domain.servicesets.rollout.review import review

MIXED = ServiceTemplateChain.from_object(
    {
        "metadata": {"namespace": "prod", "name": "mixed"},
        "spec": {
            "supportedTemplates": [
                {"name": "t1", "availableUpgrades": [{"name": "t2"}, {"name": "t9", "version": "9.0.0"}]},
                {"name": "t2"},
            ]
        },
    }
)


def found(one: Fleet) -> list[tuple[list[str], str]]:
    return [(list(finding.objects), finding.error.message) for finding in review(one)]


def test_nothing_is_wrong() -> None:
    whole = fleet(cluster("a", wanted("x", 2), zone="a"), shared=[shared("m", wanted("y", 1), zone="a")])
    assert found(whole) == []


def test_an_error_of_many_clusters_is_told_once_with_all_of_them() -> None:
    whole = fleet(*(cluster(name, wanted("x", 2, chain="mixed")) for name in "ab"), MIXED)
    both = ["ClusterDeployment prod/a", "ClusterDeployment prod/b"]
    invalid = "ServiceTemplateChain prod/mixed is not valid: "
    assert found(whole) == [
        (both, f"{invalid}template t1 may be upgraded to t9, which is not in supportedTemplates"),
        (both, f"{invalid}upgrades of template t1 partly say a version; those to t2 do not"),
    ]


def test_names_references_and_cycles_of_services() -> None:
    whole = fleet(cluster("a", wanted("X", 9), wanted("y", 1), wanted("y", 1), wanted("z", 1, "z", "gone")))
    assert [text for _, text in found(whole)] == [
        "service default/X: name is not a DNS subdomain of at most 253 characters",
        "ServiceTemplate prod/t9 of service default/X does not exist",
        "template t9 of service default/X is not in supportedTemplates of ServiceTemplateChain prod/line",
        "service default/y is listed more than once",
        "service default/z depends on service default/gone, which is not defined",
        "dependencies form a cycle: service default/z -> service default/z",
    ]


def test_shared_services_are_held_against_the_namespaces_they_go_to() -> None:
    document = shared("m", wanted("x", 1), after=["m"], zone="a").to_object()
    document["spec"]["serviceSpec"]["provider"] = {"selfManagement": True}
    one = fleet(cluster("a", zone="a"), cluster("b"), shared=[MultiClusterService.from_object(document)])
    assert found(replace(one, system_namespace="system")) == [
        (["MultiClusterService m"], "ServiceTemplate system/t1 of service default/x does not exist"),
        (["MultiClusterService m"], "ServiceTemplateChain system/line of service default/x does not exist"),
        (["dependsOn of MultiClusterServices"],
         "dependencies form a cycle: MultiClusterService m -> MultiClusterService m"),
    ]  # fmt: skip
