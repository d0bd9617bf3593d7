"""Informers: each follows the objects of one selection and tells its listeners what happens, in order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final, Protocol

import structlog

from windlass.adapters.kube.following.reflector import Listed, ListedEvent, list_and_watch
from windlass.domain.errors import WindlassError
from windlass.domain.hooks.bindings import Selection
from windlass.domain.hooks.events import object_key, told_object
from windlass.observers.border import Make
from windlass.ports.kube import ListWatch, Object

RETRY_MAX: Final = 10.0
"""Seconds between tries of a watch that fails, at most: rights may be granted, kinds may be installed."""

_log = structlog.stdlib.get_logger(__name__)

type Spawn = Callable[[str, Make], asyncio.Task[None]]
"""Begins work of the package behind its border: `windlass.observers.border.Border.spawn` without the key."""


@dataclass(frozen=True, kw_only=True)
class Delta:
    """One object as it now is; ``gone`` says that it is deleted or selected no more, and is as it was last seen."""

    key: str
    object: Object
    gone: bool = False


class Listener(Protocol):
    """Whoever follows an informer. Calls come in order and do not block."""

    def heard(self, delta: Delta) -> None:
        """Take one change."""
        ...

    def complete(self) -> None:
        """Take note that everything which exists has been told."""
        ...

    def failing(self, error: WindlassError | None) -> None:
        """Take note that the watch fails, or (None) that it works again."""
        ...


class Informer:
    """Follows one selection; objects are kept without ``managedFields``.

    After a fault it lists anew and tells everything again: some listener may have missed something. A listener that
    fails keeps nothing from the others.
    """

    def __init__(self, kube: ListWatch, selection: Selection, spawn: Spawn) -> None:
        self.selection = selection
        self._kube = kube
        self._objects: dict[str, Object] = {}
        self._listeners: list[Listener] = []
        self._listed = False
        self._error: WindlassError | None = None
        self._missed = False
        self._task = spawn("informer", self._run)

    @property
    def listeners(self) -> int:
        """How many follow."""
        return len(self._listeners)

    def attach(self, listener: Listener) -> None:
        """Tell ``listener`` of everything that is known, and of every change from now on."""
        self._listeners.append(listener)
        for key, obj in self._objects.items():
            listener.heard(Delta(key=key, object=obj))
        if self._listed:
            listener.complete()
        if self._error is not None:
            listener.failing(self._error)

    def detach(self, listener: Listener) -> None:
        """Tell ``listener`` that every object is gone, and nothing from now on."""
        self._listeners.remove(listener)
        for key, obj in self._objects.items():
            listener.heard(Delta(key=key, object=obj, gone=True))

    async def close(self) -> None:
        """Stop following."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        selection = self.selection
        stream = list_and_watch(
            self._kube,
            selection.api_version,
            selection.kind,
            namespace=selection.namespace,
            label_selector=selection.label_selector,
            field_selector=selection.field_selector,
            on_error=self._failing,
            backoff_max=RETRY_MAX,
        )
        try:
            async with aclosing(stream):
                await self._follow(stream)
        except Exception:
            self._missed = True
            raise

    async def _follow(self, stream: AsyncGenerator[ListedEvent]) -> None:
        async for event in stream:
            self._working()
            if isinstance(event, Listed):
                self._replace({object_key(item): told_object(item) for item in event.items})
            elif event.type != "BOOKMARK":
                gone = event.type == "DELETED"
                self._change(object_key(event.object), told_object(event.object), gone=gone)

    def _replace(self, objects: dict[str, Object]) -> None:
        for key in sorted(self._objects.keys() - objects.keys()):
            self._change(key, self._objects[key], gone=True)
        for key, obj in objects.items():
            known = self._objects.get(key)
            newer = known is None or known["metadata"]["resourceVersion"] != obj["metadata"]["resourceVersion"]
            if newer or self._missed:
                self._change(key, obj, gone=False)
        self._missed = False
        if not self._listed:
            self._listed = True
            self._tell(lambda listener: listener.complete())

    def _change(self, key: str, obj: Object, *, gone: bool) -> None:
        if gone:
            self._objects.pop(key, None)
        else:
            self._objects[key] = obj
        delta = Delta(key=key, object=obj, gone=gone)
        self._tell(lambda listener: listener.heard(delta))

    def _failing(self, error: WindlassError) -> None:
        _log.warning("hook watch interrupted", objects=str(self.selection), reason=error.reason.value, error=str(error))
        self._error = error
        self._tell(lambda listener: listener.failing(error))

    def _working(self) -> None:
        if self._error is not None:
            self._error = None
            self._tell(lambda listener: listener.failing(None))

    def _tell(self, say: Callable[[Listener], None]) -> None:
        failures: list[Exception] = []
        for listener in list(self._listeners):
            try:
                say(listener)
            except Exception as error:  # noqa: BLE001 - the others are told all the same; raised below
                failures.append(error)
        if failures:
            raise ExceptionGroup("listeners have failed", failures)


class Informers:
    """The informers of one package, shared by its bindings; one ends with its last listener."""

    def __init__(self, kube: ListWatch, spawn: Spawn) -> None:
        self._kube = kube
        self._spawn = spawn
        self._informers: dict[Selection, Informer] = {}
        self._ending: set[asyncio.Task[None]] = set()

    def follow(self, selection: Selection, listener: Listener) -> None:
        """Tell ``listener`` of the objects of ``selection``."""
        informer = self._informers.get(selection)
        if informer is None:
            informer = self._informers[selection] = Informer(self._kube, selection, self._spawn)
        informer.attach(listener)

    def leave(self, selection: Selection, listener: Listener) -> None:
        """Tell ``listener`` that the objects of ``selection`` are gone, and nothing more."""
        informer = self._informers[selection]
        informer.detach(listener)
        if informer.listeners == 0:
            del self._informers[selection]
            task = self._spawn("informer", informer.close)
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)

    async def close(self) -> None:
        """Stop all of them."""
        informers, self._informers = list(self._informers.values()), {}
        await asyncio.gather(*(informer.close() for informer in informers), *self._ending)
