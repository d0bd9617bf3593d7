"""What hooks are told of objects: when an object counts as changed, and how news and snapshots look in a context.

Shapes are those of the protocol (reference: hooks.md section 3).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from windlass.domain.digests import canonical_json
from windlass.domain.hooks.bindings import Change, KubernetesBinding
from windlass.domain.hooks.mailbox import Item

type Snapshots = Mapping[str, Sequence[Mapping[str, Any]]]
"""Objects by the name of their binding."""

_CHECKSUM_DIGITS: Final = 16  # 64 bits: two states of one object meet by chance once in centuries of changes
_UNTOLD: Final = "managedFields"  # often the larger half of an object, and of no use to a hook


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One object as a binding sees it; ``checksum`` is of the filter's result, without filter of the whole object."""

    key: str
    checksum: str
    told: dict[str, Any]


def object_key(obj: Mapping[str, Any]) -> str:
    """Return ``namespace/name``; for objects of the cluster ``/name``."""
    metadata = obj["metadata"]
    return f"{metadata.get('namespace') or ''}/{metadata['name']}"


def told_object(obj: Mapping[str, Any]) -> dict[str, Any]:
    """Return an object as filters and hooks see it: without ``managedFields``."""
    return {**obj, "metadata": {key: value for key, value in obj["metadata"].items() if key != _UNTOLD}}


def entry_of(binding: KubernetesBinding, obj: dict[str, Any], results: Sequence[Any] | None) -> Entry:
    """Return what ``binding`` knows of an object.

    Args:
        binding: whose filter and wishes hold.
        obj: as `told_object` gives it.
        results: of the filter, None if the binding has none.
    """
    told: dict[str, Any] = {"object": obj} if binding.keep_objects else {}
    if results is None:
        return Entry(key=object_key(obj), checksum=_checksum(obj), told=told)
    result = filter_result(results)
    return Entry(key=object_key(obj), checksum=_checksum(result), told=told | {"filterResult": result})


def gone_entry(binding: KubernetesBinding, key: str) -> Entry:
    """Return what can be told of an object that was deleted while nobody looked: its kind and its name."""
    namespace, _, name = key.partition("/")
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    told: dict[str, Any] = {"object": {"kind": binding.kind, "metadata": metadata}} if binding.keep_objects else {}
    if binding.jq_filter:
        told["filterResult"] = None
    return Entry(key=key, checksum="", told=told)


def filter_result(results: Sequence[Any]) -> Any:
    """Return what ``filterResult`` holds: nothing is null, one result itself, several are a list."""
    if not results:
        return None
    return results[0] if len(results) == 1 else list(results)


def changed(known: str | None, checksum: str) -> Change | None:
    """Say what has happened to an object that exists; None if nothing that counts."""
    if known is None:
        return Change.ADDED
    return None if known == checksum else Change.MODIFIED


def differences(known: Mapping[str, str], now: Mapping[str, str]) -> list[tuple[Change, str]]:
    """Return what happened between two states, by key: deletions first, then the rest in order of keys."""
    found = [(Change.DELETED, key) for key in sorted(known.keys() - now.keys())]
    for key in sorted(now):
        change = changed(known.get(key), now[key])
        if change is not None:
            found.append((change, key))
    return found


def event_context(
    items: Iterable[Item],
    bindings: Mapping[str, KubernetesBinding],
    objects: Mapping[str, Sequence[Mapping[str, Any]]],
    snapshots: Snapshots,
) -> list[dict[str, Any]]:
    """Return the content of ``BINDING_CONTEXT_PATH`` for one run.

    Args:
        items: what is told, in order.
        bindings: of the items, by id.
        objects: what exists now for each binding whose Synchronization is told, by id.
        snapshots: of all bindings that are named, by their names.
    """
    return [_told(item, bindings[item.binding], objects.get(item.binding, ()), snapshots) for item in items]


def sorted_entries(entries: Iterable[Entry]) -> list[dict[str, Any]]:
    """Return entries as snapshots show them: by namespace, then by name."""
    return [entry.told for entry in sorted(entries, key=lambda entry: entry.key.split("/"))]


def _told(
    item: Item, binding: KubernetesBinding, objects: Sequence[Mapping[str, Any]], snapshots: Snapshots
) -> dict[str, Any]:
    named = {"snapshots": {name: snapshots.get(name, []) for name in binding.snapshots_from}}
    extra = named if binding.snapshots_from else {}
    if binding.group:
        return {"binding": binding.name, "type": "Group", "groupName": binding.group, **named}
    if item.change is None:
        return {"binding": binding.name, "type": "Synchronization", "objects": list(objects), **extra}
    told = item.told or {}
    return {"binding": binding.name, "type": "Event", "watchEvent": item.change.value, **told, **extra}


def _checksum(value: Any) -> str:
    return hashlib.sha256(canonical_json(value)).hexdigest()[:_CHECKSUM_DIGITS]
