from __future__ import annotations

import json
from typing import Any

import pytest

from windlass.domain.errors import Actor, PermanentError, Reason
from windlass.domain.hooks.patch_operations import (
    Bounds,
    CreateObject,
    DeleteObject,
    FilterObject,
    IfExists,
    Operation,
    PatchObject,
    Target,
    bounds_of,
    despite_failure,
    parse_operations,
    resolved,
)
from windlass.domain.ids import Kind, PackageKey

SECRET = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "token"}, "stringData": {"k": "hush"}}


BILLING = Bounds(namespace="prod", prefix="billing-")


def parse(*documents: dict[str, Any]) -> tuple[Operation, ...]:
    return parse_operations(documents, BILLING)


def one(**document: Any) -> Any:
    (operation,) = parse(document)
    return operation


@pytest.mark.parametrize(
    ("name", "if_exists"),
    [
        ("Create", IfExists.FAIL),
        ("CreateIfNotExists", IfExists.KEEP),
        ("CreateOrUpdate", IfExists.REPLACE),
    ],
)
@pytest.mark.parametrize(
    "given",
    [SECRET, json.dumps(SECRET), "apiVersion: v1\nkind: Secret\nmetadata: {name: token}\nstringData: {k: hush}"],
)
def test_creations_take_a_map_or_text_and_are_bound_to_the_package(name: str, if_exists: IfExists, given: Any) -> None:
    operation = one(operation=name, object=given)
    assert operation == CreateObject(
        object=SECRET | {"metadata": {"name": "billing-token", "namespace": "prod"}},
        target=Target(api_version="v1", kind="Secret", namespace="prod", name="billing-token"),
        if_exists=if_exists,
    )
    assert "hush" not in repr(operation)


def test_the_given_object_is_not_changed() -> None:
    given = {"operation": "Create", "object": json.loads(json.dumps(SECRET))}
    parse(given)
    assert given["object"] == SECRET


@pytest.mark.parametrize(
    ("given", "bound"),
    [
        ("token", "billing-token"),
        ("billing-token", "billing-token"),
        ("billing", "billing-billing"),
        ("billingx", "billing-billingx"),
    ],
)
def test_names_get_the_prefix_once(given: Any, bound: str) -> None:
    assert one(operation="Delete", kind="Secret", name=given).target.name == bound


def test_a_generated_name_is_prefixed_and_only_for_create() -> None:
    given = SECRET | {"metadata": {"generateName": "job-"}}
    operation = one(operation="Create", object=given)
    assert operation.object["metadata"] == {"generateName": "billing-job-", "namespace": "prod"}
    with pytest.raises(PermanentError, match=r"object\.metadata\.name"):
        one(operation="CreateOrUpdate", object=given)


@pytest.mark.parametrize(
    ("name", "propagation"),
    [("Delete", "Foreground"), ("DeleteInBackground", "Background"), ("DeleteNonCascading", "Orphan")],
)
def test_deletions(name: str, propagation: str) -> None:
    operation = one(operation=name, apiVersion="apps/v1", kind="deployment", namespace="prod", name="web")
    target = Target(api_version="apps/v1", kind="deployment", namespace="prod", name="billing-web")
    assert operation == DeleteObject(target=target, propagation=propagation)


def test_patches_with_all_their_fields() -> None:
    target = Target(kind="ConfigMap", namespace="prod", name="billing-c")
    merge = one(operation="MergePatch", kind="ConfigMap", name="c", mergePatch="data: {a: null}", subresource="/status")
    assert merge == PatchObject(target=target, patch={"data": {"a": None}}, type="merge", subresource="status")
    items = [{"op": "remove", "path": "/data/a"}, {"op": "copy", "from": "/data/b", "path": "/data/c"}]
    for given in (items, json.dumps(items)):
        patch = one(operation="JSONPatch", kind="ConfigMap", name="c", jsonPatch=given, ignoreMissingObject=True)
        assert patch == PatchObject(target=target, patch=items, type="json", ignore_missing=True)


def test_jq_patches() -> None:
    operation = one(operation="JQPatch", kind="ConfigMap", name="c", jqFilter=".data.a = 1", ignoreHookError=True)
    assert operation == FilterObject(
        target=Target(kind="ConfigMap", namespace="prod", name="billing-c"),
        program=".data.a = 1",
        despite_failure=True,
    )


def test_what_is_meant_to_happen_despite_a_failure() -> None:
    patch = {"operation": "MergePatch", "kind": "ConfigMap", "name": "c", "mergePatch": {}}
    meant = patch | {"ignoreHookError": True}
    assert despite_failure([patch, meant, patch | {"ignoreHookError": "yes"}]) == [meant]


def test_a_modules_hooks_act_anywhere_under_any_name() -> None:
    bounds = bounds_of(PackageKey(kind=Kind.MODULE, name="ingress"), "windlass-modules")
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "reader"}}
    secret = SECRET | {"metadata": {"name": "token", "namespace": "kube-system"}}
    documents = [{"operation": "Create", "object": role}, {"operation": "CreateOrUpdate", "object": secret}]
    documents += [{"operation": "Delete", "kind": "Pod", "name": "x", "namespace": "prod"}]
    created, updated, deleted = parse_operations(documents, bounds)
    assert isinstance(created, CreateObject)
    assert created.object == role
    assert str(created.target) == "ClusterRole/reader"
    assert str(updated.target) == "Secret/token in kube-system"
    assert str(deleted.target) == "Pod/x in prod"


