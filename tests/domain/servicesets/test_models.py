"""Manifests come back as they went in."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from domain.servicesets.manifests import MANIFESTS, manifests
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from windlass.domain.servicesets import models
from windlass.domain.servicesets.manifest import Manifest
from windlass.domain.servicesets.models import Service, ServiceObject, ServiceSet, ServiceSpec, ServiceWithValues

KINDS: list[type[ServiceObject]] = [
    models.ServiceTemplate,
    models.ServiceTemplateChain,
    models.ClusterDeployment,
    models.MultiClusterService,
    models.ServiceSet,
    models.StateManagementProvider,
]

PASSED_THROUGH = {
    "ChartSpec.interval",
    "ChartSpec.reconcileStrategy",
    "ChartSpec.sourceRef",
    "ValidityStatus.chartRef",
}
"""What only a provider reads."""


def text(document: Any) -> str:
    """The document with its order of keys."""
    return json.dumps(document)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.KIND)
@given(data=st.data())
def test_a_manifest_is_written_back_unchanged(kind: type[ServiceObject], data: st.DataObject) -> None:
    document = data.draw(manifests(kind))
    before = text(document)
    model = kind.from_object(document)
    assert text(model.to_object()) == before
    assert text(kind.from_object(model.to_object()).to_object()) == before


@pytest.mark.parametrize("name", sorted(MANIFESTS))
def test_manifests_as_people_write_them(name: str) -> None:
    document = MANIFESTS[name]
    kind = next(kind for kind in KINDS if document["kind"] == kind.KIND)
    model = kind.from_object(document)
    assert text(model.to_object()) == text(document)
    assert unknown(model) <= PASSED_THROUGH, "fields of the API that no model names"


def unknown(model: Manifest) -> set[str]:
    found = {f"{type(model).__name__}.{key}" for key in model.__pydantic_extra__ or {}}
    for name in type(model).model_fields:
        value = getattr(model, name)
        for part in value if isinstance(value, tuple) else (value,):
            found |= unknown(part) if isinstance(part, Manifest) else set()
    return found


def test_null_reads_as_absent_and_stays_null() -> None:
    service = Service.from_object({"name": "a", "values": None, "dependsOn": None, "new": None})
    assert (service.values, service.depends_on) == ("", ())
    assert service.to_object() == {"name": "a", "values": None, "dependsOn": None, "new": None}


def test_python_names_are_no_wire_names() -> None:
    document = {"template_chain": "x", "templateChain": "y"}
    service = Service.from_object(document)
    assert service.template_chain == "y"
    assert service.to_object() == document
    assert Service(template_chain="y").to_object() == {"templateChain": "y"}


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Service(name="a", template_chian="c"), "no field template_chian; did you mean template_chain?"),
        (lambda: Service(depends_on=[{"nmae": "b"}]), "no field nmae; did you mean name?"),
        (lambda: ServiceSet(zzz=1), "ServiceSet has no field zzz"),
    ],
)
def test_constructors_refuse_unknown_fields(make: Callable[[], object], said: str) -> None:
    with pytest.raises(ValidationError, match=re.escape(said)):
        make()


def test_a_manifest_may_hold_unknown_fields() -> None:
    assert Service.from_object({"template_chian": "c"}).to_object() == {"template_chian": "c"}


def test_constructors_take_both_names_of_a_field() -> None:
    assert Service(template_chain="c") == Service(templateChain="c")


def test_equal_is_what_says_the_same() -> None:
    absent = ServiceWithValues.from_object({"name": "a"})
    assert absent == ServiceWithValues.from_object({"values": None, "valuesFrom": [], "name": "a"})
    assert absent != ServiceWithValues.from_object({"name": "a", "later": 1})
    assert absent != Service.from_object({"name": "a"})


def test_a_change_keeps_what_it_does_not_name() -> None:
    stored = ServiceWithValues.from_object({"later": 1, "values": "x: 1", "name": "a", "version": None})
    assert list(stored.changed(values="x: 2", version="1.0.0").to_object().items()) == [
        ("later", 1),
        ("values", "x: 2"),
        ("name", "a"),
        ("version", "1.0.0"),
    ]
    assert stored.changed(values="", version="").to_object() == {"later": 1, "name": "a"}
    assert stored.to_object()["values"] == "x: 1"


@pytest.mark.parametrize(
    ("document", "path"),
    [
        ({"services": [{"version": 1.1}]}, ("services", 0, "version")),
        ({"services": [{"disable": "yes"}]}, ("services", 0, "disable")),
        ({"services": [None]}, ("services", 0)),
        ({"services": {"name": "a"}}, ("services",)),
        ({"priority": True}, ("priority",)),
        ({"priority": 1.0}, ("priority",)),
        ({"priority": 2**63}, ("priority",)),
        ({"services": [{"valuesFrom": [{"name": 3}]}]}, ("services", 0, "valuesFrom", 0, "name")),
        ({"services": [{"helmAction": "Upgrade"}]}, ("services", 0, "helmAction")),
    ],
)
def test_wrong_types_are_refused_where_they_stand(document: dict[str, Any], path: tuple[str | int, ...]) -> None:
    with pytest.raises(ValidationError) as refused:
        ServiceSpec.from_object(document)
    assert refused.value.errors()[0]["loc"] == path


def test_a_new_object_names_its_kind() -> None:
    assert ServiceSet.new("prod", "edge").to_object() == {
        "apiVersion": "windlass.dev/v1alpha1",
        "kind": "ServiceSet",
        "metadata": {"namespace": "prod", "name": "edge"},
    }
    assert ServiceSet.new("prod", "edge").title == "ServiceSet prod/edge"
    assert models.MultiClusterService.new("", "mesh").title == "MultiClusterService mesh"
