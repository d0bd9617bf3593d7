"""When is an object ready? The rules of kstatus over unstructured objects, as total functions.

An object is *current* when the cluster has done what its spec asks for, *failed* when it says that it will not get
there without somebody's help, *terminating* when it is being deleted, and *in progress* otherwise. Nothing here
raises, whatever the object looks like: a field of the wrong shape counts as absent.

Source of the rules: the status conventions of the Kubernetes API and kstatus (sigs.k8s.io/cli-utils). Where we differ:
a Deployment's ``ProgressDeadlineExceeded`` and a Job's ``Failed`` end the wait at once; a Job is current only when it
has completed, not when it has started; a suspended Job or a CronJob has nothing left to do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, cast

REASONS_MAX: Final = 5
"""How many awaited objects a `Progress` names."""

_MESSAGE_MAX: Final = 300

EXISTENCE_KINDS: Final[frozenset[tuple[str, str]]] = frozenset(
    {
        ("", "ConfigMap"),
        ("", "Secret"),
        ("", "ServiceAccount"),
        ("", "Endpoints"),
        ("", "LimitRange"),
        ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"),
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy"),
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding"),
        ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"),
        ("batch", "CronJob"),
        ("discovery.k8s.io", "EndpointSlice"),
        ("networking.k8s.io", "IngressClass"),
        ("networking.k8s.io", "NetworkPolicy"),
        ("node.k8s.io", "RuntimeClass"),
        ("policy", "PodDisruptionBudget"),
        ("rbac.authorization.k8s.io", "ClusterRole"),
        ("rbac.authorization.k8s.io", "ClusterRoleBinding"),
        ("rbac.authorization.k8s.io", "Role"),
        ("rbac.authorization.k8s.io", "RoleBinding"),
        ("scheduling.k8s.io", "PriorityClass"),
        ("storage.k8s.io", "CSIDriver"),
        ("storage.k8s.io", "StorageClass"),
    }
)
"""(group, kind) of objects that are current as soon as they exist: their status says nothing a wait could want."""


class State(StrEnum):
    """What an object says about itself."""

    CURRENT = "current"
    IN_PROGRESS = "in progress"
    FAILED = "failed"
    TERMINATING = "terminating"


@dataclass(frozen=True, kw_only=True)
class ObjectStatus:
    """The state of one object and, unless it is current, why (at most 300 characters)."""

    state: State
    message: str = ""


@dataclass(frozen=True, kw_only=True)
class Progress:
    """How far a wait has come: objects done, objects awaited, and up to five reasons (``Kind/name: why``)."""

    completed: int
    remaining: int
    waiting_for: tuple[str, ...] = ()


CURRENT: Final = ObjectStatus(state=State.CURRENT)
ABSENT: Final = ObjectStatus(state=State.IN_PROGRESS, message="absent")


def exists_only(api_version: str, kind: str) -> bool:
    """Say whether objects of this kind are current as soon as they exist."""
    return (_group(api_version), kind) in EXISTENCE_KINDS


def status_of(obj: Mapping[str, Any]) -> ObjectStatus:
    """Judge one object as the API server sends it."""
    metadata = _map(obj, "metadata")
    if metadata.get("deletionTimestamp"):
        finalizers = ", ".join(str(name) for name in _list(metadata, "finalizers"))
        return _status(State.TERMINATING, f"is being deleted{f', held by {finalizers}' if finalizers else ''}")
    api_version, kind = str(obj.get("apiVersion") or ""), str(obj.get("kind") or "")
    if exists_only(api_version, kind):
        return CURRENT
    status = _map(obj, "status")
    generation, observed = _int(metadata, "generation"), status.get("observedGeneration")
    if isinstance(observed, int) and observed < generation:
        return _waiting(f"generation {generation} is not observed yet, the last one seen is {observed}")
    for type_ in ("Ready", "Reconciling", "Stalled"):
        seen = _condition(status, type_).get("observedGeneration")
        if isinstance(seen, int) and seen < generation:
            return _waiting(f"its condition {type_} is of generation {seen}, not of {generation}")
    rule = _RULES.get((_group(api_version), kind), _generic)
    return rule(_map(obj, "spec"), status)


def waits_for_consumer(claim: Mapping[str, Any], storage_class: Mapping[str, Any] | None) -> bool:
    """Say whether a pending PersistentVolumeClaim is as far as it can come before a pod uses it.

    With ``volumeBindingMode: WaitForFirstConsumer`` the claim is bound only after the scheduler has placed a pod that
    mounts it, which it notes in an annotation. Until then the claim counts as current, or a chart whose claim is
    mounted by a CronJob (or by nothing yet) would never become ready; a pod that does wait for the volume is not ready
    itself and keeps the wait going.
    """
    annotations = _map(_map(claim, "metadata"), "annotations")
    return (
        storage_class is not None
        and storage_class.get("volumeBindingMode") == "WaitForFirstConsumer"
        and _map(claim, "status").get("phase") in (None, "Pending")
        and "volume.kubernetes.io/selected-node" not in annotations
    )


def summarise(statuses: Iterable[tuple[str, ObjectStatus]]) -> Progress:
    """Count (name, status) pairs; names read ``Kind/name``. Failed objects are named first."""
    judged = list(statuses)
    open_ = [(name, status) for name, status in judged if status.state is not State.CURRENT]
    open_.sort(key=lambda pair: pair[1].state is not State.FAILED)  # stable: otherwise in the given order
    return Progress(
        completed=len(judged) - len(open_),
        remaining=len(open_),
        waiting_for=tuple(f"{name}: {status.message}" for name, status in open_[:REASONS_MAX]),
    )


# -- one rule per kind -------------------------------------------------------------------------------------------------


def _deployment(spec: Mapping[str, Any], status: Mapping[str, Any]) -> ObjectStatus:
    progressing, available = _condition(status, "Progressing"), _condition(status, "Available")
    if progressing.get("reason") == "ProgressDeadlineExceeded":
        return _status(State.FAILED, _text(progressing, "the progress deadline is exceeded"))
    if "observedGeneration" not in status:
        return _waiting("the controller has not seen it yet")
    if spec.get("paused") is True:
        return _waiting("the rollout is paused")
    replicas, updated = _int(spec, "replicas", 1), _int(status, "updatedReplicas")
    if updated < replicas:
        return _waiting(f"{updated} of {replicas} replicas are updated")
    if (surplus := _int(status, "replicas") - updated) > 0:
        return _waiting(f"{surplus} old replicas are still running")
    return _ready_count(status, "availableReplicas", replicas, "available") or (
        CURRENT if available.get("status", "True") == "True" else _waiting(_text(available, "not available"))
    )


def _replica_set(spec: Mapping[str, Any], status: Mapping[str, Any]) -> ObjectStatus:
    if (failure := _condition(status, "ReplicaFailure")).get("status") == "True":
        return _waiting(_text(failure, "pods cannot be created"))
    if "observedGeneration" not in status:
        return _waiting("the controller has not seen it yet")
    replicas = _int(spec, "replicas", 1)
    return _ready_count(status, "readyReplicas", replicas, "ready") or (
        _ready_count(status, "availableReplicas", replicas, "available") or _no_surplus(status, replicas)
    )


def _stateful_set(spec: Mapping[str, Any], status: Mapping[str, Any]) -> ObjectStatus:
    if "observedGeneration" not in status:
        return _waiting("the controller has not seen it yet")
    replicas = _int(spec, "replicas", 1)
    strategy = _map(spec, "updateStrategy")
    if short := _ready_count(status, "readyReplicas", replicas, "ready"):
        return short
    if strategy.get("type") == "OnDelete":
        return _no_surplus(status, replicas)  # old pods are replaced when somebody deletes them
    partition = _int(_map(strategy, "rollingUpdate"), "partition")
    wanted = max(replicas - partition, 0)
    if short := _ready_count(status, "updatedReplicas", wanted, "updated"):
        return short
    revision, update = status.get("currentRevision"), status.get("updateRevision")
    if partition == 0 and revision != update:
        return _waiting(f"the rollout to revision {update} is not finished")
    return _no_surplus(status, replicas)


def _daemon_set(spec: Mapping[str, Any], status: Mapping[str, Any]) -> ObjectStatus:
    if "observedGeneration" not in status:
        return _waiting("the controller has not seen it yet")
    wanted = _int(status, "desiredNumberScheduled")
    on_delete = _map(spec, "updateStrategy").get("type") == "OnDelete"
    return (
        _ready_count(status, "currentNumberScheduled", wanted, "scheduled")
        or (None if on_delete else _ready_count(status, "updatedNumberScheduled", wanted, "updated"))
        or _ready_count(status, "numberAvailable", wanted, "available")
        or _ready_count(status, "numberReady", wanted, "ready")
        or CURRENT
    )


def _job(spec: Mapping[str, Any], status: Mapping[str, Any]) -> ObjectStatus:
    for type_ in ("Failed", "FailureTarget"):
        if (condition := _condition(status, type_)).get("status") == "True":
            return _status(State.FAILED, _text(condition, "the job has failed"))
    if _condition(status, "Complete").get("status") == "True" or spec.get("suspend") is True:
        return CURRENT
    done, wanted = _int(status, "succeeded"), _int(spec, "completions", 1)
    active, failed = _int(status, "active"), _int(status, "failed")
    return _waiting(f"{done} of {wanted} completions, {active} pods active, {failed} failed")


def _pod(_spec: Mapping[str, Any], status: Mapping[str, Any]) -> ObjectStatus:
    phase = status.get("phase")
    if phase == "Succeeded":
        return CURRENT
    if phase == "Failed":
        return _status(State.FAILED, _text(status, "the pod has failed"))
    ready = _condition(status, "Ready")
    if phase == "Running" and ready.get("status") == "True":
        return CURRENT
    for key in ("initContainerStatuses", "containerStatuses"):
        for container in _list(status, key):
            waiting = _map(_map(_dict(container), "state"), "waiting")
            if waiting.get("reason") not in (None, "PodInitializing", "ContainerCreating"):
                return _waiting(f"container {_dict(container).get('name')}: {_text(waiting, 'waiting')}")
    scheduled = _condition(status, "PodScheduled")
    if scheduled.get("status") == "False":
        return _waiting(_text(scheduled, "not scheduled"))
    return _waiting(_text(ready, f"phase {phase or 'unknown'}"))


def _claim(_spec: Mapping[str, Any], status: Mapping[str, Any]) -> ObjectStatus:
    phase = status.get("phase")
    if phase == "Bound":
        return CURRENT
    if phase == "Lost":
        return _status(State.FAILED, "the volume of the claim is lost")
    return _waiting("the claim is not bound")


def _definition(_spec: Mapping[str, Any], status: Mapping[str, Any]) -> ObjectStatus:
    names, established = _condition(status, "NamesAccepted"), _condition(status, "Established")
    if names.get("status") == "False":
        return _status(State.FAILED, _text(names, "its names are taken"))
    if established.get("status") == "True" and names.get("status") == "True":
        return CURRENT
    if established.get("status") == "False" and established.get("reason") not in ("Installing", "NotAccepted"):
        return _status(State.FAILED, _text(established, "not established"))
    return _waiting(_text(established, "not established"))


def _service(spec: Mapping[str, Any], status: Mapping[str, Any]) -> ObjectStatus:
    if spec.get("type") != "LoadBalancer" or spec.get("externalIPs"):
        return CURRENT
    ingress = _list(_map(status, "loadBalancer"), "ingress")
    return CURRENT if ingress else _waiting("the load balancer has no address")


def _api_service(_spec: Mapping[str, Any], status: Mapping[str, Any]) -> ObjectStatus:
    available = _condition(status, "Available")
    return CURRENT if available.get("status") == "True" else _waiting(_text(available, "not available"))


def _namespace(_spec: Mapping[str, Any], status: Mapping[str, Any]) -> ObjectStatus:
    return CURRENT if status.get("phase") in (None, "Active") else _waiting(f"phase {status.get('phase')}")


def _generic(_spec: Mapping[str, Any], status: Mapping[str, Any]) -> ObjectStatus:
    """Any other object: Stalled and Reconciling of kstatus, then Ready; without any of them it is current."""
    if (stalled := _condition(status, "Stalled")).get("status") == "True":
        return _status(State.FAILED, _text(stalled, "stalled"))
    if (reconciling := _condition(status, "Reconciling")).get("status") == "True":
        return _waiting(_text(reconciling, "reconciling"))
    ready = _condition(status, "Ready")
    if ready and ready.get("status") != "True":
        return _waiting(_text(ready, "not ready"))
    return CURRENT


_RULES: Final[Mapping[tuple[str, str], Callable[[Mapping[str, Any], Mapping[str, Any]], ObjectStatus]]] = {
    ("apps", "Deployment"): _deployment,
    ("apps", "ReplicaSet"): _replica_set,
    ("apps", "StatefulSet"): _stateful_set,
    ("apps", "DaemonSet"): _daemon_set,
    ("batch", "Job"): _job,
    ("", "Pod"): _pod,
    ("", "PersistentVolumeClaim"): _claim,
    ("", "Service"): _service,
    ("", "Namespace"): _namespace,
    ("apiextensions.k8s.io", "CustomResourceDefinition"): _definition,
    ("apiregistration.k8s.io", "APIService"): _api_service,
}


# -- reading what may have any shape -----------------------------------------------------------------------------------


_NOTHING: Final[Mapping[str, Any]] = {}


def _group(api_version: str) -> str:
    return api_version.rpartition("/")[0]


def _dict(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else _NOTHING


def _map(node: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    return _dict(node.get(key))


def _list(node: Mapping[str, Any], key: str) -> list[Any]:
    value = node.get(key)
    return cast("list[Any]", value) if isinstance(value, list) else []


def _int(node: Mapping[str, Any], key: str, default: int = 0) -> int:
    value = node.get(key)
    return value if isinstance(value, int) else default


def _condition(status: Mapping[str, Any], type_: str) -> Mapping[str, Any]:
    return next((_dict(c) for c in _list(status, "conditions") if _dict(c).get("type") == type_), _NOTHING)


def _text(node: Mapping[str, Any], default: str) -> str:
    """Return ``reason: message`` of a condition, or what there is of it."""
    return ": ".join(str(node[key]) for key in ("reason", "message") if node.get(key)) or default


def _status(state: State, message: str) -> ObjectStatus:
    text = message if len(message) <= _MESSAGE_MAX else message[: _MESSAGE_MAX - 1] + "…"
    return ObjectStatus(state=state, message=text)


def _waiting(message: str) -> ObjectStatus:
    return _status(State.IN_PROGRESS, message)


def _ready_count(status: Mapping[str, Any], key: str, wanted: int, word: str) -> ObjectStatus | None:
    count = _int(status, key)
    return _waiting(f"{count} of {wanted} replicas are {word}") if count < wanted else None


def _no_surplus(status: Mapping[str, Any], replicas: int) -> ObjectStatus:
    surplus = _int(status, "replicas") - replicas
    return _waiting(f"{surplus} surplus replicas are still running") if surplus > 0 else CURRENT
