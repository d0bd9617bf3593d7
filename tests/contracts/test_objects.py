"""The models of our objects and the CRDs generated from them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from windlass.contracts.crds import crd_files, crd_manifests
from windlass.contracts.objects import Application, PackageRef, PackageSpec, seconds
from windlass.contracts.repositories import PackageRepository
from windlass.domain.packages.model import Source

CRDS = Path(__file__).parents[2] / "deploy" / "crds"


def application(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "windlass.dev/v1alpha1",
        "kind": "Application",
        "metadata": {"name": "shop", "namespace": "prod", "uid": "u1", "generation": 3},
        "spec": {"package": {"repository": "examples", "name": "webapp", "version": "1.0.0"}, **spec},
    }


def walk(schema: Any) -> list[dict[str, Any]]:
    """Every schema inside ``schema``, itself first."""
    found = [schema]
    for entry in schema.get("properties", {}).values():
        found += walk(entry)
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            found += walk(schema[key])
    return found


def schema_of(kind: str) -> dict[str, Any]:
    (crd,) = [crd for crd in crd_manifests() if crd["spec"]["names"]["kind"] == kind]
    return crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]


def test_the_files_in_deploy_are_those_of_the_models() -> None:
    stored = {path.name: path.read_text(encoding="utf-8") for path in CRDS.glob("*.yaml")}

    assert stored == crd_files(), "run `python -m windlass.contracts.crds`"


@pytest.mark.parametrize("kind", ["Application", "PackageRepository"])
def test_schemas_are_structural(kind: str) -> None:
    for schema in walk(schema_of(kind)):
        assert schema.get("type") in {"object", "array", "string", "integer", "boolean"}
        assert not {"$ref", "$defs", "anyOf", "title", "const"} & schema.keys()
        assert not ("properties" in schema and "additionalProperties" in schema)


def test_status_has_no_defaults_for_the_server_to_fill_in() -> None:
    assert all("default" not in schema for schema in walk(schema_of("Application")["properties"]["status"]))


def test_conditions_are_a_map_by_type() -> None:
    conditions = schema_of("Application")["properties"]["status"]["properties"]["conditions"]

    assert conditions["x-kubernetes-list-type"] == "map"
    assert conditions["x-kubernetes-list-map-keys"] == ["type"]
    assert "observedGeneration" in conditions["items"]["properties"]


def test_settings_are_free() -> None:
    assert schema_of("Application")["properties"]["spec"]["properties"]["settings"] == {
        "type": "object",
        "description": "Settings of the package, checked against its openapi/settings.yaml. They win over valuesFrom.",
        "x-kubernetes-preserve-unknown-fields": True,
    }


def test_an_object_comes_back_as_it_was_with_what_the_model_does_not_know() -> None:
    stored = application(
        settings={"a": {"b": None}, "camelCase": [1, {"snake_case": True}]},
        fromTheFuture={"x": 1},
        valuesFrom=[{"kind": "Secret", "name": "s", "newer": 1}],
    )
    stored["status"] = {
        "conditions": [
            {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-02T03:04:05Z", "severity": "x"}
        ],
        "somethingNew": [1],
    }
    stored["metadata"]["managedFields"] = [{"manager": "kubectl"}]

    assert Application.model_validate(stored).to_object() == stored


def test_an_object_made_in_code_names_its_kind() -> None:
    made = Application(spec=PackageSpec(package=PackageRef(repository="r", name="p", version="1.0.0")))

    assert made.to_object() == {
        "apiVersion": "windlass.dev/v1alpha1",
        "kind": "Application",
        "spec": {"package": {"repository": "r", "name": "p", "version": "1.0.0"}},
    }


def test_what_was_set_later_is_written_and_what_was_unset_is_not() -> None:
    app = Application.model_validate(application())

    app.spec.suspend = True
    app.spec.timeouts = None

    assert app.to_object()["spec"]["suspend"] is True
    assert "timeouts" not in app.to_object()["spec"]


def test_defaults() -> None:
    spec = Application.model_validate(application()).spec

    assert (spec.wait, spec.suspend, spec.delete_on_disable) == (True, False, False)
    assert spec.settings == {}
    assert spec.readiness_timeout == 600.0


def test_source_is_what_spec_names() -> None:
    source = Application.model_validate(application()).source

    assert source == Source(repository="examples", package="webapp", version="1.0.0")


@pytest.mark.parametrize(
    ("text", "expected"), [("90s", 90.0), ("1h30m", 5400.0), ("500ms", 0.5), ("1.5m", 90.0), ("24h", 86400.0)]
)
def test_durations(text: str, expected: float) -> None:
    spec = Application.model_validate(application(timeouts={"readiness": text})).spec

    assert seconds(text) == pytest.approx(expected)
    assert spec.readiness_timeout == pytest.approx(expected)


@pytest.mark.parametrize("text", ["", "10", "10 m", "-1m", "1d", "m"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValidationError):
        Application.model_validate(application(timeouts={"readiness": text}))


def test_a_repository_of_another_kind_is_refused() -> None:
    with pytest.raises(ValidationError):
        PackageRepository.model_validate({"kind": "PackageRepository", "spec": {"kind": "ftp"}})
