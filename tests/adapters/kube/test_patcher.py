from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from support.fake_kube import FakeKube
from support.waiting import SOON
from windlass.adapters.jq.client import JqClient
from windlass.adapters.kube.client import KubeClient
from windlass.adapters.kube.patcher import KubePatcher
from windlass.domain.errors import PermanentError, Reason, TransientError, WindlassError
from windlass.domain.hooks.patch_operations import Bounds
from windlass.ports.kube import Object, ObjectRef

type Execute = Callable[..., Awaitable[None]]

CONFIG_MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"new": "1"}}


def ref(
    name: str = "billing-c", namespace: str = "prod", kind: str = "ConfigMap", api_version: str = "v1"
) -> ObjectRef:
    return ObjectRef(api_version=api_version, kind=kind, namespace=namespace, name=name)


def config_map(name: str = "billing-c", namespace: str = "prod", **data: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace},
        "data": data,
    }


@pytest.fixture
def fake() -> FakeKube:
    return FakeKube()


def bounds(namespace: str) -> Bounds:
    return Bounds(namespace=namespace, prefix="billing-")


@pytest.fixture(scope="module")
async def jq() -> AsyncIterator[JqClient]:
    async with JqClient(size=1) as client:
        yield client


@pytest.fixture
def execute(fake: FakeKube, jq: JqClient) -> Execute:
    async def run(*operations: dict[str, Any]) -> None:
        await KubePatcher(fake, jq, delete_timeout=0.3).execute(operations, bounds("prod"))

    return run


async def test_create_into_the_packages_namespace_under_its_name(fake: FakeKube, execute: Execute) -> None:
    await execute({"operation": "Create", "object": CONFIG_MAP})
    assert fake.peek(ref())["data"] == {"new": "1"}


async def test_create_fails_when_the_object_exists(fake: FakeKube, execute: Execute) -> None:
    fake.put(config_map(old="1"))
    with pytest.raises(
        TransientError, match=r"1 of 1 object operations failed: operation 1 \(ConfigMap/billing-c in prod\)"
    ):
        await execute({"operation": "Create", "object": CONFIG_MAP})
    assert fake.peek(ref())["data"] == {"old": "1"}


async def test_create_if_not_exists_keeps_what_is_there(fake: FakeKube, execute: Execute) -> None:
    fake.put(config_map(old="1"))
    await execute({"operation": "CreateIfNotExists", "object": CONFIG_MAP})
    assert fake.peek(ref())["data"] == {"old": "1"}


async def test_create_or_update_replaces_and_does_not_merge(fake: FakeKube, execute: Execute) -> None:
    fake.put(config_map(old="1"))
    await execute({"operation": "CreateOrUpdate", "object": CONFIG_MAP})
    assert fake.peek(ref())["data"] == {"new": "1"}


async def test_create_or_update_survives_other_writers(fake: FakeKube, execute: Execute) -> None:
    fake.put(config_map(old="1"))
    conflict = TransientError(Reason.API_CONFLICT, "somebody was quicker")
    fake.fail_next("replace", conflict, conflict)
    await execute({"operation": "CreateOrUpdate", "object": CONFIG_MAP})
    assert fake.peek(ref())["data"] == {"new": "1"}


async def test_create_or_update_of_an_object_that_vanishes_creates_it(fake: FakeKube, execute: Execute) -> None:
    fake.fail_next("create", TransientError(Reason.API_CONFLICT, "it exists"))  # and is gone when we look
    await execute({"operation": "CreateOrUpdate", "object": CONFIG_MAP})
    assert fake.peek(ref())["data"] == {"new": "1"}


async def test_create_or_update_gives_up_on_endless_conflicts(fake: FakeKube, execute: Execute) -> None:
    fake.put(config_map(old="1"))
    fake.fail_next("replace", *[TransientError(Reason.API_CONFLICT, "again")] * 9)
    with pytest.raises(TransientError) as caught:
        await execute({"operation": "CreateOrUpdate", "object": CONFIG_MAP})
    assert caught.value.reason is Reason.API_CONFLICT
    assert fake.verbs().count("replace") == 5


@pytest.mark.parametrize(
    ("patch", "data"),
    [
        ({"operation": "MergePatch", "mergePatch": {"data": {"a": None, "b": "2"}}}, {"b": "2", "keep": "1"}),
        ({"operation": "JSONPatch", "jsonPatch": [{"op": "remove", "path": "/data/a"}]}, {"keep": "1"}),
    ],
)
async def test_patches(fake: FakeKube, execute: Execute, patch: dict[str, Any], data: dict[str, str]) -> None:
    fake.put(config_map(a="1", keep="1"))
    await execute(patch | {"kind": "configmap", "name": "c"})
    assert fake.peek(ref())["data"] == data


