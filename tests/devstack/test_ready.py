"""What a real cluster would bring to life, controllers and the simulated node bring to life here."""

from __future__ import annotations

import pytest
import yaml

from support.cluster import get, kubectl
from support.waiting import eventually_sync
from windlass.devstack.stack import Stack

POD = {"containers": [{"name": "main", "image": "example.test/nothing:1"}]}


def template(stage: str = "", **spec: object) -> dict[str, object]:
    annotations = {"windlass.dev/stage": stage} if stage else {}
    return {"metadata": {"labels": {"app": "x"}, "annotations": annotations}, "spec": {**POD, **spec}}


def workload(kind: str, stage: str = "", **spec: object) -> str:
    group = "batch/v1" if kind == "Job" else "apps/v1"
    selector = {} if kind == "Job" else {"selector": {"matchLabels": {"app": "x"}}}
    restart = {"restartPolicy": "Never"} if kind == "Job" else {}
    body = {**selector, "template": template(stage, **restart), **spec}
    return yaml.safe_dump({"apiVersion": group, "kind": kind, "metadata": {"name": "x"}, "spec": body})


@pytest.mark.parametrize(
    ("manifest", "path", "value"),
    [
        (workload("Deployment", replicas=3), "{.status.readyReplicas}", "3"),
        (workload("StatefulSet", replicas=2, serviceName="x"), "{.status.readyReplicas}", "2"),
        (workload("DaemonSet"), "{.status.numberReady}", "1"),
        (workload("Job", completions=2), "{.status.succeeded}", "2"),
        (workload("Job", stage="fail", backoffLimit=0), "{.status.conditions[?(@.type=='Failed')].status}", "True"),
        (
            yaml.safe_dump(
                {
                    "apiVersion": "v1",
                    "kind": "PersistentVolumeClaim",
                    "metadata": {"name": "x"},
                    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
                }
            ),
            "{.status.phase}",
            "Bound",
        ),
    ],
    ids=["Deployment", "StatefulSet", "DaemonSet", "Job", "failing Job", "PersistentVolumeClaim"],
)
def test_workloads_come_to_their_end(stack: Stack, namespace: str, manifest: str, path: str, value: str) -> None:
    kubectl(stack, "apply", "-n", namespace, "-f", "-", manifest=manifest)
    wait = ("wait", "-n", namespace, "-f", "-", f"--for=jsonpath={path}={value}", "--timeout=20s")
    kubectl(stack, *wait, manifest=manifest)


def test_a_stuck_rollout_stays_stuck_beside_a_ready_one(stack: Stack, namespace: str) -> None:
    kubectl(stack, "apply", "-n", namespace, "-f", "-", manifest=workload("Deployment", replicas=1))
    kubectl(stack, "rollout", "status", "-n", namespace, "deployment/x", "--timeout=20s")
    kubectl(stack, "apply", "-n", namespace, "-f", "-", manifest=workload("Deployment", stage="stuck", replicas=1))

    def phases() -> list[tuple[str, bool]] | None:
        pods = get(stack, "pods", "-n", namespace)["items"]
        states = sorted(
            (pod["status"]["phase"], pod["status"].get("containerStatuses", [{}])[0].get("ready", False))
            for pod in pods
        )
        return states if len(states) == 2 and all(phase == "Running" for phase, _ in states) else None

    assert eventually_sync(phases) == [("Running", False), ("Running", True)]
    assert get(stack, "deployment/x", "-n", namespace)["status"]["updatedReplicas"] == 1


def test_what_windlass_needs_is_installed(stack: Stack) -> None:
    kubectl(stack, "get", "namespace", "windlass-system")
    crds = [crd["metadata"]["name"] for crd in get(stack, "crds")["items"]]
    assert {"applications.windlass.dev", "packagerepositories.windlass.dev"} <= set(crds)
    kubectl(stack, "get", "clusterrole", "windlass-application")
    kubectl(stack, "get", "namespace", "windlass-modules")
    kubectl(stack, "get", "validatingadmissionpolicybinding", "windlass-actions")
    kubectl(stack, "get", "mutatingadmissionpolicybinding", "windlass-who")
