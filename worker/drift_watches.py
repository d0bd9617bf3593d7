"""Watches over the metadata of everything that Helm manages, one for each kind, shared by all packages."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

import structlog

from windlass.adapters.helm.presence import MANAGED
from windlass.adapters.kube.reflector import Listed, list_and_watch
from windlass.domain.errors import WindlassError
from windlass.ports.kube import Kube, Object, ObjectRef

LISTED: Final = 10.0
"""Seconds to wait for a kind's first list; a kind that may not be listed holds nothing up."""

type KindOf = tuple[str, str]
"""API version and kind."""

_log = structlog.stdlib.get_logger(__name__)


@dataclass
class _Watch:
    """One kind: what is there, by what tells an object's states apart."""

    task: asyncio.Task[None]
    listed: asyncio.Event = field(default_factory=asyncio.Event)
    marks: dict[ObjectRef, str] = field(default_factory=dict[ObjectRef, str])


class MetadataWatches:
    """Tells what is gone and what may have changed; says nothing of what is in an object.

    Args:
        kube: the client.
        group: runs the watches.
        on_listed: called with a kind and all objects of it whenever they were listed.
        on_gone: called with an object that was deleted, or that Helm's label was taken off.
        on_changed: called with an object that may have changed in more than its status.
    """

    def __init__(
        self,
        kube: Kube,
        group: asyncio.TaskGroup,
        *,
        on_listed: Callable[[KindOf, frozenset[ObjectRef]], None],
        on_gone: Callable[[ObjectRef], None],
        on_changed: Callable[[ObjectRef], None],
    ) -> None:
        self._kube = kube
        self._group = group
        self._on_listed = on_listed
        self._on_gone = on_gone
        self._on_changed = on_changed
        self._watches: dict[KindOf, _Watch] = {}

    async def follow(self, kinds: Iterable[KindOf]) -> None:
        """Watch these kinds too; return when all have been listed."""
        wanted = set(kinds)
        for kind in sorted(wanted - self._watches.keys()):
            watch = _Watch(task=self._group.create_task(self._run(kind)))
            self._watches[kind] = watch
        waiting = [self._watches[kind].listed.wait() for kind in wanted]
        try:
            async with asyncio.timeout(LISTED):
                await asyncio.gather(*waiting)
        except TimeoutError:
            missing = [kind for kind in sorted(wanted) if not self._watches[kind].listed.is_set()]
            _log.warning("kinds not listed", kinds=[" ".join(kind) for kind in missing])

    def keep(self, kinds: Iterable[KindOf]) -> None:
        """Stop watching all other kinds."""
        for kind in self._watches.keys() - set(kinds):
            self._watches.pop(kind).task.cancel()

    def mark(self, ref: ObjectRef) -> str:
        """Return what tells this state of an object from others, empty if it is not there."""
        watch = self._watches.get((ref.api_version, ref.kind))
        return watch.marks.get(ref, "") if watch else ""

    async def _run(self, kind: KindOf) -> None:
        def told(error: WindlassError) -> None:
            _log.warning("watch interrupted", kind=kind[1], reason=error.reason.value, error=str(error))

        stream = list_and_watch(self._kube, *kind, label_selector=MANAGED, metadata_only=True, on_error=told)
        async for event in stream:
            watch = self._watches[kind]
            if isinstance(event, Listed):
                self._take_list(kind, watch, event.items)
            elif event.type == "DELETED":
                ref = _ref(kind, event.object)
                watch.marks.pop(ref, None)
                self._on_gone(ref)
            elif event.type != "BOOKMARK":
                self._take(watch, _ref(kind, event.object), event.object)

    def _take_list(self, kind: KindOf, watch: _Watch, items: list[Object]) -> None:
        found = {_ref(kind, item): item for item in items}
        for ref in watch.marks.keys() - found.keys():
            del watch.marks[ref]
        for ref, item in found.items():
            self._take(watch, ref, item)
        watch.listed.set()
        self._on_listed(kind, frozenset(found))

    def _take(self, watch: _Watch, ref: ObjectRef, obj: Object) -> None:
        mark = _mark(obj)
        before = watch.marks.get(ref)
        watch.marks[ref] = mark
        if before is not None and before != mark:
            self._on_changed(ref)


def _ref(kind: KindOf, obj: Object) -> ObjectRef:
    metadata = obj["metadata"]
    return ObjectRef(
        api_version=kind[0], kind=kind[1], namespace=metadata.get("namespace") or "", name=metadata["name"]
    )


def _mark(obj: Object) -> str:
    """Return what moves with every change but that of a status, as far as the API server tells.

    Kinds without a generation move with every write; labels and annotations move no generation.
    """
    metadata = obj["metadata"]
    version = metadata.get("generation") or metadata["resourceVersion"]
    told = json.dumps([version, metadata.get("uid"), metadata.get("labels"), metadata.get("annotations")])
    return hashlib.sha256(told.encode()).hexdigest()[:16]