async def test_jq_patches_put_the_filters_result_in_the_objects_place(fake: FakeKube, execute: Execute) -> None:
    fake.put(config_map(a="1", big=2**53 + 1))  # type: ignore[arg-type]
    await execute({"operation": "JQPatch", "kind": "configmap", "name": "c", "jqFilter": ".data.b = .data.a"})
    assert fake.peek(ref())["data"] == {"a": "1", "b": "1", "big": 2**53 + 1}


async def test_a_jq_patch_that_changes_nothing_writes_nothing(fake: FakeKube, execute: Execute) -> None:
    fake.put(config_map(a="1"))
    await execute({"operation": "JQPatch", "kind": "configmap", "name": "c", "jqFilter": '.data.a = "1"'})
    assert "replace" not in fake.verbs()


async def test_a_jq_patch_survives_other_writers(fake: FakeKube, execute: Execute) -> None:
    fake.put(config_map(a="1"))
    conflict = TransientError(Reason.API_CONFLICT, "somebody was quicker")
    fake.fail_next("replace", conflict, conflict)
    await execute({"operation": "JQPatch", "kind": "configmap", "name": "c", "jqFilter": "del(.data.a)"})
    assert fake.peek(ref())["data"] == {}


@pytest.mark.parametrize("program", ["empty", ".,.", '"text"', ".data.a + 1"])
async def test_a_jq_patch_must_give_one_object_and_never_quotes_it(
    fake: FakeKube, execute: Execute, program: str
) -> None:
    fake.put(config_map(a="hush"))
    with pytest.raises(TransientError, match="1 of 1 object operations failed") as caught:
        await execute({"operation": "JQPatch", "kind": "configmap", "name": "c", "jqFilter": program})
    assert caught.value.reason is Reason.FILTER_FAILED
    assert "hush" not in str(caught.value)
    assert fake.peek(ref())["data"] == {"a": "hush"}


async def test_jq_patching_what_is_not_there(execute: Execute) -> None:
    patch = {"operation": "JQPatch", "kind": "ConfigMap", "name": "c", "jqFilter": "."}
    await execute(patch | {"ignoreMissingObject": True})
    with pytest.raises(TransientError, match="ConfigMap/billing-c in prod does not exist"):
        await execute(patch)


async def test_a_modules_operations_name_their_namespace(fake: FakeKube, jq: JqClient) -> None:
    patcher = KubePatcher(fake, jq)
    given = CONFIG_MAP | {"metadata": {"name": "c", "namespace": "kube-system"}}
    await patcher.execute([{"operation": "Create", "object": given}], Bounds())
    assert fake.peek(ref("c", "kube-system"))["data"] == {"new": "1"}
    with pytest.raises(PermanentError, match="namespace: missing"):
        await patcher.execute([{"operation": "Create", "object": CONFIG_MAP}], Bounds())
    delete = {"operation": "Delete", "kind": "namespace", "name": "x", "namespace": "y"}
    with pytest.raises(PermanentError, match="namespace: the kind is cluster-wide"):
        await patcher.execute([delete], Bounds())


async def test_patching_what_is_not_there(execute: Execute) -> None:
    patch = {"operation": "MergePatch", "kind": "ConfigMap", "name": "c", "mergePatch": {}}
    await execute(patch | {"ignoreMissingObject": True})
    with pytest.raises(TransientError, match="ConfigMap/billing-c in prod does not exist"):
        await execute(patch)


async def test_a_subresource_is_patched_as_such(fake: FakeKube, execute: Execute) -> None:
    fake.put({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "billing-d", "namespace": "prod"}})
    patch = {"status": {"replicas": 3}, "spec": {"replicas": 9}}
    await execute(
        {"operation": "MergePatch", "kind": "Deployment", "name": "d", "mergePatch": patch, "subresource": "/status"}
    )
    deployment = fake.peek(ref("billing-d", kind="Deployment", api_version="apps/v1"))
    assert deployment["status"] == {"replicas": 3}
    assert "spec" not in deployment


