"""The models of a fleet's objects: their schemas, and that they say what decisions read."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from types import UnionType
from typing import Any, Final, TypeAliasType, get_args, get_origin

import pytest
from domain.servicesets.manifests import MANIFESTS
from pydantic import BaseModel, TypeAdapter, ValidationError

from windlass.contracts.crds import crd_manifests
from windlass.contracts.fleet import rollout
from windlass.contracts.fleet.delivery import ServiceSet, StateManagementProvider
from windlass.contracts.fleet.owners import ClusterDeployment, MultiClusterService
from windlass.contracts.fleet.templates import ServiceTemplate, ServiceTemplateChain
from windlass.contracts.objects import KubeObject
from windlass.domain.ids import API_VERSION
from windlass.domain.servicesets import models
from windlass.domain.servicesets.manifest import Manifest

KINDS: Final[dict[str, type[KubeObject]]] = {
    kind.__name__: kind
    for kind in (
        ServiceTemplate,
        ServiceTemplateChain,
        ClusterDeployment,
        MultiClusterService,
        ServiceSet,
        StateManagementProvider,
    )
}
METADATA: Final = {"metadata", "apiVersion", "kind"}


def version_of(kind: str) -> dict[str, Any]:
    (crd,) = [one for one in crd_manifests() if one["spec"]["names"]["kind"] == kind]
    (version,) = crd["spec"]["versions"]
    return version


def schema_of(kind: str) -> dict[str, Any]:
    return version_of(kind)["schema"]["openAPIV3Schema"]


def walk(schema: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Every schema with its path."""
    yield path, schema
    for name, entry in schema.get("properties", {}).items():
        yield from walk(entry, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield from walk(schema[key], path + ("[]" if key == "items" else ".*"))


@pytest.mark.parametrize("kind", KINDS)
def test_schemas_are_structural(kind: str) -> None:
    free = {"x-kubernetes-int-or-string", "x-kubernetes-preserve-unknown-fields"}
    for path, schema in walk(schema_of(kind)):
        assert schema.get("type") in {"object", "array", "string", "integer", "boolean"} or free & schema.keys(), path
        assert not {"$ref", "$defs", "anyOf", "title", "const"} & schema.keys(), path


@pytest.mark.parametrize("kind", KINDS)
def test_every_list_and_text_of_a_spec_has_a_limit(kind: str) -> None:
    """Without one the API server takes the worst for the cost of a rule, and people may fill etcd."""
    for path, schema in walk(schema_of(kind)["properties"]["spec"]):
        if schema.get("type") == "array":
            assert "maxItems" in schema, path
            assert "x-kubernetes-list-type" in schema, path
        if schema.get("type") == "string":
            assert {"maxLength", "enum", "format"} & schema.keys(), path
        if "additionalProperties" in schema:
            assert "maxProperties" in schema, path


@pytest.mark.parametrize("kind", KINDS)
def test_status_is_a_subresource_without_defaults(kind: str) -> None:
    assert version_of(kind)["subresources"] == {"status": {}}
    assert [path for path, schema in walk(schema_of(kind)["properties"]["status"]) if "default" in schema] == []


def test_nothing_of_a_template_is_hidden_from_the_rule_that_it_cannot_change() -> None:
    spec = schema_of("ServiceTemplate")["properties"]["spec"]
    assert [path for path, schema in walk(spec) if "x-kubernetes-preserve-unknown-fields" in schema] == []


def inner(annotation: Any) -> Any:
    """The model in ``X | None``, in a list, a tuple or an alias; None if there is none."""
    if isinstance(annotation, TypeAliasType):
        return inner(annotation.__value__)
    if inspect.isclass(annotation) and issubclass(annotation, BaseModel):
        return annotation
    if get_origin(annotation) in {UnionType, list, tuple} or hasattr(annotation, "__metadata__"):
        found = [inner(part) for part in get_args(annotation)]
        return next((one for one in found if one is not None), None)
    return None


def fields_of(model: type[BaseModel], prefix: str = "") -> set[str]:
    found: set[str] = set()
    for name, field in model.model_fields.items():
        wire = field.alias or name
        if not prefix and wire in METADATA:
            continue
        path = f"{prefix}.{wire}"
        found.add(path)
        part = inner(field.annotation)
        if part is not None:
            found |= fields_of(part, path)
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_what_decisions_read_is_in_the_schema(kind: str) -> None:
    decided: type[Manifest] = getattr(models, kind)
    assert fields_of(decided) - fields_of(KINDS[kind]) == set()


@pytest.mark.parametrize("kind", MANIFESTS)
def test_a_manifest_moves_over_by_changing_its_api_version(kind: str) -> None:
    document = {**MANIFESTS[kind], "apiVersion": API_VERSION}
    assert KINDS[kind].model_validate(document).to_object() == without_nulls(document)


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    return [without_nulls(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize("amount", ["0%", "5%", "100%", 0, 7])
def test_amounts(amount: Any) -> None:
    assert TypeAdapter(rollout.RolloutSpec).validate_python({"canary": amount}).canary == amount


@pytest.mark.parametrize("amount", ["101%", "-1%", "5", "", -1, True, 1.5])
def test_what_is_no_amount(amount: Any) -> None:
    with pytest.raises(ValidationError):
        rollout.RolloutSpec.model_validate({"canary": amount})
