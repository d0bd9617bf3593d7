"""A picture of named objects that a watch keeps up to date: what a wait looks at."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Final

from windlass.adapters.kube.following.reflector import Listed, list_and_watch
from windlass.domain.lifecycle.readiness import exists_only
from windlass.ports.kube import Kube, Object, ObjectRef

_BACKOFF_MAX: Final = 5.0  # somebody waits: a kind whose CRD has just come must not cost half a minute


@dataclass(kw_only=True)
class Group:
    """The awaited objects of one kind in one namespace, by name: one list and at most one watch for all of them."""

    api_version: str
    kind: str
    namespace: str
    refs: dict[str, ObjectRef]
    metadata_only: bool
    objects: dict[ObjectRef, Object] = field(default_factory=dict[ObjectRef, Object])
    listed: Listed | None = None

    @property
    def complete(self) -> bool:
        """Whether every awaited object exists."""
        return len(self.objects) == len(self.refs)

    def selection(self) -> dict[str, Any]:
        """Return the selectors: a single object is asked for by name."""
        only = next(iter(self.refs)) if len(self.refs) == 1 else ""
        return {
            "namespace": self.namespace,
            "field_selector": f"metadata.name={only}" if only else "",
            "metadata_only": self.metadata_only,
        }

    def show(self, items: Iterable[Object]) -> None:
        """Replace all objects by those of a list."""
        self.objects.clear()
        for obj in items:
            self.put(obj)

    def put(self, obj: Object) -> None:
        """Add or replace one object, if it is awaited."""
        if (ref := self._ref(obj)) is not None:
            self.objects[ref] = obj

    def drop(self, obj: Object) -> None:
        """Take one object out."""
        if (ref := self._ref(obj)) is not None:
            self.objects.pop(ref, None)

    def _ref(self, obj: Object) -> ObjectRef | None:
        metadata = obj["metadata"]
        here = metadata.get("namespace", self.namespace) == self.namespace
        return self.refs.get(metadata["name"]) if here else None


class Picture:
    """The newest known state of some objects.

    Args:
        kube: lists and watches.
        refs: the objects; duplicates count once.
        metadata_only: leave spec and status out for all kinds (always done for kinds that are ready by existing).
    """

    def __init__(self, kube: Kube, refs: Sequence[ObjectRef], *, metadata_only: bool) -> None:
        self.refs = tuple(dict.fromkeys(refs))
        self._kube = kube
        groups: dict[tuple[str, str, str], Group] = {}
        for ref in self.refs:
            key = (ref.api_version, ref.kind, ref.namespace)
            group = groups.setdefault(
                key,
                Group(
                    api_version=ref.api_version,
                    kind=ref.kind,
                    namespace=ref.namespace,
                    refs={},
                    metadata_only=metadata_only or exists_only(ref.api_version, ref.kind),
                ),
            )
            group.refs[ref.name] = ref
        self.groups = tuple(groups.values())

    def get(self, ref: ObjectRef) -> Object | None:
        """Return the object as last seen, or None."""
        return next((found for group in self.groups if (found := group.objects.get(ref)) is not None), None)

    def loads(self) -> list[Coroutine[Any, Any, None]]:
        """Return one coroutine per group that lists it once; a kind that is not served has no objects."""
        return [self._load(group) for group in self.groups]

    def watches(self, changed: asyncio.Event) -> list[Coroutine[Any, Any, None]]:
        """Return one endless coroutine per group that follows it and sets ``changed``.

        A group of which existence is all that counts is left out once it is complete.
        """
        return [
            self._watch(group, changed)
            for group in self.groups
            if not (group.complete and exists_only(group.api_version, group.kind))
        ]

    async def _load(self, group: Group) -> None:
        if await self._kube.resource(group.api_version, group.kind) is None:
            return
        listed = await self._kube.list(group.api_version, group.kind, **group.selection())
        group.listed = Listed(items=[], resource_version=listed.resource_version)
        group.show(listed.items)

    async def _watch(self, group: Group, changed: asyncio.Event) -> None:
        stream = list_and_watch(
            self._kube,
            group.api_version,
            group.kind,
            **group.selection(),
            start=group.listed,
            backoff_max=_BACKOFF_MAX,
        )
        async with aclosing(stream):
            async for event in stream:
                if isinstance(event, Listed):
                    group.show(event.items)
                elif event.type == "DELETED":
                    group.drop(event.object)
                elif event.type != "BOOKMARK":
                    group.put(event.object)
                changed.set()
