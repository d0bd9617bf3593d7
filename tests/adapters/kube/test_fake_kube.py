"""The fake answers as the API server does, as far as it claims to: each case runs against both."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any
from uuid import uuid4

import pytest
import pytest_asyncio

from support.fake_kube import FakeKube
from windlass.adapters.kube.client import KubeClient
from windlass.devstack.stack import Stack
from windlass.domain.errors import PermanentError, Reason, TransientError
from windlass.ports.kube import Kube, Object, ObjectRef, WatchEvent, WatchExpiredError


@pytest_asyncio.fixture(params=["fake", "real"])
async def either(request: pytest.FixtureRequest) -> AsyncIterator[tuple[Kube, str]]:
    """Yield a Kube and a namespace that is there."""
    name = f"fake-{uuid4().hex[:8]}"
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    if request.param == "fake":
        fake = FakeKube()
        await fake.create(namespace)
        yield fake, name
        return
    stack: Stack = request.getfixturevalue("stack")
    async with KubeClient.from_kubeconfig(stack.kubeconfig, qps=1000, burst=1000) as kube:
        await kube.create(namespace)
        yield kube, name
        await kube.delete(ObjectRef(api_version="v1", kind="Namespace", name=name))


def config(namespace: str, name: str = "one", **more: Any) -> Object:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace}, **more}


def deployment(namespace: str) -> Object:
    labels = {"app": "x"}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "one", "namespace": namespace},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "c", "image": "example.com/c:1"}]},
            },
        },
    }


def ref(namespace: str, kind: str = "ConfigMap", name: str = "one") -> ObjectRef:
    return ObjectRef(api_version="apps/v1" if kind == "Deployment" else "v1", kind=kind, namespace=namespace, name=name)


async def test_create_get_delete(either: tuple[Kube, str]) -> None:
    kube, namespace = either
    assert await kube.get(ref(namespace)) is None
    created = await kube.create(config(namespace, data={"a": "1"}))
    assert created["metadata"]["uid"]
    assert (await kube.get(ref(namespace))) == created
    with pytest.raises(TransientError) as exists:
        await kube.create(config(namespace))
    assert exists.value.reason is Reason.API_CONFLICT
    assert await kube.delete(ref(namespace), uid="00000000-0000-0000-0000-000000000000") is False
    assert await kube.delete(ref(namespace), uid=created["metadata"]["uid"]) is True
    assert await kube.delete(ref(namespace)) is False
    again = await kube.create(config(namespace))
    assert again["metadata"]["uid"] != created["metadata"]["uid"]


async def test_replace_wants_the_newest_version(either: tuple[Kube, str]) -> None:
    kube, namespace = either
    first = await kube.create(config(namespace, data={"a": "1", "b": "1"}))
    second = await kube.replace({**first, "data": {"a": "2"}})
    assert second["data"] == {"a": "2"}
    assert int(second["metadata"]["resourceVersion"]) > int(first["metadata"]["resourceVersion"])
    assert await kube.replace(second) == second
    with pytest.raises(TransientError) as stale:
        await kube.replace(first)
    await kube.delete(ref(namespace))
    with pytest.raises(TransientError) as gone:
        await kube.replace(second)
    assert (stale.value.reason, gone.value.reason) == (Reason.API_CONFLICT, Reason.API_CONFLICT)


async def test_patches(either: tuple[Kube, str]) -> None:
    kube, namespace = either
    await kube.create(config(namespace, data={"a": "1", "b": "1"}))
    merged = await kube.patch(ref(namespace), {"data": {"a": None, "c": "3"}}, kind="merge")
    assert merged is not None
    assert merged["data"] == {"b": "1", "c": "3"}
    patched = await kube.patch(ref(namespace), [{"op": "add", "path": "/data/d", "value": "4"}], kind="json")
    assert patched is not None
    assert patched["data"] == {"b": "1", "c": "3", "d": "4"}
    assert await kube.patch(ref(namespace), {"data": {"d": "4"}}, kind="merge") == patched
    with pytest.raises(PermanentError):
        await kube.patch(ref(namespace), [{"op": "remove", "path": "/data/missing"}], kind="json")
    with pytest.raises(TransientError):
        await kube.patch(ref(namespace), {"metadata": {"resourceVersion": "1"}}, kind="merge")
    assert await kube.patch(ref(namespace, name="missing"), {"data": {}}, kind="merge") is None


async def test_apply_creates_and_merges(either: tuple[Kube, str]) -> None:
    kube, namespace = either
    created = await kube.apply(config(namespace, data={"a": "1"}), field_manager="one")
    both = await kube.apply(config(namespace, data={"b": "2"}), field_manager="two")
    assert both["data"] == {"a": "1", "b": "2"}
    assert both["metadata"]["uid"] == created["metadata"]["uid"]


NOBODY = "00000000-0000-0000-0000-000000000000"


async def test_an_uid_guards_some_writes_and_not_others(either: tuple[Kube, str]) -> None:
    kube, namespace = either
    application = {
        "apiVersion": "windlass.dev/v1alpha1",
        "kind": "Application",
        "metadata": {"name": "one", "namespace": namespace},
        "spec": {"package": {"repository": "r", "name": "p", "version": "1.0.0"}},
    }
    where = ObjectRef(api_version="windlass.dev/v1alpha1", kind="Application", namespace=namespace, name="one")
    of_nobody = {**application, "metadata": {**application["metadata"], "uid": NOBODY}}
    with pytest.raises(TransientError) as absent:
        await kube.apply(of_nobody, field_manager="x")
    created = await kube.create(application)
    with pytest.raises(TransientError) as replaced:
        await kube.replace({**created, "metadata": {**created["metadata"], "uid": NOBODY}})
    assert (absent.value.reason, replaced.value.reason) == (Reason.API_CONFLICT, Reason.API_CONFLICT)
    for write in (
        kube.apply(of_nobody, field_manager="x"),
        kube.patch(where, {"metadata": {"uid": NOBODY}}, kind="merge"),
        kube.patch(where, [{"op": "test", "path": "/metadata/uid", "value": NOBODY}], kind="json"),
    ):
        with pytest.raises(PermanentError) as immutable:
            await write
        assert immutable.value.reason is Reason.API_REJECTED
    # The status of a custom resource is written whatever uid the patch names: only a resourceVersion guards it.
    status = {key: value for key, value in of_nobody.items() if key != "spec"} | {"status": {"phase": "Ready"}}
    written = await kube.apply(status, field_manager="x", subresource="status")
    assert (written["metadata"]["uid"], written["status"]) == (created["metadata"]["uid"], {"phase": "Ready"})
    status["metadata"] = {**application["metadata"], "resourceVersion": created["metadata"]["resourceVersion"]}
    with pytest.raises(TransientError) as stale:
        await kube.apply(status, field_manager="x", subresource="status")
    assert stale.value.reason is Reason.API_CONFLICT


async def test_status_is_a_part_of_its_own(either: tuple[Kube, str]) -> None:
    kube, namespace = either
    created = await kube.create({**deployment(namespace), "status": {"replicas": 7}})
    assert created["metadata"]["generation"] == 1
    assert created.get("status", {}).get("replicas") is None
    await kube.patch(ref(namespace, "Deployment"), {"status": {"replicas": 8}}, kind="merge")
    await kube.patch(
        ref(namespace, "Deployment"),
        {"spec": {"replicas": 5}, "status": {"collisionCount": 4}},
        kind="merge",
        subresource="status",
    )
    seen = await kube.get(ref(namespace, "Deployment"))
    assert seen is not None
    assert (seen["spec"]["replicas"], seen["status"]["collisionCount"]) == (0, 4)
    assert seen["metadata"]["generation"] == 1
    labelled = await kube.patch(ref(namespace, "Deployment"), {"metadata": {"labels": {"a": "b"}}}, kind="merge")
    paused = await kube.patch(ref(namespace, "Deployment"), {"spec": {"paused": True}}, kind="merge")
    assert labelled is not None
    assert paused is not None
    assert (labelled["metadata"]["generation"], paused["metadata"]["generation"]) == (1, 2)
    assert paused["status"]["collisionCount"] == 4


async def test_finalizers_hold_an_object(either: tuple[Kube, str]) -> None:
    kube, namespace = either
    held = config(namespace)
    held["metadata"]["finalizers"] = ["windlass.dev/test"]
    created = await kube.create(held)
    assert await kube.delete(ref(namespace)) is True
    waiting = await kube.get(ref(namespace))
    assert waiting is not None
    assert waiting["metadata"]["deletionTimestamp"]
    assert waiting["metadata"]["uid"] == created["metadata"]["uid"]
    await kube.patch(ref(namespace), {"metadata": {"finalizers": None}}, kind="merge")
    assert await kube.get(ref(namespace)) is None


async def test_lists_select(either: tuple[Kube, str]) -> None:
    kube, namespace = either
    for name, labels in (("a", {"x": "1"}), ("b", {"x": "2"}), ("c", {"y": "1"})):
        labelled = config(namespace, name, data={"k": name})
        labelled["metadata"]["labels"] = labels
        await kube.create(labelled)

    async def names(**selectors: Any) -> list[str]:
        found = await kube.list("v1", "ConfigMap", namespace=namespace, **selectors)
        return [item["metadata"]["name"] for item in found.items if item["metadata"]["name"] in "abc"]

    assert await names() == ["a", "b", "c"]
    assert await names(label_selector="x=1") == ["a"]
    assert await names(label_selector="x!=1") == ["b", "c"]
    assert await names(label_selector="x") == ["a", "b"]
    assert await names(label_selector="!x") == ["c"]
    assert await names(label_selector="x,x!=2") == ["a"]
    assert await names(field_selector="metadata.name=b") == ["b"]
    slim = await kube.list("v1", "ConfigMap", namespace=namespace, label_selector="x=1", metadata_only=True)
    assert "data" not in slim.items[0]
    assert slim.items[0]["metadata"]["labels"] == {"x": "1"}


async def test_watches_go_on_from_a_version(either: tuple[Kube, str]) -> None:
    kube, namespace = either
    listed = await kube.list("v1", "ConfigMap", namespace=namespace, label_selector="x")
    labelled = config(namespace)
    await kube.create(labelled)
    await kube.create(config(namespace, "other", data={"never": "selected"}))
    await kube.patch(ref(namespace), {"metadata": {"labels": {"x": "1"}}}, kind="merge")
    await kube.patch(ref(namespace), {"data": {"a": "1"}}, kind="merge")
    await kube.patch(ref(namespace), {"metadata": {"labels": {"x": None}}}, kind="merge")
    await kube.patch(ref(namespace), {"metadata": {"labels": {"x": "1"}}}, kind="merge")
    await kube.delete(ref(namespace))
    seen: list[WatchEvent] = []
    stream: Any = kube.watch(
        "v1", "ConfigMap", resource_version=listed.resource_version, namespace=namespace, label_selector="x"
    )
    async with aclosing(stream):
        async for event in stream:
            if event.type != "BOOKMARK":
                seen.append(event)
            if len(seen) == 5:
                break
    assert [event.type for event in seen] == ["ADDED", "MODIFIED", "DELETED", "ADDED", "DELETED"]
    assert {event.object["metadata"]["name"] for event in seen} == {"one"}


async def test_kinds_that_are_not_served(either: tuple[Kube, str]) -> None:
    kube, namespace = either
    unknown = ObjectRef(api_version="example.dev/v1", kind="Nothing", namespace=namespace, name="x")
    assert await kube.resource("example.dev/v1", "Nothing") is None
    assert await kube.get(unknown) is None
    assert await kube.delete(unknown) is False
    info = await kube.resource("apps/v1", "deployment")
    assert info is not None
    assert (info.kind, info.plural, info.namespaced) == ("Deployment", "deployments", True)


async def test_the_fakes_own_means() -> None:
    kube = FakeKube()
    kube.put(config("prod", data={"a": "1"}))
    kube.fail_next("get", TransientError(Reason.API_UNAVAILABLE, "down"))
    with pytest.raises(TransientError, match="down"):
        await kube.get(ref("prod"))
    assert await kube.get(ref("prod")) == kube.peek(ref("prod"))
    assert kube.verbs() == ["get", "get"]
    version = (await kube.list("v1", "ConfigMap")).resource_version
    kube.put(config("prod", data={"a": "2"}))
    kube.expire()
    with pytest.raises(WatchExpiredError):
        await anext(kube.watch("v1", "ConfigMap", resource_version=version))
