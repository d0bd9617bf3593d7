"""Waits against real controllers: every kind rolls out once, and every way out of a wait is taken."""

from __future__ import annotations

import asyncio
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from support.targets import at_home
from support.waiting import SOON, eventually
from windlass.adapters.kube.client import KubeClient
from windlass.adapters.kube.readiness import KubeReadiness
from windlass.adapters.targets.caller import CallerTargets
from windlass.domain.errors import Actor, PermanentError, Reason, TransientError
from windlass.domain.lifecycle.readiness import Progress
from windlass.ports.kube import Object, ObjectRef

SELECTED = {"selector": {"matchLabels": {"app": "it"}}}


def ref_of(obj: Object) -> ObjectRef:
    metadata = obj["metadata"]
    return ObjectRef(
        api_version=obj["apiVersion"],
        kind=obj["kind"],
        namespace=metadata.get("namespace", ""),
        name=metadata["name"],
    )


def pod(*, stage: str = "", delay: str = "", **spec: Any) -> Object:
    annotations = {"windlass.dev/stage": stage, "windlass.dev/stage-delay": delay}
    return {
        "metadata": {
            "labels": {"app": "it"},
            "annotations": {key: value for key, value in annotations.items() if value},
        },
        "spec": {"containers": [{"name": "it", "image": "example.com/it:1"}], **spec},
    }


def workload(namespace: str, api_version: str, kind: str, name: str = "it", **spec: Any) -> Object:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"namespace": namespace, "name": name}, "spec": spec}


def deployment(namespace: str, name: str = "it", *, replicas: int = 1, **template: Any) -> Object:
    return workload(namespace, "apps/v1", "Deployment", name, replicas=replicas, template=pod(**template), **SELECTED)


def config_map(namespace: str, name: str = "it") -> Object:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": namespace, "name": name}}


class Seen:
    """Keeps what a wait reports."""

    def __init__(self) -> None:
        self.reports: list[tuple[float, Progress]] = []

    async def __call__(self, progress: Progress) -> None:
        self.reports.append((time.monotonic(), progress))

    @property
    def last(self) -> Progress | None:
        return self.reports[-1][1] if self.reports else None


class Counting:
    """Passes everything on to a client and counts lists and watches."""

    def __init__(self, kube: KubeClient) -> None:
        self._kube = kube
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> Any:
        if name in ("list", "watch", "get"):
            self.calls.append(name)
        return getattr(self._kube, name)


TARGET = at_home("tests")


def readiness_of(kube: Any) -> KubeReadiness:
    return KubeReadiness(kube, CallerTargets(kube, Path("unused")))


@pytest.fixture
def readiness(kube: KubeClient) -> KubeReadiness:
    return readiness_of(kube)


def rollouts(namespace: str) -> dict[str, Object]:
    delayed = pod(delay="200ms")
    return {
        "Deployment": workload(namespace, "apps/v1", "Deployment", replicas=2, template=delayed, **SELECTED),
        "StatefulSet": workload(
            namespace, "apps/v1", "StatefulSet", replicas=2, serviceName="it", template=delayed, **SELECTED
        ),
        "DaemonSet": workload(namespace, "apps/v1", "DaemonSet", template=delayed, **SELECTED),
        "Job": workload(namespace, "batch/v1", "Job", template=pod(restartPolicy="Never")),
        "Pod": {**pod(), "apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": namespace, "name": "it"}},
        "PersistentVolumeClaim": workload(
            namespace,
            "v1",
            "PersistentVolumeClaim",
            accessModes=["ReadWriteOnce"],
            resources={"requests": {"storage": "1Gi"}},
        ),
        "CustomResourceDefinition": {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"its.{namespace}.windlass.dev"},
            "spec": {
                "group": f"{namespace}.windlass.dev",
                "scope": "Namespaced",
                "names": {"kind": "It", "plural": "its"},
                "versions": [
                    {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
                ],
            },
        },
    }


@pytest.mark.parametrize("kind", sorted(rollouts("x")))
async def test_a_real_rollout(kube: KubeClient, readiness: KubeReadiness, namespace: str, kind: str) -> None:
    obj = rollouts(namespace)[kind]
    where = ref_of(obj)
    waiting = asyncio.create_task(readiness.wait_ready(TARGET, [where], deadline=30, on_progress=Seen()))
    await asyncio.sleep(0)  # the wait starts before the object exists
    await kube.apply(obj, field_manager="it")
    try:
        assert await waiting is True
        found = await kube.get(where)
        assert found is not None
        assert found.get("status")
    finally:
        await kube.delete(where)


