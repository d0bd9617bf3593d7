"""`ports.Kube` in memory, with the semantics that tests lean on.

uid, resourceVersion (one counter for all objects, as in etcd), generation (moves with all but metadata and status),
optimistic concurrency, preconditions, finalizers, the status subresource as a part of its own, no-op writes that leave
the resourceVersion alone, watches that go on from a resourceVersion and expire.
Left out: validation, defaulting, admission, field ownership (an apply merges; lists are replaced whole), quotas.

    kube = FakeKube()
    kube.serve("example.dev/v1", "Widget", namespaced=True)     # kinds beyond the built-in ones
    kube.put(obj)                                               # arrange without being recorded as a call
    kube.fail_next("replace", TransientError(...))              # the next such call raises
    kube.calls                                                  # [Call(verb="get", ref=...), ...]
"""

from __future__ import annotations

import asyncio
import base64
import copy
import uuid
from collections import defaultdict, deque
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import Any, Literal

import jsonpatch
import jsonpointer

from windlass.domain.errors import Actor, PermanentError, Reason, TransientError
from windlass.ports.kube import Object, ObjectList, ObjectRef, ResourceInfo, WatchEvent, WatchExpiredError

CREATED_AT = "2026-01-01T00:00:00Z"
DELETED_AT = "2026-01-01T00:01:00Z"

_BUILT_IN_KINDS = (
    ("v1", "Namespace", False),
    ("v1", "Node", False),
    ("v1", "ConfigMap", True),
    ("v1", "Event", True),
    ("v1", "PersistentVolumeClaim", True),
    ("v1", "Pod", True),
    ("v1", "Secret", True),
    ("v1", "Service", True),
    ("v1", "ServiceAccount", True),
    ("apps/v1", "DaemonSet", True),
    ("apps/v1", "Deployment", True),
    ("apps/v1", "ReplicaSet", True),
    ("apps/v1", "StatefulSet", True),
    ("batch/v1", "Job", True),
    ("coordination.k8s.io/v1", "Lease", True),
    ("events.k8s.io/v1", "Event", True),
    ("rbac.authorization.k8s.io/v1", "ClusterRole", False),
    ("rbac.authorization.k8s.io/v1", "RoleBinding", True),
    ("apiextensions.k8s.io/v1", "CustomResourceDefinition", False),
)
_CUSTOM_KINDS = (
    ("windlass.dev/v1alpha1", "Application", True),
    ("windlass.dev/v1alpha1", "PackageRepository", False),
)


@dataclass(frozen=True, kw_only=True)
class Call:
    verb: str
    api_version: str
    kind: str
    namespace: str = ""
    name: str = ""
    detail: str = ""


@dataclass(frozen=True, kw_only=True)
class _Change:
    version: int
    type: Literal["ADDED", "MODIFIED", "DELETED"]
    object: Object
    before: Object | None


