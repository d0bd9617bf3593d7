"""Operators in this process, over objects that the case puts into an informer's feed."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import structlog
from conformance.how import Action, Observed, ObservedController, ResourceSpec, SetSpec
from controllerruntime.memory import Controller, MemoryEntities
from prometheus_client import CollectorRegistry

from support.waiting import eventually
from windlass.controllerruntime import ControllerRuntime, Operation, Owner, owned
from windlass.framework import (
    CRUDResource,
    ExponentialBackOff,
    Framework,
    FrameworkMetrics,
    ObjectInformer,
    Patch,
    Resource,
    ResourceRouter,
    ResourceSet,
    wrap_with_retry,
)
from windlass.ports.kube import Object, WatchEvent
from windlass.ports.operators import Complete, FeedItem

LOGGER = structlog.get_logger()
WITHIN = 30.0
type Journal = dict[str, list[str]]


class Parts:
    """Does what a `ResourceSpec` says and writes down for which object."""

    def __init__(self, spec: ResourceSpec, journal: Journal) -> None:
        self.name = spec.name
        self._spec = spec
        self._journal = journal

    async def did(self, step: str, obj: Object) -> None:
        self._journal[obj["metadata"]["name"]].append(f"{self.name}.{step}")
        action: Action | None = self._spec.actions.get(step)
        if action is not None and (result := action()) is not None:
            await result

    def patch(self) -> Patch:
        patch = Patch()
        setters = {
            "create": patch.set_create_change,
            "delete": patch.set_delete_change,
            "update": patch.set_update_change,
        }
        for part, value in self._spec.parts.items():
            setters[part](value)
        return patch


class Plain(Parts):
    async def ensure_created(self, obj: Any) -> None:
        await self.did("ensure_created", obj)

    async def ensure_deleted(self, obj: Any) -> None:
        await self.did("ensure_deleted", obj)


class Ops(Parts):
    async def get_current_state(self, obj: Any) -> Any:
        await self.did("get_current_state", obj)

    async def get_desired_state(self, obj: Any) -> Any:
        await self.did("get_desired_state", obj)

    async def new_update_patch(self, obj: Any, current_state: Any, desired_state: Any) -> Patch:
        del current_state, desired_state
        await self.did("new_update_patch", obj)
        return self.patch()

    async def new_delete_patch(self, obj: Any, current_state: Any, desired_state: Any) -> Patch:
        del current_state, desired_state
        await self.did("new_delete_patch", obj)
        return self.patch()

    async def apply_create_change(self, obj: Any, create_change: Any) -> None:
        del create_change
        await self.did("apply_create_change", obj)

    async def apply_delete_change(self, obj: Any, delete_change: Any) -> None:
        del delete_change
        await self.did("apply_delete_change", obj)

    async def apply_update_change(self, obj: Any, update_change: Any) -> None:
        del update_change
        await self.did("apply_update_change", obj)


class InProcess:
    """A `HowToRun`: framework, informer and resources on this event loop."""

    @asynccontextmanager
    async def framework(self, sets: Sequence[SetSpec]) -> AsyncGenerator[Observed]:
        cluster, journal = Cluster(), defaultdict[str, list[str]](list)
        metrics = FrameworkMetrics(CollectorRegistry())
        framework = Framework(
            informer=ObjectInformer(feed=cluster, logger=LOGGER, metrics=metrics),
            logger=LOGGER,
            resource_router=ResourceRouter(logger=LOGGER, resource_sets=[_set(one, journal) for one in sets]),
            metrics=metrics,
        )
        task = asyncio.create_task(framework.boot())
        try:
            yield Running(cluster, journal, metrics)
        finally:
            task.cancel()
            await asyncio.wait({task})

    @asynccontextmanager
    async def controller(
        self, handle: Callable[[str], Awaitable[None]], *, threadiness: int = 4
    ) -> AsyncGenerator[ObservedController]:
        primary, secondary = MemoryEntities("primaries"), MemoryEntities("secondaries")
        runtime = ControllerRuntime("conformance", "Widget", primary, secondaries=[secondary], resync=3600)
        controller = Controller(runtime, handle)
        runtime.set_custom_controller(controller)
        stop = asyncio.Event()
        task = asyncio.create_task(controller.run(threadiness, stop))
        try:
            # Before its start a controller hears of nothing.
            await eventually(lambda: "garbage" in controller.calls, WITHIN)
            yield RunningController(controller, primary, secondary)
        finally:
            stop.set()
            await task


class RunningController:
    """An `ObservedController`."""

    def __init__(self, controller: Controller, primary: MemoryEntities, secondary: MemoryEntities) -> None:
        self._controller = controller
        self._primary = primary
        self._secondary = secondary

    def begun(self, key: str) -> int:
        return self._controller.synced.count(key)

    async def put(self, key: str) -> None:
        self._primary.store(key, {})

    async def delete(self, key: str) -> None:
        self._primary.drop(key)

    async def touch(self, key: str) -> None:
        self._secondary.store(key, owned({}, Owner(kind="Widget", key=key)))

    def enqueue_after(self, key: str, delay: float) -> None:
        self._controller.runtime.enqueue_key_after(key, Operation.PUT, delay)


def _set(spec: SetSpec, journal: Journal) -> ResourceSet:
    resources: list[Resource] = []
    for one in spec.resources:
        made: list[Resource] = [CRUDResource(logger=LOGGER, ops=Ops(one, journal)) if one.crud else Plain(one, journal)]
        if one.retries:
            made = wrap_with_retry(made, logger=LOGGER, backoff_factory=_at_once(one.retries))
        resources += made
    return ResourceSet(handles=lambda obj: obj["spec"]["set"] in spec.handles, logger=LOGGER, resources=resources)


def _at_once(retries: int) -> Any:
    return lambda: ExponentialBackOff(initial=0, max_retries=retries)


class Cluster:
    """The objects there are, as a feed."""

    def __init__(self) -> None:
        self.objects: dict[str, Object] = {}
        self.told = 0
        self._news: asyncio.Queue[FeedItem] = asyncio.Queue()
        self._news.put_nowait(Complete(items=[]))

    async def follow(self) -> AsyncGenerator[FeedItem]:
        while True:
            yield await self._news.get()

    def tell(self, event: WatchEvent) -> None:
        self.told += 1
        self._news.put_nowait(event)


class Running:
    """An `Observed`."""

    def __init__(self, cluster: Cluster, journal: Journal, metrics: FrameworkMetrics) -> None:
        self._cluster = cluster
        self._journal = journal
        self._metrics = metrics

    def calls(self, name: str) -> list[str]:
        return list(self._journal[name])

    async def put(self, name: str, *, set: str = "a", version: int = 1) -> None:  # noqa: A002 - the field's name
        known = name in self._cluster.objects
        obj: Object = {
            "apiVersion": "example.dev/v1",
            "kind": "Widget",
            "metadata": {"name": name, "uid": f"uid-{name}", "resourceVersion": str(version)},
            "spec": {"set": set},
        }
        self._cluster.objects[name] = obj
        self._cluster.tell(WatchEvent(type="MODIFIED" if known else "ADDED", object=obj))

    async def delete(self, name: str) -> None:
        self._cluster.tell(WatchEvent(type="DELETED", object=self._cluster.objects.pop(name)))

    async def settled(self) -> None:
        # Cases that ask this await each fact before they bring about the next one of its object: nothing collapses.
        await eventually(lambda: self._handled() == self._cluster.told, WITHIN, every=0.001)

    def _handled(self) -> float:
        return sum(
            sample.value
            for family in self._metrics.event_seconds.collect()
            for sample in family.samples
            if sample.name.endswith("_count")
        )
