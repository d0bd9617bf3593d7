"""The rules against objects recorded from a real cluster, and against anything at all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from windlass.domain.lifecycle.readiness import (
    ABSENT,
    CURRENT,
    EXISTENCE_KINDS,
    ObjectStatus,
    Progress,
    State,
    exists_only,
    status_of,
    summarise,
    waits_for_consumer,
)

RECORDED = sorted((Path(__file__).parent / "readiness").glob("*.yaml"))
CASES = [
    pytest.param(case, id=f"{file.stem}: {case['case']}")
    for file in RECORDED
    for case in yaml.safe_load(file.read_text())
]


@pytest.mark.parametrize("case", CASES)
def test_recorded_object(case: dict[str, Any]) -> None:
    assert status_of(case["object"]) == ObjectStatus(state=State(case["state"]), message=case.get("message", ""))


def test_every_kind_with_a_rule_is_recorded_in_and_out_of_its_current_state() -> None:
    seen: dict[str, set[str]] = {}
    for param in CASES:
        case = param.values[0]
        assert isinstance(case, dict)
        seen.setdefault(case["object"]["kind"], set()).add(case["state"])
    missing = {kind for kind, states in seen.items() if "current" not in states and kind != "APIService"}
    assert not missing
    assert len(seen) == 10


def custom(conditions: list[dict[str, Any]] | None = None, **metadata: Any) -> dict[str, Any]:
    status = {} if conditions is None else {"status": {"conditions": conditions}}
    return {
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "metadata": {"name": "it", "generation": 2, **metadata},
        **status,
    }


@pytest.mark.parametrize(
    ("obj", "state", "message"),
    [
        (custom(), State.CURRENT, ""),
        (custom([]), State.CURRENT, ""),
        (custom([{"type": "Ready", "status": "True"}]), State.CURRENT, ""),
        (custom([{"type": "Ready", "status": "Unknown", "reason": "Waits"}]), State.IN_PROGRESS, "Waits"),
        (
            custom([{"type": "Ready", "status": "False", "reason": "No", "message": "not yet"}]),
            State.IN_PROGRESS,
            "No: not yet",
        ),
        (
            custom([{"type": "Ready", "status": "True", "observedGeneration": 1}]),
            State.IN_PROGRESS,
            "its condition Ready is of generation 1, not of 2",
        ),
        (
            custom([{"type": "Ready", "status": "True"}, {"type": "Reconciling", "status": "True", "reason": "Works"}]),
            State.IN_PROGRESS,
            "Works",
        ),
        (custom([{"type": "Stalled", "status": "True", "message": "no quota"}]), State.FAILED, "no quota"),
        (custom([{"type": "Synced", "status": "False"}]), State.CURRENT, ""),
        (
            custom([], deletionTimestamp="2026-01-01T00:00:00Z", finalizers=["example.com/a", "b"]),
            State.TERMINATING,
            "is being deleted, held by example.com/a, b",
        ),
        (custom() | {"status": {"observedGeneration": 2}}, State.CURRENT, ""),
        (
            custom() | {"status": {"observedGeneration": 1}},
            State.IN_PROGRESS,
            "generation 2 is not observed yet, the last one seen is 1",
        ),
        (
            {
                "apiVersion": "apiregistration.k8s.io/v1",
                "kind": "APIService",
                "status": {"conditions": [{"type": "Available", "status": "True"}]},
            },
            State.CURRENT,
            "",
        ),
        ({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "it"}}, State.CURRENT, ""),
        ({"apiVersion": "v1", "kind": "Namespace", "status": {"phase": "Active"}}, State.CURRENT, ""),
        (
            {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "status": {"phase": "Lost"}},
            State.FAILED,
            "the volume of the claim is lost",
        ),
        (
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "status": {
                    "phase": "Running",
                    "containerStatuses": [{"name": "web", "state": {"waiting": {"reason": "CrashLoopBackOff"}}}],
                },
            },
            State.IN_PROGRESS,
            "container web: CrashLoopBackOff",
        ),
        (
            {
                "apiVersion": "apps/v1",
                "kind": "StatefulSet",
                "spec": {"replicas": 1, "updateStrategy": {"type": "OnDelete"}},
                "status": {
                    "observedGeneration": 1,
                    "replicas": 1,
                    "readyReplicas": 1,
                    "currentRevision": "a",
                    "updateRevision": "b",
                },
            },
            State.CURRENT,
            "",
        ),
        (
            {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "spec": {"paused": True},
                "status": {"observedGeneration": 1},
            },
            State.IN_PROGRESS,
            "the rollout is paused",
        ),
    ],
)
def test_written_object(obj: dict[str, Any], state: State, message: str) -> None:
    assert status_of(obj) == ObjectStatus(state=state, message=message)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
FIELDS = st.sampled_from(
    ["conditions", "observedGeneration", "replicas", "updatedReplicas", "phase", "loadBalancer", "containerStatuses"]
)
CONDITION = st.fixed_dictionaries(
    {
        "type": st.sampled_from(["Ready", "Failed", "Stalled", "Progressing", "Available", "Established"]),
        "status": st.sampled_from(["True", "False", "Unknown", None]),
    },
    optional={"reason": JSON, "message": JSON, "observedGeneration": JSON},
)
OBJECT = st.fixed_dictionaries(
    {
        "apiVersion": st.sampled_from(
            ["v1", "apps/v1", "batch/v1", "apiextensions.k8s.io/v1", "apiregistration.k8s.io/v1", "x/v1"]
        )
        | JSON,
        "kind": st.sampled_from(
            [
                "Deployment",
                "ReplicaSet",
                "StatefulSet",
                "DaemonSet",
                "Job",
                "Pod",
                "PersistentVolumeClaim",
                "Service",
                "Namespace",
                "CustomResourceDefinition",
                "APIService",
            ]
        )
        | JSON,
    },
    optional={
        "metadata": JSON | st.dictionaries(st.sampled_from(["generation", "deletionTimestamp", "finalizers"]), JSON),
        "spec": JSON | st.dictionaries(st.sampled_from(["replicas", "updateStrategy", "type", "completions"]), JSON),
        "status": JSON | st.dictionaries(FIELDS, JSON | st.lists(CONDITION | JSON, max_size=3), max_size=5),
    },
)


@given(OBJECT | st.dictionaries(st.text(max_size=8), JSON))
def test_any_object_has_a_status_and_a_reason_unless_current(obj: dict[str, Any]) -> None:
    status = status_of(obj)
    assert (status.message == "") == (status.state is State.CURRENT)
    assert len(status.message) <= 300


@given(OBJECT, OBJECT)
def test_any_claim_and_class_can_be_asked(claim: dict[str, Any], storage_class: dict[str, Any]) -> None:
    assert waits_for_consumer(claim, storage_class) is False  # no class here binds late


def test_a_claim_waits_for_its_first_consumer_until_a_pod_is_placed() -> None:
    late = {"volumeBindingMode": "WaitForFirstConsumer"}
    pending: dict[str, Any] = {"metadata": {"name": "data"}, "status": {"phase": "Pending"}}
    placed = pending | {"metadata": {"annotations": {"volume.kubernetes.io/selected-node": "a"}}}
    assert waits_for_consumer(pending, late)
    assert not waits_for_consumer(placed, late)
    assert not waits_for_consumer(pending, {"volumeBindingMode": "Immediate"})
    assert not waits_for_consumer(pending, None)


def test_kinds_that_only_have_to_exist() -> None:
    assert exists_only("v1", "Secret")
    assert exists_only("rbac.authorization.k8s.io/v1", "Role")
    assert not exists_only("example.com/v1", "Secret")
    assert not exists_only("apps/v1", "Deployment")
    assert ("apps", "Deployment") not in EXISTENCE_KINDS


def test_summary_counts_and_names_failures_first_and_five_at_most() -> None:
    failed = ObjectStatus(state=State.FAILED, message="broken")
    pairs = [("Pod/done", CURRENT), *((f"Pod/{i}", ABSENT) for i in range(6)), ("Job/x", failed)]
    assert summarise(pairs) == Progress(
        completed=1,
        remaining=7,
        waiting_for=("Job/x: broken", "Pod/0: absent", "Pod/1: absent", "Pod/2: absent", "Pod/3: absent"),
    )
    assert summarise([]) == Progress(completed=0, remaining=0)
