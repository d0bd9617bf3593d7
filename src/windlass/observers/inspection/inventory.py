"""What a package has in the cluster, as a tree: the object, its release, the release's objects, and what those own."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, cast

from windlass.adapters.helm import manifest
from windlass.adapters.helm.storage import Storage
from windlass.contracts.objects import PackageObject
from windlass.domain.errors import WindlassError
from windlass.domain.ids import API_VERSION
from windlass.domain.lifecycle.readiness import State, status_of
from windlass.ports.helm import ReleaseRef
from windlass.ports.kube import Kube, Object, ObjectRef

RELEASE: Final = "Release"
"""Kind of the node that stands for the Helm release; the cluster knows no such kind."""

ABSENT: Final = "absent"
"""State of an object that the release names and the cluster does not have."""

type Kind = tuple[str, str]
"""apiVersion and kind."""

_REPLICA_SET: Final[Kind] = ("apps/v1", "ReplicaSet")
_POD: Final[Kind] = ("v1", "Pod")
_CLAIM: Final[Kind] = ("v1", "PersistentVolumeClaim")
_JOB: Final[Kind] = ("batch/v1", "Job")
_SLICE: Final[Kind] = ("discovery.k8s.io/v1", "EndpointSlice")
_DEPLOYMENT: Final[Kind] = ("apps/v1", "Deployment")
_STATEFUL_SET: Final[Kind] = ("apps/v1", "StatefulSet")
_DAEMON_SET: Final[Kind] = ("apps/v1", "DaemonSet")
_CRON_JOB: Final[Kind] = ("batch/v1", "CronJob")
_SERVICE: Final[Kind] = ("v1", "Service")

_OWNED: Final[dict[Kind, tuple[Kind, ...]]] = {
    _DEPLOYMENT: (_REPLICA_SET,),
    _REPLICA_SET: (_POD,),
    _STATEFUL_SET: (_POD, _CLAIM),
    _DAEMON_SET: (_POD,),
    _CRON_JOB: (_JOB,),
    _JOB: (_POD,),
    _SERVICE: (_SLICE,),
}
"""Which kinds the controllers of Kubernetes make for which."""

_ANYTHING: Final = (_DEPLOYMENT, _STATEFUL_SET, _DAEMON_SET, _CRON_JOB, _JOB, _SERVICE, _CLAIM)
"""What the controller of a custom resource may make: the usual kinds."""


@dataclass(kw_only=True)
class Node:
    """One object, its state, and what belongs to it.

    Attributes:
        ref: names it; of kind `RELEASE` for the Helm release.
        state: in kstatus words (current, in progress, failed, terminating), `ABSENT`, or Helm's word for a release.
        message: why it is not current; empty if it is.
        uid: empty for what is no object of the cluster.
        created: when it was made.
    """

    ref: ObjectRef
    state: str
    message: str = ""
    uid: str = ""
    created: datetime | None = None
    children: list[Node] = field(default_factory=list["Node"])

    def walk(self) -> Iterator[Node]:
        """Yield this node and all below it, parents first."""
        yield self
        for child in self.children:
            yield from child.walk()


@dataclass(frozen=True, kw_only=True)
class Inventory:
    """The tree of one package.

    Attributes:
        root: the package.
        kinds: kinds and namespaces whose objects it was made of.
        unread: what could not be listed, and why.
    """

    root: Node
    kinds: frozenset[tuple[Kind, str]]
    unread: tuple[str, ...] = ()


async def take_inventory(kube: Kube, named: ReleaseRef, package: PackageObject) -> Inventory:
    """Read the objects of the package's newest release and everything they own, grandchildren included.

    What somebody may not list is left out and named in ``unread``.
    """
    metadata = package.metadata
    ready, reason, message = _ready(package)
    status = package.status
    root = Node(
        ref=ObjectRef(
            api_version=API_VERSION, kind=type(package).__name__, namespace=metadata.namespace, name=metadata.name
        ),
        state=State.CURRENT if ready == "True" else State.FAILED if status and status.failure else State.IN_PROGRESS,
        message="" if ready == "True" else ": ".join(text for text in (reason, message) if text),
        uid=metadata.uid,
        created=_time(metadata.creation_timestamp),
    )
    if status is None or status.release is None:
        return Inventory(root=root, kinds=frozenset())
    storage = Storage(kube)
    history = await storage.history(named)
    if not history:
        return Inventory(root=root, kinds=frozenset())
    record = await storage.read(named, history[-1].number)
    refs = await manifest.locate(record.entries, named.namespace, kube) if record else ()
    chart = f", {record.chart} {record.chart_version}" if record else ""
    release = Node(
        ref=ObjectRef(api_version="", kind=RELEASE, namespace=named.namespace, name=named.name),
        state=history[-1].status,
        message=f"revision {history[-1].number}{chart}",
    )
    root.children.append(release)
    found = await asyncio.gather(*(kube.get(ref) for ref in refs))
    release.children = [_node(ref, obj) for ref, obj in zip(refs, found, strict=True)]
    kinds = reachable((ref.api_version, ref.kind) for ref in refs)
    namespaces = {ref.namespace for ref in refs if ref.namespace}
    wanted = sorted((kind, namespace) for kind in kinds for namespace in namespaces)
    owned, unread = await _owned(kube, wanted)
    _adopt(release.children, owned)
    own = {((ref.api_version, ref.kind), ref.namespace) for ref in refs}
    return Inventory(root=root, kinds=frozenset([*wanted, *own]), unread=tuple(unread))


def _ready(package: PackageObject) -> tuple[str, str, str]:
    """Return status, reason and message of the condition Ready."""
    conditions = (package.status.conditions if package.status else None) or []
    found = next((one for one in conditions if one.type == "Ready"), None)
    return (found.status, found.reason, found.message) if found else ("Unknown", "", "")


def reachable(kinds: Iterable[Kind]) -> set[Kind]:
    """Return the kinds that objects of ``kinds`` may own, directly or through what they own."""
    found: set[Kind] = set()
    left = list(kinds)
    while left:
        kind = left.pop()
        group = kind[0].rpartition("/")[0]
        custom = "." in group and not group.endswith(".k8s.io")
        for one in _ANYTHING if custom else _OWNED.get(kind, ()):
            if one not in found:
                found.add(one)
                left.append(one)
    return found


async def _owned(kube: Kube, wanted: Iterable[tuple[Kind, str]]) -> tuple[dict[str, list[Object]], list[str]]:
    """List kinds in namespaces; return the objects by uid of each owner, and what could not be listed."""
    unread: list[str] = []

    async def listed(kind: Kind, namespace: str) -> list[Object]:
        try:
            return (await kube.list(*kind, namespace=namespace)).items
        except WindlassError as error:
            unread.append(f"{kind[1]} in {namespace}: {error.message}")
            return []

    owned: defaultdict[str, list[Object]] = defaultdict(list)
    for items in await asyncio.gather(*(listed(kind, namespace) for kind, namespace in wanted)):
        for item in items:
            metadata: Object = item["metadata"]
            for owner in cast("list[Object]", metadata.get("ownerReferences") or []):
                owned[str(owner["uid"])].append(item)
    return owned, sorted(unread)


def _adopt(nodes: Iterable[Node], owned: dict[str, list[Object]]) -> None:
    # An object stands below its first owner only, and owners in a circle end the descent.
    left, seen = list(nodes), {node.uid for node in nodes}
    while left:
        node = left.pop(0)
        for item in owned.get(node.uid, []) if node.uid else []:
            child = _node(_ref(item), item)
            if child.uid not in seen and not _emptied(item):
                seen.add(child.uid)
                node.children.append(child)
        node.children.sort(key=lambda one: one.ref)
        left += node.children


def _emptied(obj: Object) -> bool:
    """Say whether it is a ReplicaSet of an earlier rollout, kept for `kubectl rollout undo` only."""
    spec, status = cast("Object", obj.get("spec") or {}), cast("Object", obj.get("status") or {})
    return obj["kind"] == _REPLICA_SET[1] and not spec.get("replicas") and not status.get("replicas")


def _ref(obj: Object) -> ObjectRef:
    metadata: Object = obj["metadata"]
    return ObjectRef(
        api_version=obj["apiVersion"], kind=obj["kind"], namespace=metadata.get("namespace", ""), name=metadata["name"]
    )


def _node(ref: ObjectRef, obj: Object | None) -> Node:
    if obj is None:
        return Node(ref=ref, state=ABSENT)
    metadata: dict[str, Any] = obj["metadata"]
    status = status_of(obj)
    return Node(
        ref=ref,
        state=status.state,
        message=status.message,
        uid=metadata["uid"],
        created=_time(metadata.get("creationTimestamp")),
    )


def _time(stamp: str | None) -> datetime | None:
    return datetime.fromisoformat(stamp) if stamp else None


def told(inventory: Inventory) -> dict[str, Any]:
    """Return an inventory as it is sent."""
    return {
        "root": _told(inventory.root),
        "kinds": [[*kind, namespace] for kind, namespace in sorted(inventory.kinds)],
        "unread": list(inventory.unread),
    }


def _told(node: Node) -> dict[str, Any]:
    ref = node.ref
    return {
        "ref": [ref.api_version, ref.kind, ref.namespace, ref.name],
        "state": str(node.state),
        "message": node.message,
        "uid": node.uid,
        "created": node.created.isoformat() if node.created else None,
        "children": [_told(one) for one in node.children],
    }


def received(document: dict[str, Any]) -> Inventory:
    """Return the inventory that `told` was given."""
    kinds = frozenset(((version, kind), namespace) for version, kind, namespace in document["kinds"])
    return Inventory(root=_received(document["root"]), kinds=kinds, unread=tuple(document["unread"]))


def _received(node: dict[str, Any]) -> Node:
    api_version, kind, namespace, name = node["ref"]
    return Node(
        ref=ObjectRef(api_version=api_version, kind=kind, namespace=namespace, name=name),
        state=node["state"],
        message=node["message"],
        uid=node["uid"],
        created=_time(node["created"]),
        children=[_received(one) for one in node["children"]],
    )
