"""Structural CustomResourceDefinitions from the models of `windlass.contracts.objects`.

``python -m windlass.contracts.crds DIR`` writes them; a test holds ``deploy/crds`` against the models.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final, cast

from windlass.contracts.actions import ActionRequest
from windlass.contracts.fleet.resources import FLEET
from windlass.contracts.objects import Application, KubeObject, Module
from windlass.contracts.repositories import PackageRepository
from windlass.contracts.served import AGE, Column, Resource
from windlass.domain.ids import API_VERSION, GROUP

type Schema = dict[str, Any]

_DROPPED: Final = frozenset({"title", "$defs", "additionalProperties"})
_STANDARD: Final[Mapping[str, Schema]] = {
    "apiVersion": {"type": "string"},
    "kind": {"type": "string"},
    "metadata": {"type": "object"},
}


_PACKAGE_COLUMNS: Final = (
    Column(name="Package", path=".spec.package.name", priority=1),
    Column(name="Version", path=".status.version", description="The version of the release that stands."),
    Column(name="Phase", path=".status.phase"),
    Column(name="Step", path=".status.step", priority=1),
    Column(name="Ready", path='.status.conditions[?(@.type=="Ready")].status'),
    Column(name="Reason", path='.status.conditions[?(@.type=="Ready")].reason'),
    Column(name="Message", path='.status.conditions[?(@.type=="Ready")].message', priority=1),
    AGE,
)

RESOURCES: Final = (
    Resource(
        model=Application,
        plural="applications",
        short_names=("wapp",),
        namespaced=True,
        columns=_PACKAGE_COLUMNS,
    ),
    Resource(
        model=Module,
        plural="modules",
        short_names=("wmod",),
        namespaced=False,
        columns=_PACKAGE_COLUMNS,
    ),
    Resource(
        model=PackageRepository,
        plural="packagerepositories",
        short_names=("prepo",),
        namespaced=False,
        columns=(
            Column(name="Kind", path=".spec.kind"),
            Column(name="Ready", path='.status.conditions[?(@.type=="Ready")].status'),
            Column(name="Reason", path='.status.conditions[?(@.type=="Ready")].reason'),
            Column(name="Packages", type="integer", path=".status.count", description="How many packages there are."),
            Column(name="Scanned", type="date", path=".status.lastScan", priority=1),
            Column(name="Message", path='.status.conditions[?(@.type=="Ready")].message', priority=1),
            AGE,
        ),
    ),
    Resource(
        model=ActionRequest,
        plural="actionrequests",
        short_names=("wact",),
        namespaced=True,
        columns=(
            Column(name="Action", path=".spec.action"),
            Column(name="Kind", path=".spec.target.kind", priority=1),
            Column(name="Target", path=".spec.target.name"),
            Column(name="Who", path=".spec.who"),
            Column(name="Phase", path=".status.phase", description="Waiting, Accepted, Refused or Unknown."),
            Column(name="Message", path=".status.message"),
            Column(name="Why", path=".spec.reason", priority=1),
            AGE,
        ),
    ),
    *FLEET,
)


def structural(schema: Schema, definitions: Mapping[str, Schema]) -> Schema:
    """Return a JSON Schema of pydantic as a structural schema of Kubernetes.

    References are put in place, ``X or null`` becomes ``X`` (an absent field says the same, and Windlass writes no
    nulls), titles and ``additionalProperties: true`` go, integers are 64 bits wide.
    """
    if reference := schema.get("$ref"):
        target = definitions[str(reference).rpartition("/")[2]]
        return structural({**target, **{key: value for key, value in schema.items() if key != "$ref"}}, definitions)
    if choices := cast("list[Schema] | None", schema.get("anyOf")):
        (choice,) = [entry for entry in choices if entry.get("type") != "null"]
        rest = {key: value for key, value in schema.items() if key not in ("anyOf", "default")}
        return structural({**choice, **rest}, definitions)

    result = {key: value for key, value in schema.items() if key not in _DROPPED}
    if "const" in result:
        result["enum"] = [result.pop("const")]
    if properties := cast("dict[str, Schema] | None", schema.get("properties")):
        result["properties"] = {name: structural(entry, definitions) for name, entry in properties.items()}
    if items := cast("Schema | None", schema.get("items")):
        result["items"] = structural(items, definitions)
    if isinstance(entries := schema.get("additionalProperties"), dict):
        result["additionalProperties"] = structural(cast("Schema", entries), definitions)
    if result.get("type") == "integer":
        result["format"] = "int64"
    if description := result.get("description"):
        result["description"] = str(description).replace("``", "")
    return result


def without_defaults(schema: Schema) -> Schema:
    """Return ``schema`` with no defaults: the server must not fill in what Windlass alone reports in status."""
    result = {key: value for key, value in schema.items() if key != "default"}
    if properties := cast("dict[str, Schema] | None", schema.get("properties")):
        result["properties"] = {name: without_defaults(entry) for name, entry in properties.items()}
    if items := cast("Schema | None", schema.get("items")):
        result["items"] = without_defaults(items)
    return result


def object_schema(model: type[KubeObject]) -> Schema:
    """Return the ``openAPIV3Schema`` of one kind; metadata is the API server's business."""
    generated = model.model_json_schema(by_alias=True, mode="validation")
    schema = structural(generated, cast("dict[str, Schema]", generated.get("$defs", {})))
    properties = cast("dict[str, Schema]", schema["properties"])
    if status := properties.get("status"):
        properties["status"] = without_defaults(status)
    schema["properties"] = {**properties, **_STANDARD}
    schema["required"] = ["spec"]
    return schema


