"""What a release is waited for: one real rollout of every kind, and what people see meanwhile."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from support.installation import Installation, condition, write_package
from support.running import packages, revisions, running
from windlass.devstack.stack import Stack
from windlass.ports.kube import Object, ObjectRef

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
    found = await installation.get(kind, name, api_version)
    assert found is not None
    status = found["status"]
    reached = {
        "deployment": status.get("readyReplicas") == 2,
        "statefulset": status.get("readyReplicas") == 2,
        "daemonset": status.get("numberReady", 0) >= 1
        and status.get("numberReady") == status["desiredNumberScheduled"],
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
    assert "Job/failing" in failure["message"]
    told = condition(obj, "ReadyInCluster")
    assert (told["status"], told["reason"]) == ("False", "ResourceFailed")


async def test_a_rollout_that_takes_too_long_names_what_was_awaited(installation: Installation) -> None:
    obj = await installation.status("stuck", lambda status: status.get("failure"))
    failure = obj["status"]["failure"]
    assert failure["reason"] == "ReadinessTimeout"
    assert "3 s" in failure["message"]
    assert "Deployment/stuck" in failure["message"]
    assert failure["nextTry"], "it may still become ready"
    assert await revisions(installation, "stuck") == ["deployed"], "waiting again is not releasing again"


async def test_people_see_what_is_awaited(installation: Installation) -> None:
    obj = await installation.status("slow", lambda status: status.get("progress"))
    progress = obj["status"]["progress"]
    assert (progress["completed"], progress["remaining"]) == (0, 1)
    assert progress["waitingFor"][0].startswith("Deployment/slow: ")
    obj = await installation.ready("slow")
    assert "progress" not in obj["status"]


def definition(group: str, kind: str) -> Object:
    """Return a CRD without a status subresource: a chart's object may then say itself how it is."""
    anything: Object = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    plural = f"{kind.lower()}s"
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": anything}}],
        },
    }


def said(ready: str) -> Object:
    """Return a status with the condition `Ready`."""
    told = {"type": "Ready", "status": ready, "reason": "Told", "message": "by the test"}
    return {"status": {"conditions": [told | {"lastTransitionTime": "2026-01-01T00:00:00Z"}]}}


async def test_definitions_and_objects_with_conditions_are_waited_for(installation: Installation) -> None:
    group = f"{installation.namespace}.windlass.dev"
    gizmo: Object = {"apiVersion": f"{group}/v1", "kind": "Gizmo", "metadata": {"name": "it"}, **said("False")}
    write_package(
        packages(installation),
        "gizmo",
        "1.0.0",
        templates={"gizmo.yaml": json.dumps(gizmo), "gadgets.yaml": json.dumps(definition(group, "Gadget"))},
        extra={"crds/gizmos.yaml": json.dumps(definition(group, "Gizmo"))},
    )
    definitions = [
        ObjectRef(api_version="apiextensions.k8s.io/v1", kind="CustomResourceDefinition", name=f"{plural}.{group}")
        for plural in ("gizmos", "gadgets")
    ]
    # Definitions are the whole cluster's: the account of this namespace is allowed them here.
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": f"{installation.namespace}-definitions"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": "windlass-application", "namespace": installation.namespace}],
    }
    await installation.apply(binding)
    try:
        await installation.application("gizmo", "gizmo", "1.0.0")
        obj = await installation.status("gizmo", lambda status: status.get("progress"))
        assert obj["status"]["progress"]["waitingFor"] == ["Gizmo/it: Told: by the test"]
        for ref in definitions:
            assert condition(await installation.kube.get(ref) or {}, "Established")["status"] == "True"

        ref = ObjectRef(api_version=f"{group}/v1", kind="Gizmo", namespace=installation.namespace, name="it")
        await installation.kube.patch(ref, said("True"), kind="merge")
        await installation.ready("gizmo")
    finally:
        await installation.delete("gizmo")
        await installation.gone("gizmo")
        for ref in definitions:
            await installation.kube.delete(ref)
        await installation.kube.delete(
            ObjectRef(
                api_version="rbac.authorization.k8s.io/v1",
                kind="ClusterRoleBinding",
                name=f"{installation.namespace}-definitions",
            )
        )
