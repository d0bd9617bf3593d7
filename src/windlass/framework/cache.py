"""What an informer knows of the cluster, and what news it makes of what it is told."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

from windlass.framework.errors import InvalidEventError
from windlass.framework.events import Delete, Event, Failure, Update
from windlass.framework.objects import object_key, uid, under_deletion
from windlass.ports.kube import Object, WatchEvent
from windlass.ports.operators import Complete


class ObjectCache:
    """The objects of one kind by ``namespace/name``, in the state they were last seen in."""

    def __init__(self) -> None:
        self._objects: dict[str, Object] = {}

    def __len__(self) -> int:
        return len(self._objects)

    def keys(self) -> list[str]:
        """Return the keys of all objects."""
        return list(self._objects)

    def release(self, key: str) -> Event | None:
        """Return an object once more: a `Delete` when it is under deletion; None when it has gone meanwhile."""
        obj = self._objects.get(key)
        return None if obj is None else _side(obj)

    def replace(self, complete: Complete) -> Iterator[Event]:
        """Take over a complete list; yield what it changes.

        What is not in it, or is there with another uid, was deleted while nobody looked, and comes in the last state it
        was seen in; what has the resource version it was seen in before does not come.
        """
        before, self._objects = self._objects, {}
        for obj in complete.items:
            self._objects[object_key(obj)] = _slim(obj)
        for key, known in before.items():
            if (now := self._objects.get(key)) is None or uid(now) != uid(known):
                yield Delete(known)
        for key, obj in self._objects.items():
            known = before.get(key)
            if known is None or uid(known) != uid(obj) or _version(known) != _version(obj):
                yield _side(obj)

    def apply(self, event: WatchEvent) -> Iterator[Event]:
        """Take over one change; yield what comes of it.

        An object that was deleted and made anew while the watch showed only the new one is a deletion and an update.
        """
        if event.type == "BOOKMARK":
            return
        obj, key = _slim(event.object), object_key(event.object)
        known = self._objects.get(key)
        match event.type:
            case "DELETED":
                self._objects.pop(key, None)
                yield Delete(obj)
            case "ADDED" | "MODIFIED":
                self._objects[key] = obj
                if known is not None and uid(known) != uid(obj):
                    yield Delete(known)
                if event.type == "MODIFIED" or known is None or _version(known) != _version(obj):
                    yield _side(obj)
            case _:  # pyright: ignore[reportUnnecessaryComparison] - feeds of others may bring other types
                yield Failure(InvalidEventError(f"a watch brought an event of type {event.type!r}"))


def _side(obj: Object) -> Update | Delete:
    return Delete(obj) if under_deletion(obj) else Update(obj)


def _slim(obj: Object) -> Object:
    """Leave out who manages which field: half of an object's size, and nothing a reconciliation reads."""
    if not isinstance(metadata := obj.get("metadata"), dict) or "managedFields" not in metadata:
        return obj
    rest = {key: value for key, value in cast("dict[str, Any]", metadata).items() if key != "managedFields"}
    return {**obj, "metadata": rest}


def _version(obj: Object) -> str:
    return str(obj["metadata"].get("resourceVersion") or "")