@dataclass
class FakeKube:
    calls: list[Call] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._resources: dict[tuple[str, str], ResourceInfo] = {}
        self._objects: dict[ObjectRef, Object] = {}
        self._changes: list[_Change] = []
        self._version = 0
        self._oldest = 0
        self._failures: dict[str, deque[Exception]] = defaultdict(deque)
        self._moved = asyncio.Event()
        for api_version, kind, namespaced in (*_BUILT_IN_KINDS, *_CUSTOM_KINDS):
            self.serve(api_version, kind, namespaced=namespaced)

    # -- arranging and looking ---------------------------------------------------------------------------------------

    def serve(self, api_version: str, kind: str, *, namespaced: bool, plural: str = "") -> None:
        self._resources[(api_version, kind.lower())] = ResourceInfo(
            api_version=api_version, kind=kind, plural=plural or kind.lower() + "s", namespaced=namespaced
        )

    def put(self, obj: Object) -> Object:
        """Create or overwrite ``obj``, status included, whatever stood there."""
        ref = self._ref_of(obj)
        before = self._objects.get(ref)
        merged = copy.deepcopy(obj)
        if before is not None:
            merged["metadata"] = {**_system(before), **merged["metadata"]}
            return self._store(ref, merged, before)
        return self._insert(ref, merged)

    def objects(self, kind: str = "", namespace: str = "") -> list[Object]:
        """Return copies of the stored objects, sorted by kind, namespace and name."""
        return [
            copy.deepcopy(obj)
            for ref, obj in sorted(self._objects.items(), key=lambda item: item[0])
            if kind in ("", ref.kind) and namespace in ("", ref.namespace)
        ]

    def peek(self, ref: ObjectRef) -> Object | None:
        """Return a copy of one object without a call being recorded."""
        return copy.deepcopy(self._objects.get(ref))

    def verbs(self) -> list[str]:
        return [call.verb for call in self.calls]

    def fail_next(self, verb: str, *errors: Exception) -> None:
        """Let the next calls of ``verb`` raise these, one after the other."""
        self._failures[verb].extend(errors)

    def expire(self) -> None:
        """Forget the changes so far: watches from before now end with `WatchExpiredError`."""
        self._changes.clear()
        self._oldest = self._version
        self._wake()

    # -- ports.Kube: reading -----------------------------------------------------------------------------------------

    async def resource(self, api_version: str, kind: str) -> ResourceInfo | None:
        if api_version:
            return self._resources.get((api_version, kind.lower()))
        return next((info for (_, name), info in self._resources.items() if name == kind.lower()), None)

    async def get(self, ref: ObjectRef) -> Object | None:
        self._record("get", ref)
        return copy.deepcopy(self._objects.get(ref))

    async def list(
        self,
        api_version: str,
        kind: str,
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        metadata_only: bool = False,
    ) -> ObjectList:
        self._record("list", ObjectRef(api_version=api_version, kind=kind, namespace=namespace, name=""))
        self._served(api_version, kind)
        items = [
            _view(obj, metadata_only=metadata_only)
            for ref, obj in sorted(self._objects.items(), key=lambda item: item[0])
            if (ref.api_version, ref.kind) == (api_version, kind)
            and _selected(obj, namespace, label_selector, field_selector)
        ]
        return ObjectList(items=items, resource_version=str(self._version))

    async def watch(
        self,
        api_version: str,
        kind: str,
        *,
        resource_version: str,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        metadata_only: bool = False,
    ) -> AsyncGenerator[WatchEvent]:
        self._record("watch", ObjectRef(api_version=api_version, kind=kind, namespace=namespace, name=""))
        self._served(api_version, kind)
        position = int(resource_version or self._version)
        while True:
            if position < self._oldest:
                raise WatchExpiredError(f"resourceVersion {position} is too old; the oldest is {self._oldest}")
            moved = self._moved
            for change in [change for change in self._changes if change.version > position]:
                position = change.version
                event = _event(change, (api_version, kind), (namespace, label_selector, field_selector))
                if event is not None:
                    yield WatchEvent(type=event, object=_view(change.object, metadata_only=metadata_only))
            if moved is self._moved and position >= self._oldest:
                await moved.wait()

    # -- ports.Kube: writing -----------------------------------------------------------------------------------------

    async def create(self, obj: Object) -> Object:
        fresh = {key: value for key, value in copy.deepcopy(obj).items() if key != "status"}
        metadata = fresh["metadata"]
        if not metadata.get("name") and metadata.get("generateName"):
            metadata["name"] = metadata["generateName"] + uuid.uuid4().hex[:5]
        ref = self._ref_of(fresh)
        self._record("create", ref)
        if ref in self._objects:
            raise TransientError(Reason.API_CONFLICT, f"create {ref}: it exists already")
        if metadata.get("resourceVersion"):
            raise _refused(f"create {ref}: resourceVersion must not be set")
        return copy.deepcopy(self._insert(ref, fresh))

    async def replace(self, obj: Object, *, subresource: str = "") -> Object:
        ref = self._ref_of(obj)
        self._record("replace", ref, subresource)
        before = self._objects.get(ref)
        if before is None:
            raise TransientError(Reason.API_CONFLICT, f"replace {ref}: it is gone")
        self._conflict(ref, before, obj["metadata"], "resourceVersion", "uid")
        return copy.deepcopy(self._store(ref, _written(before, copy.deepcopy(obj), subresource), before))

    async def apply(
        self, obj: Object, *, field_manager: str, subresource: str = "", force: bool = True, dry_run: bool = False
    ) -> Object:
        assert not dry_run, "the fake has no schemas to default and merge by"
        ref = self._ref_of(obj)
        self._record("apply", ref, field_manager)
        del force
        before = self._objects.get(ref)
        if before is None:
            if subresource:
                raise TransientError(Reason.API_REJECTED, f"apply {ref}: not found")
            if obj["metadata"].get("uid"):
                raise TransientError(Reason.API_CONFLICT, f"apply {ref}: it has a uid and no object is there")
            fresh = {key: value for key, value in copy.deepcopy(obj).items() if key != "status"}
            return copy.deepcopy(self._insert(ref, fresh))
        self._patchable(ref, before, obj["metadata"], subresource)
        merged = _merge_patch(before, {**obj, "metadata": {**obj["metadata"]}})
        return copy.deepcopy(self._store(ref, _written(before, merged, subresource), before))

    async def patch(
        self, ref: ObjectRef, patch: Any, *, kind: Literal["json", "merge"], subresource: str = ""
    ) -> Object | None:
        self._record("patch", ref, kind)
        before = self._objects.get(ref)
        if before is None:
            return None
        if kind == "merge":
            after = _merge_patch(before, patch)
        else:
            try:
                after = jsonpatch.apply_patch(copy.deepcopy(before), patch)
            except (jsonpatch.JsonPatchException, jsonpointer.JsonPointerException) as error:
                raise _refused(f"patch {ref}: the patch does not fit") from error
        self._patchable(ref, before, after["metadata"], subresource)
        return copy.deepcopy(self._store(ref, _written(before, after, subresource), before))

    async def delete(
        self,
        ref: ObjectRef,
        *,
        propagation: Literal["Foreground", "Background", "Orphan"] = "Background",
        uid: str = "",
        resource_version: str = "",
    ) -> bool:
        self._record("delete", ref, propagation)
        before = self._objects.get(ref)
        if before is None or (uid and before["metadata"]["uid"] != uid):
            return False
        if resource_version and before["metadata"]["resourceVersion"] != resource_version:
            raise TransientError(Reason.API_CONFLICT, f"cannot delete {ref}: it has changed meanwhile")
        if before["metadata"].get("finalizers"):
            marked = copy.deepcopy(before)
            if "deletionTimestamp" not in marked["metadata"]:
                marked["metadata"]["deletionTimestamp"] = DELETED_AT
                marked["metadata"]["generation"] = marked["metadata"].get("generation", 0) + 1
            self._store(ref, marked, before)
        else:
            self._remove(ref, before)
        return True

    # -- storage -----------------------------------------------------------------------------------------------------

    def _insert(self, ref: ObjectRef, obj: Object) -> Object:
        metadata = obj["metadata"]
        if ref.namespace:
            metadata["namespace"] = ref.namespace
        metadata["uid"] = str(uuid.uuid4())
        metadata["creationTimestamp"] = CREATED_AT
        metadata["generation"] = 1
        metadata.pop("deletionTimestamp", None)
        return self._commit("ADDED", ref, _encoded(obj), None)

    def _store(self, ref: ObjectRef, obj: Object, before: Object) -> Object:
        obj = _encoded(obj)
        if _content(obj) != _content(before):
            obj["metadata"]["generation"] = before["metadata"].get("generation", 0) + 1
        if obj["metadata"].get("deletionTimestamp") and not obj["metadata"].get("finalizers"):
            return self._remove(ref, obj)
        if obj == before:
            return before
        return self._commit("MODIFIED", ref, obj, before)

    def _remove(self, ref: ObjectRef, obj: Object) -> Object:
        before = self._objects.pop(ref)
        return self._commit("DELETED", ref, obj, before)

    def _commit(
        self, kind: Literal["ADDED", "MODIFIED", "DELETED"], ref: ObjectRef, obj: Object, before: Object | None
    ) -> Object:
        self._version += 1
        stored = {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(self._version)}}
        if kind != "DELETED":
            self._objects[ref] = stored
        self._changes.append(
            _Change(version=self._version, type=kind, object=copy.deepcopy(stored), before=copy.deepcopy(before))
        )
        self._wake()
        return stored

    def _wake(self) -> None:
        moved, self._moved = self._moved, asyncio.Event()
        moved.set()

    def _record(self, verb: str, ref: ObjectRef, detail: str = "") -> None:
        self.calls.append(
            Call(
                verb=verb,
                api_version=ref.api_version,
                kind=ref.kind,
                namespace=ref.namespace,
                name=ref.name,
                detail=detail,
            )
        )
        if self._failures[verb]:
            raise self._failures[verb].popleft()

    def _served(self, api_version: str, kind: str) -> ResourceInfo:
        info = self._resources.get((api_version, kind.lower()))
        if info is None:
            raise PermanentError(
                Reason.API_REJECTED, f"{api_version} {kind} is not served", hint="install its CRD", actor=Actor.ADMIN
            )
        return info

    def _ref_of(self, obj: Object) -> ObjectRef:
        info = self._served(obj["apiVersion"], obj["kind"])
        namespace = obj["metadata"].get("namespace", "") if info.namespaced else ""
        if info.namespaced and not namespace:
            raise _refused(f"{obj['kind']}/{obj['metadata'].get('name')}: a namespace is required")
        return ObjectRef(
            api_version=info.api_version, kind=info.kind, namespace=namespace, name=obj["metadata"]["name"]
        )

    def _conflict(self, ref: ObjectRef, before: Object, metadata: dict[str, Any], *names: str) -> None:
        for name in names:
            wanted = metadata.get(name)
            if wanted and wanted != before["metadata"][name]:
                raise TransientError(Reason.API_CONFLICT, f"{ref}: {name} is {before['metadata'][name]}, not {wanted}")

    def _patchable(self, ref: ObjectRef, before: Object, metadata: dict[str, Any], subresource: str) -> None:
        """A patch may not change the uid; that of a custom resource's status is not even looked at by the server."""
        self._conflict(ref, before, metadata, "resourceVersion")
        custom = all((ref.api_version, ref.kind) != known[:2] for known in _BUILT_IN_KINDS)
        ignored = custom and subresource == "status"
        if not ignored and metadata.get("uid", before["metadata"]["uid"]) != before["metadata"]["uid"]:
            raise _refused(f"{ref}: metadata.uid is immutable")