@pytest.mark.parametrize(
    ("name", "propagation"),
    [("Delete", "Foreground"), ("DeleteInBackground", "Background"), ("DeleteNonCascading", "Orphan")],
)
async def test_deletions(fake: FakeKube, execute: Execute, name: str, propagation: str) -> None:
    fake.put(config_map())
    for _ in range(2):  # what is gone already is fine
        await execute({"operation": name, "kind": "ConfigMap", "name": "c"})
    assert fake.peek(ref()) is None
    assert fake.calls[0 if name != "Delete" else 1].detail == propagation


async def test_delete_waits_for_the_object_to_be_gone(fake: FakeKube, execute: Execute) -> None:
    held = config_map()
    held["metadata"]["finalizers"] = ["example.dev/hold"]
    fake.put(held)
    deletion = asyncio.create_task(execute({"operation": "Delete", "kind": "ConfigMap", "name": "c"}))
    await asyncio.sleep(0.1)
    assert not deletion.done()
    await fake.patch(ref(), {"metadata": {"finalizers": None}}, kind="merge")
    await deletion


async def test_delete_does_not_wait_for_a_new_object_of_the_same_name(fake: FakeKube, execute: Execute) -> None:
    held = config_map()
    held["metadata"]["finalizers"] = ["example.dev/hold"]
    fake.put(held)
    deletion = asyncio.create_task(execute({"operation": "Delete", "kind": "ConfigMap", "name": "c"}))
    await asyncio.sleep(0.06)
    await fake.patch(ref(), {"metadata": {"finalizers": None}}, kind="merge")
    fake.put(config_map(second="1"))
    await deletion
    assert fake.peek(ref())["data"] == {"second": "1"}


async def test_a_deletion_that_does_not_come_to_an_end_is_an_error(fake: FakeKube, execute: Execute) -> None:
    held = config_map()
    held["metadata"]["finalizers"] = ["example.dev/hold"]
    fake.put(held)
    with pytest.raises(TransientError, match=r"billing-c in prod is still there 0\.3 s after its deletion"):
        await execute({"operation": "Delete", "kind": "ConfigMap", "name": "c"})


async def test_execution_goes_on_after_an_error_and_names_all_failures(fake: FakeKube, execute: Execute) -> None:
    fake.put(config_map(old="1"))
    with pytest.raises(TransientError) as caught:
        await execute(
            {"operation": "Create", "object": CONFIG_MAP},
            {"operation": "Create", "object": CONFIG_MAP | {"metadata": {"name": "other"}}},
            {"operation": "MergePatch", "kind": "ConfigMap", "name": "missing", "mergePatch": {}},
        )
    assert caught.value.reason is Reason.API_CONFLICT
    assert "2 of 3 object operations failed" in caught.value.message
    assert "operation 1 (ConfigMap/billing-c in prod)" in caught.value.message
    assert "operation 3 (ConfigMap/billing-missing in prod)" in caught.value.message
    assert fake.peek(ref("billing-other")) is not None


CLUSTER_WIDE = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRole",
    "metadata": {"name": "all"},
    "rules": [],
}


@pytest.mark.parametrize(
    ("bad", "error", "says"),
    [
        (
            {"operation": "Create", "object": CLUSTER_WIDE},
            PermanentError,
            "operation 2: ClusterRole .*a cluster-wide kind",
        ),
        ({"operation": "Delete", "kind": "namespace", "name": "prod"}, PermanentError, "a cluster-wide kind"),
        ({"operation": "Delete", "kind": "Gadget", "name": "g"}, TransientError, "does not serve this kind"),
        ({"operation": "Delete", "kind": "Secret"}, PermanentError, "name: expected text"),
        (
            {"operation": "JQPatch", "kind": "Secret", "name": "s", "jqFilter": ".a |"},
            PermanentError,
            "not valid: syntax error",
        ),
        ({"operation": "Delete", "kind": "Secret", "name": "s", "namespace": "x"}, PermanentError, "another namespace"),
    ],
)
async def test_nothing_is_executed_when_one_operation_is_bad(
    fake: FakeKube, execute: Execute, bad: dict[str, Any], error: type[WindlassError], says: str
) -> None:
    with pytest.raises(error, match=says):
        await execute({"operation": "Create", "object": CONFIG_MAP}, bad)
    assert fake.calls == []


