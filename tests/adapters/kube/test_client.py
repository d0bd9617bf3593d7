"""The client against the real API server."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import pytest

from support.waiting import eventually
from windlass.adapters.kube.client import KubeClient
from windlass.devstack.stack import Stack
from windlass.domain.errors import PermanentError, Reason, TransientError, WindlassError
from windlass.ports.kube import Object, ObjectRef, WatchExpiredError


def config_map(namespace: str, name: str = "it", **data: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"namespace": namespace, "name": name, "labels": {"app": "it"}},
        "data": data,
    }


def ref(namespace: str, name: str = "it") -> ObjectRef:
    return ObjectRef(api_version="v1", kind="ConfigMap", namespace=namespace, name=name)


def definition(plural: str, kind: str) -> Object:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.tests.windlass.dev"},
        "spec": {
            "group": "tests.windlass.dev",
            "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural},
            "versions": [{**version, "subresources": {"status": {}}}],
        },
    }


async def test_create_get_replace_delete(kube: KubeClient, namespace: str) -> None:
    assert await kube.get(ref(namespace)) is None
    created = await kube.create(config_map(namespace, a="1"))
    with pytest.raises(TransientError) as caught:
        await kube.create(config_map(namespace))
    assert caught.value.reason is Reason.API_CONFLICT
    replaced = await kube.replace(created | {"data": {"b": "2"}})
    assert replaced["data"] == {"b": "2"}
    with pytest.raises(TransientError) as caught:
        await kube.replace(created | {"data": {"c": "3"}})  # of a resourceVersion that is past
    assert caught.value.reason is Reason.API_CONFLICT
    assert await kube.delete(ref(namespace))
    assert not await kube.delete(ref(namespace))
    with pytest.raises(TransientError) as caught:
        await kube.replace(created)
    assert caught.value.reason is Reason.API_CONFLICT


async def test_delete_spares_an_object_of_another_uid(kube: KubeClient, namespace: str) -> None:
    created = await kube.create(config_map(namespace))
    assert not await kube.delete(ref(namespace), uid="00000000-0000-0000-0000-000000000000")
    assert await kube.get(ref(namespace)) is not None
    assert await kube.delete(ref(namespace), uid=created["metadata"]["uid"])
    assert await kube.get(ref(namespace)) is None


async def test_any_text_is_written_as_it_is(kube: KubeClient, namespace: str) -> None:
    odd = '東京 🚀 ü \x7f \x85 \x9f \u2028 \ufeff \uffff \U0010ffff \\ud83d " \t \x01'
    applied = await kube.apply(config_map(namespace, text=odd), field_manager="tests")
    assert applied["data"]["text"] == odd
    assert (await kube.patch(ref(namespace), {"data": {"more": odd}}, kind="merge") or {})["data"]["more"] == odd
    assert (await kube.create(config_map(namespace, "other", text=odd)))["data"]["text"] == odd
    broken = await kube.apply(config_map(namespace, "lone", text="a \ud83d b"), field_manager="tests")
    assert broken["data"]["text"] == "a \ufffd b"


async def test_apply_owns_its_fields_only(kube: KubeClient, namespace: str) -> None:
    await kube.apply(config_map(namespace, a="1", b="1"), field_manager="first")
    await kube.apply(config_map(namespace, c="1"), field_manager="second")
    applied = await kube.apply(config_map(namespace, a="2"), field_manager="first")
    assert applied["data"] == {"a": "2", "c": "1"}
    with pytest.raises(TransientError) as caught:
        await kube.apply(config_map(namespace, c="9"), field_manager="first", force=False)
    assert caught.value.reason is Reason.API_CONFLICT
    assert (await kube.apply(config_map(namespace, c="9"), field_manager="first"))["data"] == {"c": "9"}


async def test_patches(kube: KubeClient, namespace: str) -> None:
    await kube.create(config_map(namespace, a="1", b="1"))
    merged = await kube.patch(ref(namespace), {"data": {"a": None, "c": "1"}}, kind="merge")
    assert merged is not None
    assert merged["data"] == {"b": "1", "c": "1"}
    operations = [{"op": "replace", "path": "/data/b", "value": "2"}]
    patched = await kube.patch(ref(namespace), operations, kind="json")
    assert patched is not None
    assert patched["data"] == {"b": "2", "c": "1"}
    assert await kube.patch(ref(namespace, "absent"), {}, kind="merge") is None


async def test_status_is_written_apart(kube: KubeClient, namespace: str) -> None:
    pod: Object = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"namespace": namespace, "name": "it"},
        "spec": {"type": "LoadBalancer", "ports": [{"port": 80}]},
    }
    await kube.create(pod)
    status = {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}
    ours = {key: pod[key] for key in ("apiVersion", "kind", "metadata")} | {"status": status}
    applied = await kube.apply(ours, field_manager="it", subresource="status")
    assert applied["status"]["loadBalancer"]["ingress"][0]["ip"] == "192.0.2.1"
    assert applied["spec"]["ports"]


async def test_an_applied_field_that_the_definition_does_not_know_is_named(kube: KubeClient, namespace: str) -> None:
    body = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "it", "namespace": namespace},
        "colour": "red",
    }
    with pytest.raises(PermanentError, match=r"\.colour: field not declared in schema") as caught:
        await kube.apply(body, field_manager="tests")
    assert "deploy/crds" in caught.value.hint


async def test_rejections_name_the_fields(kube: KubeClient, namespace: str) -> None:
    with pytest.raises(PermanentError) as caught:
        await kube.create(config_map(namespace, "Not_A_Name"))
    assert caught.value.reason is Reason.API_REJECTED
    assert "metadata.name" in caught.value.message


async def test_a_secret_is_not_echoed(kube: KubeClient, namespace: str) -> None:
    secret: Object = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"namespace": namespace, "name": "it"},
        "data": {"password": {"hunter2": "canary-value"}},
        "type": "canary-type",
    }
    for attempt in (kube.create(secret), kube.apply(secret, field_manager="it")):
        with pytest.raises(WindlassError) as caught:  # a wrong type is 400 to a create and 500 to an apply
            await attempt
        assert "canary" not in f"{caught.value!r}{caught.value}"
        assert "hunter2" not in f"{caught.value!r}{caught.value}"
        assert "secrets" in caught.value.message


async def test_a_namespace_that_is_absent_may_come(kube: KubeClient) -> None:
    with pytest.raises(TransientError) as caught:
        await kube.apply(config_map("absent-for-ever"), field_manager="it")
    assert caught.value.reason is Reason.API_REJECTED
    assert "absent-for-ever" in caught.value.message


async def test_no_rights_name_verb_and_resource(kube: KubeClient, namespace: str) -> None:
    account: Object = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"namespace": namespace, "name": "a"}}
    await kube.create(account)
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 600}}
    where = ObjectRef(api_version="v1", kind="ServiceAccount", namespace=namespace, name="a")
    issued = await kube.create_subresource(where, "token", request)
    poor = _with_token(kube, issued["status"]["token"])
    async with poor, _with_token(kube, "wrong") as nobody:
        with pytest.raises(PermanentError) as caught:
            await poor.list("v1", "Secret", namespace=namespace)
        assert caught.value.reason is Reason.FORBIDDEN
        assert f"list secrets in {namespace}" in caught.value.message
        with pytest.raises(PermanentError) as caught:
            await nobody.get(ref(namespace))
        assert caught.value.reason is Reason.FORBIDDEN


def _with_token(kube: KubeClient, token: str) -> KubeClient:
    return KubeClient.from_kubeconfig(replace(kube.access, token=token, certificate_pem="", key_pem=""))


async def test_lists_are_paged_and_selected(kube: KubeClient, namespace: str) -> None:
    await asyncio.gather(*(kube.create(config_map(namespace, f"it-{i:04}", x="y")) for i in range(520)))
    listed = await kube.list("v1", "ConfigMap", namespace=namespace, label_selector="app=it")
    assert [item["metadata"]["name"] for item in listed.items] == [f"it-{i:04}" for i in range(520)]
    assert {(item["apiVersion"], item["kind"]) for item in listed.items} == {("v1", "ConfigMap")}
    selector = "metadata.name=it-0007"
    one = await kube.list("v1", "ConfigMap", namespace=namespace, field_selector=selector, metadata_only=True)
    assert [(item["kind"], "data" in item) for item in one.items] == [("ConfigMap", False)]


async def test_watch_sees_what_follows_the_list(kube: KubeClient, namespace: str) -> None:
    await kube.create(config_map(namespace, a="1"))
    listed = await kube.list("v1", "ConfigMap", namespace=namespace)
    selection: dict[str, Any] = {"namespace": namespace, "label_selector": "app=it", "metadata_only": True}
    async with aclosing(kube.watch("v1", "ConfigMap", resource_version=listed.resource_version, **selection)) as stream:
        await kube.patch(ref(namespace), {"data": {"a": "2"}}, kind="merge")
        await kube.delete(ref(namespace))
        seen = [await anext(stream), await anext(stream)]
    assert [(event.type, event.object["kind"], "data" in event.object) for event in seen] == [
        ("MODIFIED", "ConfigMap", False),
        ("DELETED", "ConfigMap", False),
    ]


async def test_a_watch_from_long_ago_has_expired(kube: KubeClient) -> None:
    # The server's watch cache of a new kind begins now, so the first resourceVersion of all is before it.
    where = ObjectRef(
        api_version="apiextensions.k8s.io/v1", kind="CustomResourceDefinition", name="oldtimers.tests.windlass.dev"
    )
    await kube.apply(definition("oldtimers", "OldTimer"), field_manager="it")
    try:
        await eventually(lambda: kube.list("tests.windlass.dev/v1", "OldTimer"))
        async with aclosing(kube.watch("tests.windlass.dev/v1", "OldTimer", resource_version="1")) as stream:
            with pytest.raises(WatchExpiredError):
                await asyncio.wait_for(anext(stream), 10)
    finally:
        await kube.delete(where)


async def test_a_cancelled_watch_ends_at_once(kube: KubeClient, namespace: str) -> None:
    listed = await kube.list("v1", "ConfigMap", namespace=namespace)
    seen = asyncio.Event()

    async def follow() -> None:
        stream = kube.watch("v1", "ConfigMap", resource_version=listed.resource_version, namespace=namespace)
        async with aclosing(stream):
            async for _ in stream:
                seen.set()

    task = asyncio.create_task(follow())
    await kube.create(config_map(namespace))
    await seen.wait()
    task.cancel()
    done, _ = await asyncio.wait({task}, timeout=1)
    assert done
    assert task.cancelled()


async def test_kinds_are_found_by_discovery(kube: KubeClient) -> None:
    deployment = await kube.resource("apps/v1", "deployment")
    assert deployment is not None
    assert (deployment.kind, deployment.plural, deployment.namespaced) == ("Deployment", "deployments", True)
    assert await kube.resource("", "Deployment") == deployment
    event = await kube.resource("", "Event")
    assert event is not None
    assert event.api_version == "v1"  # the core group comes first
    assert await kube.resource("apps/v1", "Widget") is None
    assert await kube.resource("", "Widget") is None
    assert await kube.get(ObjectRef(api_version="nowhere.dev/v1", kind="Widget", name="it")) is None


async def test_a_kind_that_is_defined_later_is_found_then(kube: KubeClient, namespace: str) -> None:
    group = "tests.windlass.dev/v1"
    late: Object = {"apiVersion": group, "kind": "LateGuest", "metadata": {"namespace": namespace, "name": "it"}}
    where = ObjectRef(
        api_version="apiextensions.k8s.io/v1", kind="CustomResourceDefinition", name="lateguests.tests.windlass.dev"
    )
    with pytest.raises(TransientError) as caught:
        await kube.create(late)
    assert "LateGuest" in caught.value.message
    await kube.create(definition("lateguests", "LateGuest"))
    try:
        created = await eventually(lambda: kube.create(late))
        assert created["metadata"]["name"] == "it"
        assert len((await kube.list(group, "lateguest", namespace=namespace)).items) == 1
    finally:
        await kube.delete(where)
    await eventually(lambda: _is_gone(kube, group))


async def _is_gone(kube: KubeClient, group: str) -> bool:
    try:
        await kube.list(group, "LateGuest")
    except TransientError as error:
        return error.reason is Reason.API_REJECTED
    return False


async def test_used_outside_its_block_it_says_so(stack: Stack) -> None:
    with pytest.raises(RuntimeError, match="async with"):
        await KubeClient.from_kubeconfig(stack.kubeconfig).get(ref("default"))
