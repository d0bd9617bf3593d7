"""Watches over the metadata of everything that Helm manages, one for each kind, shared by all packages."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial

import structlog

from windlass.adapters.helm.presence import MANAGED
from windlass.adapters.kube.following.reflector import Listed, list_and_watch
from windlass.domain.errors import WindlassError
from windlass.observers.border import Border
from windlass.observers.drift.owners import KindOf, Owners, kind_of
from windlass.observers.drift.pacing import paced
from windlass.ports.kube import Kube, Object, ObjectRef

_log = structlog.stdlib.get_logger(__name__)


@dataclass
class _Watch:
    """One kind: whether it has been listed, and by what the states of an object are told apart."""

    task: asyncio.Task[None]
    listed: bool = False
    marks: dict[ObjectRef, str] = field(default_factory=dict[ObjectRef, str])


class MetadataWatches:
    """Reports what is gone and what may have changed; says nothing of what is in an object.

    Only objects that a package has are remembered: a cluster may hold many times as many.

    Args:
        kube: the client.
        border: runs the watches.
        owners: say which objects matter.
        on_gone: called with an object that was deleted, or that Helm's label was taken off.
        on_changed: called with an object that may have changed in more than its status.
    """

    def __init__(
        self,
        kube: Kube,
        border: Border,
        owners: Owners,
        *,
        on_gone: Callable[[ObjectRef], None],
        on_changed: Callable[[ObjectRef], None],
    ) -> None:
        self._kube = kube
        self._border = border
        self._owners = owners
        self._on_gone = on_gone
        self._on_changed = on_changed
        self._watches: dict[KindOf, _Watch] = {}

    @property
    def kinds(self) -> frozenset[KindOf]:
        """What is being watched."""
        return frozenset(self._watches)

    def follow(self, kinds: Iterable[KindOf]) -> None:
        """Watch these kinds too.

        Nobody waits for a first list, which a kind that is not served, or may not be listed, never has. What changes
        between a comparison and that list is noticed by the mark that the comparison left (`read`).
        """
        for kind in sorted(set(kinds) - self._watches.keys()):
            self._watches[kind] = _Watch(task=self._border.spawn_shared("drift-watch", partial(self._run, kind)))

    def forget(self, refs: Iterable[ObjectRef]) -> None:
        """Forget objects that no package has any more, and stop watching kinds that no package has objects of."""
        for ref in refs:
            kind = kind_of(ref)
            watch = self._watches.get(kind)
            if watch is None:
                continue
            watch.marks.pop(ref, None)
            if not self._owners.uses(kind):
                self._watches.pop(kind).task.cancel()

    async def close(self) -> None:
        """Stop watching."""
        tasks = [watch.task for watch in self._watches.values()]
        self._watches.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def read(self, ref: ObjectRef, obj: Object) -> None:
        """Take note of the state in which an object was read, unless the watch has told of one."""
        watch = self._watches.get(kind_of(ref))
        if watch is not None and ref in self._owners:
            watch.marks.setdefault(ref, _mark(obj))

    def mark(self, ref: ObjectRef) -> str:
        """Return what tells this state of an object from others, empty if it is not there."""
        watch = self._watches.get(kind_of(ref))
        return watch.marks.get(ref, "") if watch else ""

    async def _run(self, kind: KindOf) -> None:
        def told(error: WindlassError) -> None:
            _log.warning("watch interrupted", kind=kind[1], reason=error.reason.value, error=str(error))

        stream = list_and_watch(self._kube, *kind, label_selector=MANAGED, metadata_only=True, on_error=told)
        async for event in stream:
            watch = self._watches[kind]
            if isinstance(event, Listed):
                await self._take_list(kind, watch, event.items)
            elif event.type == "DELETED":
                ref = _ref(kind, event.object)
                watch.marks.pop(ref, None)
                if ref in self._owners:
                    self._on_gone(ref)
            elif event.type != "BOOKMARK":
                self._take(watch, _ref(kind, event.object), event.object)

    async def _take_list(self, kind: KindOf, watch: _Watch, items: list[Object]) -> None:
        missing = self._owners.objects(kind)
        async for item in paced(items):
            ref = _ref(kind, item)
            missing.discard(ref)
            self._take(watch, ref, item)
        watch.listed = True
        async for ref in paced(missing):
            watch.marks.pop(ref, None)
            self._on_gone(ref)

    def _take(self, watch: _Watch, ref: ObjectRef, obj: Object) -> None:
        if ref not in self._owners:
            return
        mark = _mark(obj)
        before = watch.marks.get(ref)
        watch.marks[ref] = mark
        # An object without a mark has not been compared yet, or has been made again.
        if before != mark and (before is not None or watch.listed):
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
