"""The objects that a rendered manifest names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from windlass.domain.text.documents import is_list, is_object, parse_manifest
from windlass.ports.kube import Kube, Object, ObjectRef

_KEEP: Final = ("helm.sh/resource-policy", "keep")


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One object as the manifest writes it; ``namespace`` may be empty. Helm never deletes a ``kept`` one."""

    api_version: str
    kind: str
    namespace: str
    name: str
    kept: bool = False


def parse(manifest: str) -> tuple[Entry, ...]:
    """Return the named objects of a manifest in its order; lists are taken apart, nameless objects left out.

    Raises:
        DocumentError: the text is not YAML, or larger than any that Helm can store.
    """
    return tuple(entry(obj) for obj in documents(manifest))


def documents(manifest: str) -> tuple[Object, ...]:
    """Return the named objects of a manifest, whole, in its order; lists are taken apart, nameless objects left out.

    Raises:
        DocumentError: as `parse`.
    """
    return tuple(obj for document in parse_manifest(manifest) for obj in _objects(document))


def _objects(document: Any) -> Iterator[Object]:
    if not is_object(document):
        return
    items = document.get("items")
    if _text(document.get("kind")).endswith("List") and is_list(items):
        for item in items:
            yield from _objects(item)
        return
    metadata = document.get("metadata")
    if not is_object(metadata) or not _text(document.get("kind")):
        return
    name = metadata.get("name")
    if name is not None and name != "":
        yield {**document, "metadata": {**metadata, "name": str(name)}}


def entry(obj: Object) -> Entry:
    """Return the entry of one whole object."""
    metadata = _mapping(obj.get("metadata"))
    key, value = _KEEP
    return Entry(
        api_version=_text(obj.get("apiVersion")),
        kind=_text(obj.get("kind")),
        namespace=_text(metadata.get("namespace")),
        name=_text(metadata.get("name")),
        kept=_text(_mapping(metadata.get("annotations")).get(key)).strip().lower() == value,
    )


def placed(obj: Object, ref: ObjectRef) -> Object:
    """Return ``obj`` with the namespace it lives in."""
    metadata = {name: value for name, value in obj["metadata"].items() if name != "namespace"}
    where = {"namespace": ref.namespace} if ref.namespace else {}
    return {**obj, "metadata": {**metadata, **where}}


def _mapping(value: Any) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


async def locate(entries: Iterable[Entry], namespace: str, kube: Kube) -> tuple[ObjectRef, ...]:
    """Return references with the namespace each object really lives in.

    Objects without a namespace live in that of the release, unless their kind is cluster-scoped. A kind that is not
    served counts as namespaced.
    """
    scopes: dict[tuple[str, str], bool] = {}
    refs: list[ObjectRef] = []
    for entry in entries:
        key = (entry.api_version, entry.kind)
        if key not in scopes:
            resource = await kube.resource(*key)
            scopes[key] = resource is None or resource.namespaced
        where = (entry.namespace or namespace) if scopes[key] else ""
        refs.append(ObjectRef(api_version=entry.api_version, kind=entry.kind, namespace=where, name=entry.name))
    return tuple(refs)
