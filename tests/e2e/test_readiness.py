"""What a release is waited for: one real rollout of every kind, and what people see meanwhile."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from support.installation import Installation, condition, write_package
from support.running import packages, revisions, running
from support.waiting import eventually
from windlass.devstack.stack import Stack
from windlass.domain.ids import API_VERSION
from windlass.ports import Object, ObjectRef

NAME = '{{ .Release.Name | replace "." "-" }}'
SELECTED = {"selector": {"matchLabels": {"app": NAME}}}


def pod(stage: str = "", delay: str = "", **spec: Any) -> Object:
    """Return a pod template; ``stage`` and ``delay`` tell the simulated kubelet what becomes of the pod."""
    annotations = {"windlass.dev/stage": stage, "windlass.dev/stage-delay": delay}
    return {
        "metadata": {"labels": {"app": NAME}, "annotations": {key: text for key, text in annotations.items() if text}},
        "spec": {"containers": [{"name": "main", "image": "example.invalid/none"}], **spec},
    }


def manifest(api_version: str, kind: str, **spec: Any) -> Object:
    """Return an object that has the release's name."""
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": NAME}, "spec": spec}


SLOW = {"delay": "300ms"}
KINDS: dict[str, Object] = {
    "deployment": manifest("apps/v1", "Deployment", replicas=2, template=pod(**SLOW), **SELECTED),
    "statefulset": manifest("apps/v1", "StatefulSet", replicas=2, serviceName="x", template=pod(**SLOW), **SELECTED),
    "daemonset": manifest("apps/v1", "DaemonSet", template=pod(**SLOW), **SELECTED),
    "job": manifest("batch/v1", "Job", template=pod(restartPolicy="Never")),
    "persistentvolumeclaim": manifest(
        "v1", "PersistentVolumeClaim", accessModes=["ReadWriteOnce"], resources={"requests": {"storage": "1Gi"}}
    ),
    "failing": manifest("batch/v1", "Job", backoffLimit=0, template=pod("fail", restartPolicy="Never")),
    "stuck": manifest("apps/v1", "Deployment", template=pod("stuck"), **SELECTED),
    "slow": manifest("apps/v1", "Deployment", template=pod(delay="4000ms"), **SELECTED),
}
READY = ("deployment", "statefulset", "daemonset", "job", "persistentvolumeclaim")


@pytest.fixture(scope="module")
async def installation(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Installation]:
    """One running installation with an Application for each kind, all begun at once."""
    async with running(stack, tmp_path_factory.mktemp("readiness")) as made:
        for name, obj in KINDS.items():
            # JSON is YAML; Helm's templates in its texts survive.
            text = json.dumps(obj).replace('\\"', '"').replace(f'"{NAME}"', NAME)
            write_package(packages(made), name, "1.0.0", templates={f"{name}.yaml": text})
        await asyncio.gather(*(made.application(name, name, "1.0.0", **_more(name)) for name in KINDS))
        yield made


def _more(name: str) -> dict[str, Any]:
    return {"timeouts": {"readiness": "3s"}} if name == "stuck" else {}


@pytest.mark.parametrize("name", READY)
async def test_a_real_rollout_is_waited_for(installation: Installation, name: str) -> None:
    obj = await installation.ready(name)
    kind, api_version = KINDS[name]["kind"], KINDS[name]["apiVersion"]
    found = await installation.get(kind, f"{installation.namespace}-{name}", api_version)
    assert found is not None
    status = found["status"]
    reached = {
        "deployment": status.get("readyReplicas") == 2,
        "statefulset": status.get("readyReplicas") == 2,
        "daemonset": status.get("numberReady", 0) >= 1 and status.get("numberReady") == status["desiredNumberScheduled"],
        "job": status.get("succeeded") == 1,
        "persistentvolumeclaim": status.get("phase") == "Bound",
    }
    assert reached[name], status
    assert condition(obj, "ReadyInCluster")["status"] == "True"


