"""What the framework reads of the objects it hands on; anything may come, also what has no metadata."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast


def metadata(obj: Any) -> Mapping[str, Any] | None:
    """Return the object's metadata, None if it has none."""
    if not isinstance(obj, Mapping):
        return None
    found = cast("Mapping[str, Any]", obj).get("metadata")
    return cast("Mapping[str, Any]", found) if isinstance(found, Mapping) else None


def object_key(obj: Any) -> str:
    """Return ``namespace/name``, ``name`` for cluster-scoped objects, and empty text without metadata."""
    found = metadata(obj) or {}
    namespace, name = str(found.get("namespace") or ""), str(found.get("name") or "")
    return f"{namespace}/{name}" if namespace else name


def uid(obj: Any) -> str:
    """Return the object's identity, empty if it has none."""
    return str((metadata(obj) or {}).get("uid") or "")


def under_deletion(obj: Any) -> bool:
    """Say whether somebody asked for the object's deletion."""
    return bool((metadata(obj) or {}).get("deletionTimestamp"))


def self_link(obj: Any) -> str:
    """Return what names the object in logs, empty without metadata.

    API servers stopped sending ``metadata.selfLink`` with 1.20: without it this is ``Kind/namespace/name``.
    """
    found = metadata(obj)
    if found is None:
        return ""
    kind = str(cast("Mapping[str, Any]", obj).get("kind") or "")
    return str(found.get("selfLink") or "/".join(part for part in (kind, object_key(obj)) if part))
