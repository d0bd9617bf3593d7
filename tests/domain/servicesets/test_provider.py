"""Providers and ServiceSets from their parts (kcm.md section 2: provider configuration, Builder)."""

from __future__ import annotations

from typing import Any

import pytest
from domain.servicesets.words import CLUSTER, cluster, mcs, stored
from hypothesis import given
from hypothesis import strategies as st

from windlass.domain.servicesets.models import PRIORITY_MAX, LabelSelector
from windlass.domain.servicesets.provider import matching_labels, required_labels
from windlass.domain.servicesets.selectors import matches
from windlass.servicesets import (
    Builder,
    ClusterDeployment,
    MultiClusterService,
    ObjectKey,
    PriorityOutOfRangeError,
    SelectorInvalidError,
    SelectorMissingError,
    ServiceSet,
    ServiceSpec,
    priority_to_tier,
    state_management_provider_config_from_service_spec,
)

DEFAULT = "ksm-projectsveltos"
DEPRECATED: dict[str, Any] = {
    "syncMode": "OneTime",
    "templateResourceRefs": [{"identifier": "x"}],
    "policyRefs": [{"kind": "ConfigMap", "name": "p"}],
    "driftIgnore": [{"kind": "Deployment"}],
    "driftExclusions": [{"paths": ["spec.replicas"]}],
    "priority": 7,
    "stopOnConflict": True,
    "reload": True,
    "continueOnError": True,
}