def _refused(message: str) -> PermanentError:
    return PermanentError(Reason.API_REJECTED, message)


def _system(obj: Object) -> dict[str, Any]:
    names = ("uid", "creationTimestamp", "generation", "deletionTimestamp", "resourceVersion")
    return {name: obj["metadata"][name] for name in names if name in obj["metadata"]}


def _content(obj: Object) -> Object:
    return {key: value for key, value in obj.items() if key not in ("metadata", "status")}


def _written(before: Object, after: Object, subresource: str) -> Object:
    """Return what a write of ``after`` changes: the status and nothing else, or everything else."""
    if subresource == "status":
        return {**copy.deepcopy(before), "status": after.get("status", {})}
    kept = {key: value for key, value in after.items() if key != "status"}
    if "status" in before:
        kept["status"] = copy.deepcopy(before["status"])
    kept["metadata"] = {**after["metadata"], **_system(before)}
    return kept


def _encoded(obj: Object) -> Object:
    if obj["kind"] != "Secret" or "stringData" not in obj:
        return obj
    plain = {key: base64.b64encode(text.encode()).decode() for key, text in obj["stringData"].items()}
    rest = {key: value for key, value in obj.items() if key != "stringData"}
    return {**rest, "data": {**obj.get("data", {}), **plain}}