@pytest.mark.stack
async def test_all_operations_against_the_real_api(kube: KubeClient, namespace: str, jq: JqClient) -> None:
    patcher = KubePatcher(kube, jq)

    async def execute(*operations: dict[str, Any]) -> None:
        await patcher.execute(operations, bounds(namespace))

    async def data() -> Any:
        found = await kube.get(ref(namespace=namespace))
        return found and found.get("data")

    await execute({"operation": "Create", "object": CONFIG_MAP})
    assert await data() == {"new": "1"}
    await execute({"operation": "CreateIfNotExists", "object": CONFIG_MAP | {"data": {"x": "1"}}})
    assert await data() == {"new": "1"}
    with pytest.raises(TransientError) as caught:
        await execute({"operation": "Create", "object": CONFIG_MAP})
    assert caught.value.reason is Reason.API_CONFLICT
    await execute({"operation": "CreateOrUpdate", "object": CONFIG_MAP | {"data": {"x": "1", "y": "2"}}})
    assert await data() == {"x": "1", "y": "2"}
    await execute(
        {"operation": "MergePatch", "kind": "CONFIGMAP", "name": "c", "mergePatch": "data: {x: null, z: '3'}"}
    )
    assert await data() == {"y": "2", "z": "3"}
    items = [{"op": "test", "path": "/data/y", "value": "2"}, {"op": "remove", "path": "/data/y"}]
    await execute({"operation": "JSONPatch", "apiVersion": "v1", "kind": "configmap", "name": "c", "jsonPatch": items})
    assert await data() == {"z": "3"}
    with pytest.raises(TransientError, match="operation 1"):  # the same patch fits no more
        await execute({"operation": "JSONPatch", "kind": "configmap", "name": "c", "jsonPatch": items})
    raising = {"operation": "JQPatch", "kind": "configmap", "name": "c", "jqFilter": '.data.n = (.data.z + "!")'}
    await execute(raising)
    assert await data() == {"z": "3", "n": "3!"}
    began = time.monotonic()
    await execute({"operation": "Delete", "kind": "ConfigMap", "name": "c"})
    assert await data() is None
    assert time.monotonic() - began < SOON
    generated = {"apiVersion": "v1", "kind": "Secret", "metadata": {"generateName": "s-"}}
    await execute({"operation": "Create", "object": generated})
    secrets = await kube.list("v1", "Secret", namespace=namespace)
    assert [item["metadata"]["name"].startswith("billing-s-") for item in secrets.items] == [True]


@pytest.mark.stack
async def test_foreground_deletion_takes_the_dependents_along(kube: KubeClient, namespace: str, jq: JqClient) -> None:
    patcher = KubePatcher(kube, jq)
    pod = {"containers": [{"name": "c", "image": "pause"}]}
    labels = {"app": "billing-d"}
    template = {"metadata": {"labels": labels}, "spec": pod}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d"},
        "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": template},
    }
    await patcher.execute([{"operation": "Create", "object": deployment}], bounds(namespace))
    status = {"operation": "MergePatch", "name": "d", "subresource": "/status"}
    status |= {"kind": "Deployment", "mergePatch": {"status": {"collisionCount": 7}}}
    await patcher.execute([status], bounds(namespace))
    found = await kube.get(ref("billing-d", namespace, "Deployment", "apps/v1"))
    assert found["status"]["collisionCount"] == 7
    raised = {"operation": "JQPatch", "kind": "Deployment", "name": "d", "subresource": "status"}
    await patcher.execute([raised | {"jqFilter": ".status.collisionCount += 1"}], bounds(namespace))
    found = await kube.get(ref("billing-d", namespace, "Deployment", "apps/v1"))
    assert found["status"]["collisionCount"] == 8
    operations = [{"operation": "Delete", "kind": "deployment", "name": "d"}]
    await patcher.execute(operations, bounds(namespace))
    assert await kube.get(ref("billing-d", namespace, "Deployment", "apps/v1")) is None
    replica_sets = await kube.list("apps/v1", "ReplicaSet", namespace=namespace)
    assert replica_sets.items == []


@pytest.mark.stack
async def test_bounds_hold_before_the_real_api_is_asked_to_write(
    kube: KubeClient, namespace: str, jq: JqClient
) -> None:
    patcher = KubePatcher(kube, jq)
    good = {"operation": "Create", "object": CONFIG_MAP}
    for bad in (
        {"operation": "Create", "object": CLUSTER_WIDE},
        {"operation": "Delete", "kind": "namespace", "name": "x"},
    ):
        with pytest.raises(PermanentError, match="a cluster-wide kind; no operation was executed"):
            await patcher.execute([good, bad], bounds(namespace))
    assert await kube.get(ref(namespace=namespace)) is None
