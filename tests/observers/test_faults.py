"""Faults in what goes on beside workflows: the part starts again, and what it is about is not lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any, cast

import pytest

from support.waiting import eventually
from windlass.contracts.lifecycle import HookEvents, Quarantined
from windlass.contracts.record import BindingRecord, WatchedRecord
from windlass.domain.errors import WindlassError
from windlass.domain.hooks.bindings import KubernetesBinding, Selection
from windlass.domain.ids import Kind, PackageKey
from windlass.domain.packages.model import Hook
from windlass.observers import border as borders
from windlass.observers.border import Border
from windlass.observers.hooks.informers import Delta, Informers
from windlass.observers.hooks.service import Bell, HookWatchService
from windlass.observers.hooks.watch import OpenWatch
from windlass.observers.quarantine import Quarantine
from windlass.observers.shard import Shard
from windlass.ports.kube import Object, ObjectList, ResourceInfo, WatchEvent
from windlass.ports.records import Records
from windlass.runtime.packages import PackageLifecycles

KEY = PackageKey(installation="test", kind=Kind.APPLICATION, namespace="prod", name="web")
MAPS = Selection(api_version="v1", kind="ConfigMap", namespace="prod")


class Told:
    """Lifecycles: ``refuse`` are raised first."""

    def __init__(self, *refuse: BaseException) -> None:
        self.refuse = list(refuse)
        self.events: list[HookEvents] = []
        self.reported: list[list[str]] = []

    async def hook_events(self, _key: PackageKey, events: HookEvents) -> bool:
        if self.refuse:
            raise self.refuse.pop(0)
        self.events.append(events)
        return True

    async def quarantined(self, _key: PackageKey, message: Quarantined) -> bool:
        self.reported.append([part.part for part in message.parts])
        return True


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setattr(borders, "delay", lambda *_, **__: 0.01)
    return []


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def border(counted: list[str], told: Told) -> Border:
    return Border(Quarantine(told, "worker"), counted.append)


class Cluster:
    """ConfigMaps; ``breaks`` are raised by the next watches instead of events."""

    def __init__(self) -> None:
        self.objects: dict[str, Object] = {}
        self.version = 1
        self.breaks: asyncio.Queue[WatchEvent | Exception] = asyncio.Queue()
        self.lists = 0

    def map(self, name: str) -> Object:
        self.version += 1
        metadata = {"name": name, "namespace": "prod", "resourceVersion": str(self.version), "uid": name}
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {}}

    def put(self, name: str) -> None:
        self.objects[name] = self.map(name)
        self.breaks.put_nowait(WatchEvent(type="MODIFIED", object=self.objects[name]))

    async def list(self, *_: Any, **__: Any) -> ObjectList:
        self.lists += 1
        return ObjectList(items=list(self.objects.values()), resource_version=str(self.version))

    async def watch(self, *_: Any, **__: Any) -> AsyncIterator[WatchEvent]:
        while True:
            event = await self.breaks.get()
            if isinstance(event, Exception):
                raise event
            yield event


class Listening:
    """A listener; ``fails`` are raised at the next changes."""

    def __init__(self, *fails: Exception) -> None:
        self.fails = list(fails)
        self.seen: list[str] = []

    def heard(self, delta: Delta) -> None:
        if self.fails:
            raise self.fails.pop(0)
        self.seen.append(delta.key.rpartition("/")[2])

    def complete(self) -> None: ...

    def failing(self, error: WindlassError | None) -> None: ...


async def test_an_informer_lists_anew_after_a_fault(border: Border, counted: list[str]) -> None:
    cluster, listener = Cluster(), Listening()
    informers = Informers(cluster, partial(border.spawn, KEY))
    informers.follow(MAPS, listener)
    await eventually(lambda: cluster.lists == 1)
    cluster.breaks.put_nowait(RuntimeError("File descriptor 62 is used by transport"))
    await eventually(lambda: cluster.lists == 2)
    cluster.put("late")
    await eventually(lambda: "late" in listener.seen)
    assert counted == ["informer"]
    await informers.close()


async def test_a_listener_that_fails_keeps_nothing_from_the_others(border: Border, counted: list[str]) -> None:
    cluster, odd, good = Cluster(), Listening(ValueError("odd")), Listening()
    informers = Informers(cluster, partial(border.spawn, KEY))
    informers.follow(MAPS, odd)
    informers.follow(MAPS, good)
    await eventually(lambda: cluster.lists == 1)
    cluster.put("one")
    # Who has missed it is told again when all is listed anew.
    await eventually(lambda: odd.seen == ["one"])
    assert good.seen[0] == "one"
    assert counted == ["informer"]
    await informers.close()


class Filter:
    """A jq that breaks in a way of its own on objects named ``poison``."""

    async def run(self, _program: str, document: Any, **_: Any) -> list[Any]:
        if document["metadata"]["name"] == "poison":
            raise RecursionError("maximum recursion depth exceeded")
        return [document["metadata"]["name"]]


async def test_an_object_that_breaks_a_filter_holds_nothing_up(border: Border, counted: list[str], told: Told) -> None:
    binding = KubernetesBinding(kind="ConfigMap", api_version="v1", jq_filter=".metadata.name")
    hook = Hook(path="hooks/x", orders={}, kubernetes=(binding,))
    known = {"hooks/x#0": BindingRecord(synchronized=True, known={})}
    rung: list[HookEvents] = []
    cluster = Cluster()
    watched = WatchedRecord(digest="d", hooks=(hook,), bindings=known)
    ring: Callable[[PackageKey, HookEvents], None] = lambda _, events: rung.append(events)  # noqa: E731
    watch = OpenWatch(KEY, watched, kube=cluster, jq=cast("Any", Filter()), ring=ring, namespace="prod", border=border)

    async def config_maps(*_: str) -> ResourceInfo:
        return ResourceInfo(api_version="v1", kind="ConfigMap", plural="configmaps", namespaced=True)

    await watch.open(config_maps)
    cluster.put("poison")
    cluster.put("good")
    await eventually(lambda: len(rung) == 1)
    run = watch.take("main")
    assert run is not None
    assert [one["object"]["metadata"]["name"] for one in run.context] == ["good"]
    assert counted == ["filter"]
    await eventually(lambda: told.reported[:1] == [["filter"]])
    await watch.close()


async def test_a_signal_about_events_is_sent_again_whatever_it_met(border: Border, told: Told) -> None:
    told.refuse = [RuntimeError("stray"), asyncio.CancelledError()]
    bell = Bell(cast("PackageLifecycles", told), border)
    bell.ring(KEY, HookEvents(queue="main", sequence=7))
    await eventually(lambda: [one.sequence for one in told.events] == [7])


class Odd:
    """Records of packages one of which cannot be read."""

    def __init__(self, keys: list[PackageKey]) -> None:
        self.keys = keys
        self.listed = 0
        self.loaded: list[str] = []

    async def watched(self, _installation: str) -> list[PackageKey]:
        self.listed += 1
        if self.listed == 1:
            raise KeyError("metadata")
        return self.keys

    async def load(self, key: PackageKey) -> None:
        self.loaded.append(key.name)
        if key.name == "odd":
            raise RecursionError("too deep")


async def test_a_package_that_cannot_be_restored_keeps_no_other_from_it(
    border: Border, counted: list[str], told: Told
) -> None:
    keys = [PackageKey(installation="test", namespace="prod", name=name) for name in ("odd", "web", "shop")]
    records = Odd(keys)
    service = HookWatchService(
        targets=cast("Any", None),
        jq=cast("Any", None),
        records=cast("Records", records),
        bell=Bell(cast("PackageLifecycles", told), border),
        border=border,
    )
    async with service.serving(Shard(installation="test", number=0, count=1)):
        await eventually(lambda: {"web", "shop"} <= set(records.loaded) and records.loaded.count("odd") > 2)
    assert records.listed == 2
    assert "restore" in counted
    assert told.reported[0] == ["restore"]


async def test_locks_of_packages_are_dropped_with_their_last_user(border: Border, told: Told) -> None:
    service = HookWatchService(
        targets=cast("Any", None),
        jq=cast("Any", None),
        records=cast("Records", Odd([])),
        bell=Bell(cast("PackageLifecycles", told), border),
        border=border,
    )
    for number in range(100):
        await service.close(PackageKey(namespace="prod", name=f"app-{number}"))
    assert service.remembered == 0
