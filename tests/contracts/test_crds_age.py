"""Definitions in a cluster that are older than this Windlass, or newer."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from windlass.contracts.crds import crd_manifests, missing_fields


def application() -> dict[str, Any]:
    [found] = [one for one in crd_manifests() if one["spec"]["names"]["kind"] == "Application"]
    return copy.deepcopy(found)


def properties(definition: dict[str, Any], *path: str) -> dict[str, Any]:
    node = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    for part in path:
        node = node[part]
    return node


@pytest.mark.parametrize("manifest", crd_manifests(), ids=lambda manifest: manifest["metadata"]["name"])
def test_definitions_of_this_version_lack_nothing(manifest: dict[str, Any]) -> None:
    assert missing_fields(manifest) == []


def test_what_an_older_definition_lacks_is_named_by_path() -> None:
    older = application()
    del properties(older, "status", "properties")["failure"]
    del properties(older, "status", "properties", "conditions", "items", "properties")["reason"]
    del properties(older, "spec", "properties", "package", "properties")["version"]
    assert missing_fields(older) == ["spec.package.version", "status.conditions[].reason", "status.failure"]


def test_a_definition_of_another_version_lacks_everything() -> None:
    other = application()
    other["spec"]["versions"][0]["name"] = "v0"
    assert {"spec", "status"} <= set(missing_fields(other))


def test_what_is_newer_or_not_ours_is_nobodys_fault() -> None:
    newer = application()
    properties(newer, "status", "properties")["later"] = {"type": "string"}
    assert missing_fields(newer) == []
    assert missing_fields({"metadata": {"name": "widgets.example.com"}, "spec": {}}) == []