UNUSABLE: dict[str, dict[str, Any]] = {
    "has the operator 'Equals' for a": {"matchExpressions": [{"key": "a", "operator": "Equals", "values": ["1"]}]},
    "has no values for a": {"matchExpressions": [{"key": "a", "operator": "In"}]},
    "has no values for b": {"matchExpressions": [{"key": "b", "operator": "NotIn", "values": []}]},
    "has values for a": {"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["1"]}]},
    "names 'no label', which is no label key": {"matchLabels": {"no label": "1"}},
    "has 'a b', no label value": {"matchLabels": {"a": "a b"}},
    "does not pick the labels that follow from it (k=a)": {
        "matchLabels": {"k": "v"},
        "matchExpressions": [{"key": "k", "operator": "In", "values": ["a", "v"]}],
    },
    "does not pick the labels that follow from it (k=a)#2": {
        "matchExpressions": [
            {"key": "k", "operator": "In", "values": ["a", "b"]},
            {"key": "k", "operator": "NotIn", "values": ["a"]},
        ]
    },
    "does not pick the labels that follow from it (old=kept)": {
        "matchExpressions": [{"key": "old", "operator": "DoesNotExist"}]
    },
}


@pytest.mark.parametrize("problem", UNUSABLE)
def test_a_selector_that_would_never_pick_the_service_set_is_an_error(problem: str) -> None:
    existing = ServiceSet.from_object({"metadata": {"namespace": "prod", "name": "x"}})
    if "old" in problem:
        existing = ServiceSet.from_object({"metadata": {"namespace": "prod", "name": "x", "labels": {"old": "kept"}}})
    with pytest.raises(SelectorInvalidError) as refused:
        Builder(CLUSTER, existing, LabelSelector.from_object(UNUSABLE[problem])).build()
    assert problem.partition("#")[0] in str(refused.value)


@given(st.data())
def test_labels_that_are_built_are_picked(data: st.DataObject) -> None:
    key, value = st.sampled_from("kl"), st.sampled_from(["", "a", "b"])
    operator = st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist"])
    expression = st.tuples(key, operator, st.lists(value, min_size=1, max_size=2)).map(
        lambda one: {"key": one[0], "operator": one[1], **({"values": one[2]} if "In" in one[1] else {})}
    )
    document = {
        "matchLabels": data.draw(st.dictionaries(key, value)),
        "matchExpressions": data.draw(st.lists(expression, max_size=3)),
    }
    selector, present = LabelSelector.from_object(document), data.draw(st.dictionaries(key, value))
    try:
        labels = matching_labels(selector, present, ObjectKey("prod", "x"))
    except SelectorInvalidError:
        return
    assert matches(selector, labels)


@pytest.mark.parametrize(
    ("priority", "tier"), [(None, 2_147_483_547), (100, 2_147_483_547), (1, 2_147_483_646), (PRIORITY_MAX, 1)]
)
def test_the_higher_priority_is_the_lower_tier(priority: int | None, tier: int) -> None:
    assert priority_to_tier(priority) == tier


@pytest.mark.parametrize("priority", [0, -1, PRIORITY_MAX + 1])
def test_a_priority_out_of_range_has_no_tier(priority: int) -> None:
    with pytest.raises(PriorityOutOfRangeError):
        priority_to_tier(priority)


@pytest.mark.parametrize(
    ("spec", "config"),
    [
        ({}, {"name": DEFAULT, "config": {}}),
        ({"priority": 7}, {"name": DEFAULT, "config": {"priority": 7}}),
        (
            DEPRECATED,
            {
                "name": DEFAULT,
                "config": {key: value for key, value in DEPRECATED.items() if key != "reload"} | {"reloader": True},
            },
        ),
        (
            {"syncMode": "", "policyRefs": [], "stopOnConflict": False, "reload": False, "priority": None},
            {"name": DEFAULT, "config": {}},
        ),
        (
            {"priority": 7, "provider": {"config": {"own": 1}}},
            {"config": {"own": 1}, "name": DEFAULT},
        ),
        ({"priority": 0, "provider": {"config": {}}}, {"config": {}, "name": DEFAULT}),
        ({"priority": 7, "provider": {"name": "flux"}}, {"name": "flux"}),
        ({"provider": {"name": "flux", "config": {"own": 1}}}, {"name": "flux", "config": {"own": 1}}),
        (
            {"provider": {"selfManagement": True, "later": 1}},
            {"selfManagement": True, "later": 1, "name": DEFAULT, "config": {}},
        ),
    ],
)
def test_provider_config(spec: dict[str, Any], config: dict[str, Any]) -> None:
    assert state_management_provider_config_from_service_spec(ServiceSpec.from_object(spec)).to_object() == config


@pytest.mark.parametrize(("priority", "fits"), [(-1, False), (0, False), (1, True), (PRIORITY_MAX, True)])
def test_priority_has_bounds(priority: int, fits: bool) -> None:
    spec = ServiceSpec(priority=priority)
    if fits:
        assert state_management_provider_config_from_service_spec(spec).config == {"priority": priority}
    else:
        with pytest.raises(PriorityOutOfRangeError, match=f"serviceSpec.priority is {priority}.*1 to 2147483646"):
            state_management_provider_config_from_service_spec(spec)


def test_priority_beyond_its_bounds() -> None:
    with pytest.raises(PriorityOutOfRangeError) as error:
        state_management_provider_config_from_service_spec(ServiceSpec(priority=PRIORITY_MAX + 1))
    assert error.value.priority == PRIORITY_MAX + 1


@pytest.mark.parametrize(
    ("selector", "labels"),
    [
        ({}, {}),
        ({"matchLabels": {"a": "1", "b": "2"}}, {"a": "1", "b": "2"}),
        ({"matchExpressions": [{"key": "a", "operator": "In", "values": ["z", "m"]}]}, {"a": "m"}),
        ({"matchExpressions": [{"key": "a", "operator": "In", "values": []}]}, {}),
        (
            {"matchExpressions": [{"key": "old", "operator": "Exists"}, {"key": "new", "operator": "Exists"}]},
            {"old": "kept", "new": ""},
        ),
        ({"matchLabels": {"a": "1"}, "matchExpressions": [{"key": "a", "operator": "Exists"}]}, {"a": "1"}),
        (
            {
                "matchExpressions": [
                    {"key": "a", "operator": operator, "values": ["1"]} for operator in ("NotIn", "DoesNotExist")
                ]
            },
            {},
        ),
    ],
)
def test_required_labels(selector: dict[str, Any], labels: dict[str, str]) -> None:
    assert required_labels(LabelSelector.from_object(selector), {"old": "kept"}) == labels


SELECTOR = LabelSelector(match_labels={"adapter": "sveltos"})
SERVICES = (stored("a", "1.0.0"),)


@pytest.mark.parametrize(
    ("place", "owner", "spec", "owner_kind"),
    [
        (cluster(), None, {"cluster": "edge"}, "ClusterDeployment"),
        (cluster(), mcs("mesh"), {"cluster": "edge", "multiClusterService": "mesh"}, "ClusterDeployment"),
        (None, mcs("mesh"), {"multiClusterService": "mesh"}, "MultiClusterService"),
    ],
)
def test_a_service_set_is_built(
    place: ClusterDeployment | None, owner: MultiClusterService | None, spec: dict[str, Any], owner_kind: str
) -> None:
    builder = Builder(place, ServiceSet.new("prod", "x"), SELECTOR).with_multi_cluster_service(owner)
    built = builder.with_services_to_deploy(SERVICES).build()
    self_management = {} if place else {"selfManagement": True}
    assert built.to_object() == {
        "apiVersion": "windlass.dev/v1alpha1",
        "kind": "ServiceSet",
        "metadata": {
            "namespace": "prod",
            "name": "x",
            "labels": {"adapter": "sveltos"},
            "ownerReferences": [
                {
                    "apiVersion": "windlass.dev/v1alpha1",
                    "kind": owner_kind,
                    "name": "edge" if place else "mesh",
                    "uid": "u1" if place else "u2",
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": {
            "services": [SERVICES[0].to_object()],
            **spec,
            "provider": {"name": DEFAULT, "config": {}, **self_management},
        },
    }


def test_the_multi_cluster_service_decides_on_the_provider() -> None:
    owner = mcs("mesh").to_object()
    owner["spec"]["serviceSpec"]["provider"] = {"name": "flux"}
    builder = Builder(cluster(priority=3), ServiceSet.new("prod", "x"), SELECTOR)
    assert builder.build().spec.provider.config == {"priority": 3}
    built = builder.with_multi_cluster_service(MultiClusterService.from_object(owner)).build()
    assert built.spec.provider.to_object() == {"name": "flux"}


def test_what_others_wrote_stays() -> None:
    existing = ServiceSet.from_object(
        {
            "apiVersion": "windlass.dev/v1alpha1",
            "kind": "ServiceSet",
            "metadata": {
                "name": "x",
                "namespace": "prod",
                "uid": "u9",
                "labels": {"team": "web", "adapter": "old"},
                "ownerReferences": [{"kind": "Other", "name": "o"}],
                "annotations": {"windlass.dev/paused": ""},
            },
            "spec": {"later": 1, "cluster": "old", "provider": {"name": "old"}},
            "status": {"deployed": True},
            "more": [1],
        }
    )
    before = existing.to_object()
    built = Builder(CLUSTER, existing, SELECTOR).build().to_object()
    assert existing.to_object() == before
    assert built["metadata"]["labels"] == {"team": "web", "adapter": "sveltos"}
    assert [owner["name"] for owner in built["metadata"]["ownerReferences"]] == ["edge"]
    assert built["metadata"]["annotations"] == {"windlass.dev/paused": ""}
    assert built["spec"] == {"later": 1, "cluster": "edge", "provider": {"name": DEFAULT, "config": {}}}
    assert (built["status"], built["more"]) == ({"deployed": True}, [1])


def test_a_builder_needs_a_selector_and_an_owner() -> None:
    with pytest.raises(SelectorMissingError, match="ServiceSet prod/x cannot be built: the selector is missing"):
        Builder(CLUSTER, ServiceSet.new("prod", "x"), None).build()
    with pytest.raises(ValueError, match="belongs to a cluster"):
        Builder(None, ServiceSet.new("prod", "x"), SELECTOR).build()
