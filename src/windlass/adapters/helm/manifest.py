"""The objects that a rendered manifest names."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

import yaml

from windlass.ports.kube import Kube, Object, ObjectRef

_KEEP: Final = ("helm.sh/resource-policy", "keep")
# Every scalar stays text: a name written as `123` is the name "123", and YAML 1.1 oddities such as a bare `=` pass.
_Loader: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)


class _TypedLoader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc] - the C loader where there is one
    """Reads values as Helm does, except that dates stay the texts they are."""


_TypedLoader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith((":timestamp", ":value"))]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


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
        yaml.YAMLError: the text is not YAML; Helm itself never stores such a manifest.
    """
    documents: Iterator[Any] = yaml.load_all(manifest, Loader=_Loader)
    return tuple(entry for document in documents for entry in _entries(document))


def documents(manifest: str) -> tuple[Object, ...]:
    """Return the named objects of a manifest, whole, in its order; lists are taken apart, nameless objects left out.

    Raises:
        yaml.YAMLError: the text is not YAML.
    """
    loaded: Iterator[Any] = yaml.load_all(manifest, Loader=_TypedLoader)
    return tuple(obj for document in loaded for obj in _objects(document))


def _objects(document: Any) -> Iterator[Object]:
    if not isinstance(document, dict):
        return
    # As JSON: keys become text, as Kubernetes makes them.
    obj = cast("Object", json.loads(json.dumps(document, default=str)))
    items = obj.get("items")
    if _text(obj.get("kind")).endswith("List") and isinstance(items, list):
        for item in cast("list[Any]", items):
            yield from _objects(item)
        return
    metadata = obj.get("metadata")
    if not isinstance(metadata, dict) or not obj.get("kind"):
        return
    name = cast("Object", metadata).get("name")
    if name is not None:
        obj["metadata"] = {**metadata, "name": str(name)}
        yield obj


def entry(obj: Object) -> Entry:
    """Return the entry of one whole object."""
    return next(_entries(obj))


def placed(obj: Object, ref: ObjectRef) -> Object:
    """Return ``obj`` with the namespace it lives in."""
    metadata = {name: value for name, value in obj["metadata"].items() if name != "namespace"}
    where = {"namespace": ref.namespace} if ref.namespace else {}
    return {**obj, "metadata": {**metadata, **where}}


def _entries(document: Any) -> Iterator[Entry]:
    if not isinstance(document, Mapping):
        return
    fields = cast("Mapping[str, Any]", document)
    kind = _text(fields.get("kind"))
    items = fields.get("items")
    if kind.endswith("List") and isinstance(items, list):
        for item in cast("list[Any]", items):
            yield from _entries(item)
        return
    metadata = _mapping(fields.get("metadata"))
    name = _text(metadata.get("name"))
    if kind and name:
        key, value = _KEEP
        yield Entry(
            api_version=_text(fields.get("apiVersion")),
            kind=kind,
            namespace=_text(metadata.get("namespace")),
            name=name,
            kept=_text(_mapping(metadata.get("annotations")).get(key)).strip().lower() == value,
        )


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