async def test_a_failed_job_fails_the_release_and_is_named(installation: Installation) -> None:
    obj = await installation.status("failing", lambda status: status.get("failure"))
    failure = obj["status"]["failure"]
    assert failure["reason"] == "ResourceFailed"
    assert failure["actor"] == "author", "nothing but another version or other settings helps"
    assert f"Job/{installation.namespace}-failing" in failure["message"]
    told = condition(obj, "ReadyInCluster")
    assert (told["status"], told["reason"]) == ("False", "ResourceFailed")


async def test_a_rollout_that_takes_too_long_names_what_was_awaited(installation: Installation) -> None:
    obj = await installation.status("stuck", lambda status: status.get("failure"))
    failure = obj["status"]["failure"]
    assert failure["reason"] == "ReadinessTimeout"
    assert "3 s" in failure["message"]
    assert f"Deployment/{installation.namespace}-stuck" in failure["message"]
    assert failure["nextTry"], "it may still become ready"
    assert await revisions(installation, "stuck") == ["deployed"], "waiting again is not releasing again"


async def test_people_see_what_is_awaited(installation: Installation) -> None:
    obj = await installation.status("slow", lambda status: status.get("progress"))
    progress = obj["status"]["progress"]
    assert (progress["completed"], progress["remaining"]) == (0, 1)
    assert progress["waitingFor"][0].startswith(f"Deployment/{installation.namespace}-slow: ")
    obj = await installation.ready("slow")
    assert "progress" not in obj["status"]


async def test_definitions_and_objects_with_conditions_are_waited_for(installation: Installation) -> None:
    group = f"{installation.namespace}.windlass.dev"
    anything: Object = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    definition: Object = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"gizmos.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"kind": "Gizmo", "plural": "gizmos"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "schema": {"openAPIV3Schema": anything},
                }
            ],
        },
    }
    other: Object = {**definition, "metadata": {"name": f"gadgets.{group}"}, "spec": dict(definition["spec"])}
    other["spec"]["names"] = {"kind": "Gadget", "plural": "gadgets"}
    gizmo = {"apiVersion": f"{group}/v1", "kind": "Gizmo", "metadata": {"name": "it"}, "spec": {}}
    write_package(
        packages(installation),
        "gizmo",
        "1.0.0",
        templates={"gizmo.yaml": json.dumps(gizmo), "gadgets.yaml": json.dumps(other)},
        extra={"crds/gizmos.yaml": json.dumps(definition)},
    )
    ref = ObjectRef(api_version=f"{group}/v1", kind="Gizmo", namespace=installation.namespace, name="it")

    def said(status: str) -> Object:
        now = "2026-01-01T00:00:00Z"
        return {
            "status": {
                "observedGeneration": 1,
                "conditions": [{"type": "Ready", "status": status, "reason": "Told", "lastTransitionTime": now}],
            }
        }

    async def said_not_ready() -> bool:
        await installation.kube.patch(ref, said("False"), kind="merge", subresource="status")
        return True

    try:
        await installation.application("gizmo", "gizmo", "1.0.0")
        # Before its controller has said anything, an object counts as ready at once: let it say so early.
        await eventually(said_not_ready, 10, every=0.005, what="the object is there")
        generation = {"metadata": {"annotations": {"again": "yes"}}}
        await installation.kube.patch(installation.ref("Application", "gizmo", API_VERSION), generation, kind="merge")
        await installation.kube.patch(ref, said("True"), kind="merge", subresource="status")
        await installation.ready("gizmo")
        for plural in ("gizmos", "gadgets"):
            name = ObjectRef(
                api_version="apiextensions.k8s.io/v1", kind="CustomResourceDefinition", name=f"{plural}.{group}"
            )
            found = await installation.kube.get(name)
            assert found is not None
            assert condition(found, "Established")["status"] == "True"
    finally:
        await installation.delete("gizmo")
        await installation.gone("gizmo")
        for plural in ("gizmos", "gadgets"):
            await installation.kube.delete(
                ObjectRef(
                    api_version="apiextensions.k8s.io/v1", kind="CustomResourceDefinition", name=f"{plural}.{group}"
                )
            )