async def test_an_upgrade_is_awaited_and_not_the_old_state(
    kube: KubeClient, readiness: KubeReadiness, namespace: str
) -> None:
    obj = deployment(namespace)
    await kube.apply(obj, field_manager="it")
    assert await readiness.wait_ready(TARGET, [ref_of(obj)], deadline=30, on_progress=Seen())
    applied = await kube.apply(deployment(namespace, replicas=3, delay="300ms"), field_manager="it")
    assert await readiness.wait_ready(TARGET, [ref_of(obj)], deadline=30, on_progress=Seen())
    found = await kube.get(ref_of(obj))
    assert found is not None
    assert found["status"]["observedGeneration"] >= applied["metadata"]["generation"]
    assert found["status"]["updatedReplicas"] == 3


async def test_a_failing_job_ends_the_wait(kube: KubeClient, readiness: KubeReadiness, namespace: str) -> None:
    job = workload(
        namespace, "batch/v1", "Job", "migrate", backoffLimit=0, template=pod(stage="fail", restartPolicy="Never")
    )
    await kube.apply(job, field_manager="it")
    with pytest.raises(PermanentError) as caught:
        await readiness.wait_ready(TARGET, [ref_of(job)], deadline=30, on_progress=Seen())
    assert caught.value.reason is Reason.RESOURCE_FAILED
    assert caught.value.actor is Actor.AUTHOR
    assert "Job/migrate" in caught.value.message
    assert "BackoffLimitExceeded" in caught.value.message


async def test_a_timeout_names_what_was_awaited(kube: KubeClient, readiness: KubeReadiness, namespace: str) -> None:
    stuck = deployment(namespace, "stuck", stage="stuck")
    good = deployment(namespace, "good")
    for obj in (stuck, good):
        await kube.apply(obj, field_manager="it")
    seen = Seen()
    refs = [ref_of(stuck), ref_of(good), ref_of(config_map(namespace, "nowhere"))]
    with pytest.raises(TransientError) as caught:
        await readiness.wait_ready(TARGET, refs, deadline=2.5, on_progress=seen)
    assert caught.value.reason is Reason.READINESS_TIMEOUT
    assert "Deployment/stuck: 0 of 1 replicas are available" in caught.value.message
    assert "ConfigMap/nowhere: absent" in caught.value.message
    assert "good" not in caught.value.message
    times = [at for at, _ in seen.reports]
    assert all(later - sooner >= 0.99 for sooner, later in pairwise(times))
    assert seen.last == Progress(
        completed=1,
        remaining=2,
        waiting_for=("Deployment/stuck: 0 of 1 replicas are available", "ConfigMap/nowhere: absent"),
    )


async def test_nothing_is_watched_when_all_is_ready(kube: KubeClient, namespace: str) -> None:
    counting = Counting(kube)
    objects = [config_map(namespace, "a"), config_map(namespace, "b"), deployment(namespace)]
    for obj in objects:
        await kube.apply(obj, field_manager="it")
    refs = [ref_of(obj) for obj in objects]
    await readiness_of(kube).wait_ready(TARGET, refs, deadline=30, on_progress=Seen())
    seen = Seen()
    assert await readiness_of(counting).wait_ready(TARGET, refs, deadline=30, on_progress=seen)
    assert counting.calls == ["list", "list"]  # one per kind
    assert not seen.reports


async def test_existing_is_enough_and_is_not_watched(kube: KubeClient, namespace: str) -> None:
    counting = Counting(kube)
    slow = deployment(namespace, delay="300ms")
    for obj in (config_map(namespace), slow):
        await kube.apply(obj, field_manager="it")
    refs = [ref_of(config_map(namespace)), ref_of(slow)]
    assert await readiness_of(counting).wait_ready(TARGET, refs, deadline=30, on_progress=Seen())
    assert counting.calls == ["list", "list", "watch"]


async def test_nothing_to_wait_for(readiness: KubeReadiness) -> None:
    assert await readiness.wait_ready(TARGET, [], deadline=1, on_progress=Seen())
    await readiness.wait_gone(TARGET, [], deadline=1, on_progress=Seen())


async def test_an_object_deleted_during_the_wait_is_absent(
    kube: KubeClient, readiness: KubeReadiness, namespace: str
) -> None:
    obj = deployment(namespace, stage="stuck")
    await kube.apply(obj, field_manager="it")
    seen = Seen()
    waiting = asyncio.create_task(readiness.wait_ready(TARGET, [ref_of(obj)], deadline=30, on_progress=seen))
    await eventually(lambda: seen.last and "available" in seen.last.waiting_for[0])
    await kube.delete(ref_of(obj))
    await eventually(lambda: seen.last and seen.last.waiting_for == ("Deployment/it: absent",))
    await kube.apply(deployment(namespace), field_manager="it")
    assert await waiting is True