def crd_manifest(resource: Resource) -> dict[str, Any]:
    """Return the CustomResourceDefinition of one kind."""
    kind = resource.model.__name__
    schema = object_schema(resource.model)
    version: dict[str, Any] = {
        "name": API_VERSION.rpartition("/")[2],
        "served": True,
        "storage": True,
        "additionalPrinterColumns": [column.to_object() for column in resource.columns],
        "schema": {"openAPIV3Schema": schema},
    }
    if "status" in schema["properties"]:
        version["subresources"] = {"status": {}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{resource.plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced" if resource.namespaced else "Cluster",
            "names": {
                "kind": kind,
                "listKind": f"{kind}List",
                "plural": resource.plural,
                "singular": kind.lower(),
                "shortNames": list(resource.short_names),
                "categories": ["windlass"],
            },
            "versions": [version],
        },
    }


def crd_manifests() -> list[dict[str, Any]]:
    """Return the CustomResourceDefinitions of all kinds."""
    return [crd_manifest(resource) for resource in RESOURCES]


def definition_names() -> list[str]:
    """Return the names of the CustomResourceDefinitions of all kinds."""
    return [f"{resource.plural}.{GROUP}" for resource in RESOURCES]


@cache
def _wanted() -> Mapping[str, Schema]:
    """Return the served version of each definition by its name; made once, since it takes a tenth of a second."""
    manifests = crd_manifests()
    return {one["metadata"]["name"]: one["spec"]["versions"][0] for one in manifests}


def missing_fields(definition: Mapping[str, Any]) -> list[str]:
    """Return the fields that this version of Windlass writes and a cluster's definition does not know, by path.

    A cluster with older definitions refuses a status with such a field, as a failure of its own (500); of an object
    that a person writes it drops them. Nothing is said of definitions that are newer.

    Args:
        definition: a CustomResourceDefinition of ours as the cluster has it.
    """
    name = str(_mapping(definition.get("metadata")).get("name"))
    wanted = _wanted().get(name)
    if wanted is None:
        return []
    versions = cast("list[Schema]", _mapping(definition.get("spec")).get("versions") or [])
    found: Schema = next((one for one in versions if one.get("name") == wanted["name"]), dict[str, Any]())
    there = _mapping(_mapping(found.get("schema")).get("openAPIV3Schema"))
    return sorted(_missing(_mapping(wanted["schema"]["openAPIV3Schema"]), there, ""))


def _missing(wanted: Schema, there: Schema, path: str) -> Iterator[str]:
    if there.get("x-kubernetes-preserve-unknown-fields"):
        return
    known = _mapping(there.get("properties"))
    for name, schema in _mapping(wanted.get("properties")).items():
        if name not in known:
            yield f"{path}.{name}".removeprefix(".")
        else:
            yield from _missing(_mapping(schema), _mapping(known[name]), f"{path}.{name}")
    for keyword, mark in (("items", "[]"), ("additionalProperties", ".*")):
        if inner := _mapping(wanted.get(keyword)):
            yield from _missing(inner, _mapping(there.get(keyword)), path + mark)


def _mapping(value: Any) -> Schema:
    return cast("Schema", value) if isinstance(value, dict) else {}


def crd_files() -> dict[str, str]:
    """Return file name -> YAML text, as they stand in ``deploy/crds``."""
    import yaml  # noqa: PLC0415 - the models are imported by workflows, where a YAML library has no business

    head = "# Generated from the models in windlass.contracts.objects by `python -m windlass.contracts.crds`.\n"
    return {
        f"{manifest['metadata']['name'].replace('.', '_', 1)}.yaml": head
        + yaml.safe_dump(manifest, sort_keys=False, width=120, allow_unicode=True)
        for manifest in crd_manifests()
    }


def main(arguments: list[str]) -> None:
    """Write the files into the folder that is the only argument (``deploy/crds`` if there is none)."""
    folder = Path(arguments[0]) if arguments else Path("deploy/crds")
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in crd_files().items():
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