def _merge_patch(target: Any, patch: Any) -> Any:
    """RFC 7396."""
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    merged = copy.deepcopy(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = _merge_patch(merged.get(key), value)
    return merged


def _view(obj: Object, *, metadata_only: bool) -> Object:
    if not metadata_only:
        return copy.deepcopy(obj)
    return {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "metadata": copy.deepcopy(obj["metadata"])}


def _event(
    change: _Change, kind: tuple[str, str], selectors: tuple[str, str, str]
) -> Literal["ADDED", "MODIFIED", "DELETED"] | None:
    """Return what a watcher with these selectors sees; moving out of a selector is a deletion, into it an addition."""
    if (change.object["apiVersion"], change.object["kind"]) != kind:
        return None
    was = change.before is not None and _selected(change.before, *selectors)
    now = change.type != "DELETED" and _selected(change.object, *selectors)
    match was, now:
        case False, True:
            return "ADDED"
        case True, True:
            return "MODIFIED"
        case True, False:
            return "DELETED"
        case _:
            return None


def _selected(obj: Object, namespace: str, label_selector: str, field_selector: str) -> bool:
    metadata = obj["metadata"]
    if namespace and metadata.get("namespace", "") != namespace:
        return False
    labels = metadata.get("labels") or {}
    return all(_label_matches(labels, term) for term in _terms(label_selector)) and all(
        _field_matches(obj, term) for term in _terms(field_selector)
    )


def _terms(selector: str) -> list[str]:
    return [term.strip() for term in selector.split(",") if term.strip()]


def _label_matches(labels: dict[str, str], term: str) -> bool:
    """Equality and existence: ``a=b``, ``a==b``, ``a!=b``, ``a``, ``!a``."""
    if "!=" in term:
        name, value = term.split("!=", 1)
        return labels.get(name) != value
    if "=" in term:
        name, value = term.replace("==", "=").split("=", 1)
        return labels.get(name) == value
    return term[1:] not in labels if term.startswith("!") else term in labels


def _field_matches(obj: Object, term: str) -> bool:
    negated = "!=" in term
    path, value = term.split("!=" if negated else "=", 1)
    node: Any = obj
    for part in path.split("."):
        node = node.get(part, "") if isinstance(node, dict) else ""
    return (str(node) != value) if negated else (str(node) == value)