async def test_a_kind_that_is_not_served_yet_comes_with_its_definition(
    kube: KubeClient, readiness: KubeReadiness, namespace: str
) -> None:
    crd = rollouts(namespace)["CustomResourceDefinition"]
    obj: Object = {
        "apiVersion": f"{namespace}.windlass.dev/v1",
        "kind": "It",
        "metadata": {"namespace": namespace, "name": "it"},
    }
    waiting = asyncio.create_task(readiness.wait_ready(TARGET, [ref_of(obj)], deadline=30, on_progress=Seen()))
    await kube.apply(crd, field_manager="it")
    await eventually(lambda: kube.create(obj))
    assert await waiting is True
    await kube.delete(ref_of(crd))


async def test_a_claim_of_a_late_binding_class_is_current(
    kube: KubeClient, readiness: KubeReadiness, namespace: str
) -> None:
    storage_class: Object = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": namespace},
        "provisioner": "example.com/none",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    claim = rollouts(namespace)["PersistentVolumeClaim"]
    claim["spec"]["storageClassName"] = namespace
    await kube.apply(storage_class, field_manager="it")
    await kube.apply(claim, field_manager="it")
    try:
        assert await readiness.wait_ready(TARGET, [ref_of(claim)], deadline=5, on_progress=Seen())
    finally:
        await kube.delete(ref_of(storage_class))


@pytest.mark.parametrize("how", ["generation", "deletion"])
async def test_a_wait_is_superseded_by_its_owner(
    kube: KubeClient, readiness: KubeReadiness, namespace: str, how: str
) -> None:
    owner = deployment(namespace, "owner", replicas=0)
    applied = await kube.apply(owner, field_manager="it")
    seen = Seen()
    waiting = asyncio.create_task(
        readiness.wait_ready(
            TARGET,
            [ref_of(config_map(namespace, "never"))],
            deadline=10 * SOON,
            on_progress=seen,
            owner=ref_of(owner),
            owner_generation=applied["metadata"]["generation"],
        )
    )
    await eventually(lambda: seen.reports)
    if how == "generation":
        await kube.patch(ref_of(owner), {"spec": {"replicas": 1}}, kind="merge")
    else:
        await kube.delete(ref_of(owner), propagation="Foreground")
    assert await asyncio.wait_for(waiting, SOON) is False


async def test_a_cancelled_wait_stops_at_once(kube: KubeClient, readiness: KubeReadiness, namespace: str) -> None:
    seen = Seen()
    refs = [ref_of(config_map(namespace, "never")), ref_of(deployment(namespace, "never"))]
    before = asyncio.all_tasks()
    waiting = asyncio.create_task(readiness.wait_ready(TARGET, refs, deadline=10 * SOON, on_progress=seen))
    await eventually(lambda: seen.reports)
    waiting.cancel()
    done, _ = await asyncio.wait({waiting}, timeout=SOON)
    assert done
    assert waiting.cancelled()
    assert asyncio.all_tasks() - before == {asyncio.current_task()} - before  # nothing is left running
    assert await kube.list("v1", "ConfigMap", namespace=namespace)


async def test_an_error_of_the_receiver_ends_the_wait(readiness: KubeReadiness, namespace: str) -> None:
    async def refuse(_progress: Progress) -> None:
        raise TransientError(Reason.API_CONFLICT, "no")

    with pytest.raises(TransientError, match="no"):
        await readiness.wait_ready(TARGET, [ref_of(config_map(namespace, "never"))], deadline=30, on_progress=refuse)


async def test_gone(kube: KubeClient, readiness: KubeReadiness, namespace: str) -> None:
    kept = config_map(namespace, "kept")
    kept["metadata"]["finalizers"] = ["windlass.dev/test"]
    forgotten = config_map(namespace, "forgotten")
    for obj in (kept, forgotten):
        await kube.create(obj)
    refs = [ref_of(kept), ref_of(forgotten), ref_of(config_map(namespace, "absent"))]
    await kube.delete(refs[0])
    with pytest.raises(TransientError) as caught:
        await readiness.wait_gone(TARGET, refs, deadline=0.5, on_progress=Seen())
    assert caught.value.reason is Reason.UNINSTALL_FAILED
    assert "ConfigMap/kept: is being deleted, held by windlass.dev/test" in caught.value.message
    assert "ConfigMap/forgotten: exists and is not being deleted" in caught.value.message
    waiting = asyncio.create_task(readiness.wait_gone(TARGET, refs, deadline=10, on_progress=Seen()))
    await kube.delete(refs[1])
    await kube.patch(refs[0], {"metadata": {"finalizers": None}}, kind="merge")
    await waiting
