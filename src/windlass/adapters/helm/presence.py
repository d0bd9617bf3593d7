"""Which objects of a release the cluster has, and whose they are."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from windlass.domain.errors import PermanentError, Reason
from windlass.ports.helm import ReleaseRef
from windlass.ports.kube import Kube, Object, ObjectRef

_LIST_FROM: Final = 6
"""From so many objects of one kind in one namespace on, one list of metadata is cheaper than single reads."""

MANAGED: Final = "app.kubernetes.io/managed-by=Helm"  # Helm puts this label on every object of a release
_NAME: Final = "meta.helm.sh/release-name"
_NAMESPACE: Final = "meta.helm.sh/release-namespace"


async def absent(refs: Sequence[ObjectRef], kube: Kube) -> tuple[ObjectRef, ...]:
    """Return those of ``refs`` that do not exist, in their order; a kind that is not served has no objects."""
    groups: defaultdict[tuple[str, str, str], list[ObjectRef]] = defaultdict(list)
    for ref in refs:
        groups[ref.api_version, ref.kind, ref.namespace].append(ref)
    found: set[ObjectRef] = set()
    for group in groups.values():
        found |= await (_listed(group, kube) if len(group) >= _LIST_FROM else _read(group, kube))
    return tuple(ref for ref in refs if ref not in found)


async def _read(refs: Sequence[ObjectRef], kube: Kube) -> set[ObjectRef]:
    objects = await asyncio.gather(*(kube.get(ref) for ref in refs))
    return {ref for ref, obj in zip(refs, objects, strict=True) if obj is not None}


async def _listed(refs: Sequence[ObjectRef], kube: Kube) -> set[ObjectRef]:
    first = refs[0]
    if await kube.resource(first.api_version, first.kind) is None:
        return set()
    listed = await kube.list(
        first.api_version, first.kind, namespace=first.namespace, label_selector=MANAGED, metadata_only=True
    )
    names = {item["metadata"]["name"] for item in listed.items}
    found = {ref for ref in refs if ref.name in names}
    # Somebody may have taken the label off; only what is really gone may count as absent.
    return found | await _read([ref for ref in refs if ref not in found], kube)


async def delete_leftovers(refs: Iterable[ObjectRef], release: ReleaseRef, kube: Kube) -> tuple[ObjectRef, ...]:
    """Delete those of ``refs`` that still belong to the release by Helm's marks; return what was deleted.

    What we may not read or delete is left alone: records name what a chart asked for, allowed or not.
    """
    deleted: list[ObjectRef] = []
    for ref in refs:
        try:
            obj = await kube.get(ref)
            if obj is not None and _owned(obj, release) and await kube.delete(ref, uid=obj["metadata"]["uid"]):
                deleted.append(ref)
        except PermanentError as error:
            if error.reason is not Reason.FORBIDDEN:
                raise
    return tuple(deleted)


def marked(obj: Object, release: ReleaseRef) -> Object:
    """Return ``obj`` with the label and the annotations that Helm puts on every object of a release."""
    metadata: Mapping[str, Any] = obj["metadata"]
    label, _, value = MANAGED.partition("=")
    labels: Mapping[str, Any] = metadata.get("labels") or {}
    annotations: Mapping[str, Any] = metadata.get("annotations") or {}
    marks = {_NAME: release.name, _NAMESPACE: release.namespace}
    both = {"labels": {**labels, label: value}, "annotations": {**annotations, **marks}}
    return {**obj, "metadata": {**metadata, **both}}


def _owned(obj: Object, release: ReleaseRef) -> bool:
    annotations: Mapping[str, Any] = obj["metadata"].get("annotations") or {}
    return annotations.get(_NAME) == release.name and annotations.get(_NAMESPACE) == release.namespace