def test_an_applications_bounds_are_its_namespace_and_name() -> None:
    assert bounds_of(PackageKey(namespace="prod", name="billing"), "prod") == BILLING


def test_unknown_fields_are_dropped() -> None:
    extra = one(operation="Delete", kind="Secret", name="a", color="red", ignoreHookError=True)
    assert extra == one(operation="Delete", kind="Secret", name="a")


def without(mapping: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in mapping.items() if name != key}


@pytest.mark.parametrize(
    ("document", "field"),
    [
        ({}, "operation"),
        ({"operation": 1}, "operation"),
        ({"operation": "Destroy"}, "operation"),
        ({"operation": "JQPatch", "kind": "Secret", "name": "a"}, "jqFilter"),
        ({"operation": "JQPatch", "kind": "Secret", "name": "a", "jqFilter": ""}, "jqFilter"),
        ({"operation": "Create"}, "object"),
        ({"operation": "Create", "object": [1]}, "object"),
        ({"operation": "Create", "object": "{"}, "object"),
        ({"operation": "Create", "object": without(SECRET, "metadata")}, "object.metadata"),
        ({"operation": "Create", "object": without(SECRET, "kind")}, "object.kind"),
        ({"operation": "Create", "object": without(SECRET, "apiVersion")}, "object.apiVersion"),
        ({"operation": "Create", "object": SECRET | {"metadata": {}}}, "object.metadata.name"),
        ({"operation": "Create", "object": SECRET, "subresource": "status"}, "subresource"),
        ({"operation": "Delete", "name": "a"}, "kind"),
        ({"operation": "Delete", "kind": "Secret"}, "name"),
        ({"operation": "Delete", "kind": "Secret", "name": ""}, "name"),
        ({"operation": "Delete", "kind": "Secret", "name": "a", "subresource": "x"}, "subresource"),
        ({"operation": "MergePatch", "kind": "Secret", "name": "a"}, "mergePatch"),
        ({"operation": "MergePatch", "kind": "Secret", "name": "a", "mergePatch": [1]}, "mergePatch"),
        ({"operation": "JSONPatch", "kind": "Secret", "name": "a", "jsonPatch": {}}, "jsonPatch"),
        ({"operation": "JSONPatch", "kind": "Secret", "name": "a", "jsonPatch": [1]}, "jsonPatch[0]"),
        ({"operation": "JSONPatch", "kind": "Secret", "name": "a", "jsonPatch": [{"op": "put"}]}, "jsonPatch[0].op"),
        (
            {"operation": "JSONPatch", "kind": "Secret", "name": "a", "jsonPatch": [{"op": "remove"}]},
            "jsonPatch[0].path",
        ),
        (
            {"operation": "JSONPatch", "kind": "Secret", "name": "a", "jsonPatch": [{"op": "add", "path": "/x"}]},
            "jsonPatch[0].value",
        ),
        (
            {"operation": "JSONPatch", "kind": "Secret", "name": "a", "jsonPatch": [{"op": "move", "path": "/x"}]},
            "jsonPatch[0].from",
        ),
        (
            {"operation": "MergePatch", "kind": "Secret", "name": "a", "mergePatch": {}, "ignoreMissingObject": "yes"},
            "ignoreMissingObject",
        ),
    ],
)
def test_the_first_malformed_operation_is_named_by_place_and_field(document: dict[str, Any], field: str) -> None:
    good = {"operation": "Delete", "kind": "Secret", "name": "a"}
    with pytest.raises(PermanentError) as caught:
        parse(good, document)
    error = caught.value
    assert (error.reason, error.actor) == (Reason.API_REJECTED, Actor.AUTHOR)
    assert error.message.startswith("operation 2")
    assert f": {field}: " in error.message
    assert "hush" not in str(error)


@pytest.mark.parametrize(
    "document",
    [
        {"operation": "Create", "object": SECRET | {"metadata": {"name": "a", "namespace": "kube-system"}}},
        {"operation": "Delete", "kind": "Secret", "name": "a", "namespace": "kube-system"},
        {"operation": "MergePatch", "kind": "Secret", "name": "a", "namespace": "kube-system", "mergePatch": {}},
    ],
)
def test_another_namespace_is_out_of_bounds(document: dict[str, Any]) -> None:
    with pytest.raises(PermanentError, match=r"another namespace than the package's own \(prod\)") as caught:
        parse(document)
    assert caught.value.reason is Reason.FORBIDDEN


def test_discovery_settles_version_and_spelling() -> None:
    deletion = one(operation="Delete", kind="deployments", name="web")
    assert resolved(deletion, api_version="apps/v1", kind="Deployment").target == Target(
        api_version="apps/v1", kind="Deployment", namespace="prod", name="billing-web"
    )
    creation = one(operation="Create", object=SECRET | {"kind": "secret"})
    assert resolved(creation, api_version="v1", kind="Secret").object["kind"] == "Secret"
