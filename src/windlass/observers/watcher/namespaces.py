"""Labels of namespaces, for repositories that select the namespaces they serve by them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import structlog

from windlass.adapters.kube.following.reflector import Listed, list_and_watch
from windlass.domain.errors import WindlassError
from windlass.ports.kube import Kube, Object, ObjectRef

_log = structlog.stdlib.get_logger(__name__)


class NamespaceLabels:
    """Watches the metadata of namespaces, from the first question on: most installations never ask.

    Args:
        kube: the watcher's client.
        on_changed: awaited with a namespace whose labels have changed.
    """

    def __init__(self, kube: Kube, on_changed: Callable[[str], Awaitable[None]]) -> None:
        self._kube = kube
        self._on_changed = on_changed
        self._asked = asyncio.Event()
        self._labels: dict[str, dict[str, str]] | None = None

    async def get(self, ref: ObjectRef) -> Object | None:
        """Return a namespace with its labels, None if there is none of that name."""
        self._asked.set()
        if self._labels is None:
            return await self._kube.get(ref)
        labels = self._labels.get(ref.name)
        return {"metadata": {"name": ref.name, "labels": labels}} if labels is not None else None

    async def run(self) -> None:
        """Watch until cancelled."""
        await self._asked.wait()
        async for event in self._stream():
            if isinstance(event, Listed):
                await self._take_list(event.items)
            elif event.type != "BOOKMARK" and self._labels is not None:
                name: str = event.object["metadata"]["name"]
                await self._take(name, None if event.type == "DELETED" else _labels(event.object))

    async def _take_list(self, items: list[Object]) -> None:
        listed = {item["metadata"]["name"]: _labels(item) for item in items}
        if self._labels is None:
            self._labels = dict(listed)
            for name in sorted(listed):
                await self._on_changed(name)  # what was asked for before the list is compared once more
            return
        for name in sorted(self._labels.keys() | listed.keys()):
            await self._take(name, listed.get(name))

    async def _take(self, name: str, labels: dict[str, str] | None) -> None:
        known = self._labels
        if known is None or known.get(name) == labels:
            return
        if labels is None:
            del known[name]
        else:
            known[name] = labels
        await self._on_changed(name)

    async def _stream(self) -> AsyncIterator[Any]:
        def told(error: WindlassError) -> None:
            _log.warning("watch interrupted", kind="Namespace", reason=error.reason.value, error=str(error))

        async for event in list_and_watch(self._kube, "v1", "Namespace", metadata_only=True, on_error=told):
            yield event


def _labels(obj: Object) -> dict[str, str]:
    return obj["metadata"].get("labels") or {}
