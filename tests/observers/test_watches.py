"""What a watch does with leave to begin runs ahead: once, at news, and not while somebody says otherwise."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from support.waiting import eventually
from windlass.contracts.lifecycle import HookEvents
from windlass.contracts.record import BindingRecord, WatchedRecord
from windlass.domain.hooks.bindings import KubernetesBinding
from windlass.domain.ids import Kind, PackageKey
from windlass.domain.packages.model import Hook
from windlass.observers.border import Border
from windlass.observers.hooks.watch import OpenWatch
from windlass.ports.kube import Object, ObjectList, ResourceInfo, WatchEvent

KEY = PackageKey(installation="test", kind=Kind.APPLICATION, namespace="prod", name="web")
HOOK = Hook(path="hooks/x", orders={}, kubernetes=(KubernetesBinding(kind="ConfigMap", api_version="v1"),))
WATCHED = WatchedRecord(digest="d", hooks=(HOOK,), bindings={"hooks/x#0": BindingRecord(synchronized=True, known={})})


class NoFaults:
    """Nothing fails here."""

    def failed(self, *_: object) -> None:
        raise AssertionError("a part has failed")

    def works(self, *_: object) -> None: ...

    def ended(self, *_: object) -> None: ...


BORDER = Border(NoFaults(), lambda _: None)


class Maps:
    """A namespace of ConfigMaps behind `ports.ListWatch`."""

    def __init__(self) -> None:
        self._events = asyncio.Queue[WatchEvent]()
        self._version = 1

    async def list(self, api_version: str, kind: str, **_: Any) -> ObjectList:
        assert (api_version, kind) == ("v1", "ConfigMap")
        return ObjectList(items=[], resource_version="1")

    async def watch(self, api_version: str, kind: str, **_: Any) -> AsyncIterator[WatchEvent]:
        assert (api_version, kind) == ("v1", "ConfigMap")
        while True:
            yield await self._events.get()

    def put(self, name: str) -> None:
        self._version += 1
        metadata = {"name": name, "namespace": "prod", "resourceVersion": str(self._version), "uid": name}
        added: Object = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {}}
        self._events.put_nowait(WatchEvent(type="ADDED", object=added))


class NoFilter:
    async def run(self, *_: Any, **__: Any) -> Any:
        raise AssertionError("the binding has no filter")


@dataclass
class Opened:
    watch: OpenWatch
    maps: Maps
    rung: list[HookEvents]
    begun: list[str] = field(default_factory=list[str])
    ended: list[str] = field(default_factory=list[str])

    def begin(self, run_id: str) -> asyncio.Task[None]:
        self.begun.append(run_id)
        return asyncio.create_task(self._work(run_id))

    async def _work(self, run_id: str) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            self.ended.append(run_id)

    async def news(self, name: str) -> HookEvents:
        """Something happens; return how the lifecycle is told."""
        told = len(self.rung)
        self.maps.put(name)
        await eventually(lambda: len(self.rung) > told)
        return self.rung[-1]

    def handled(self) -> None:
        """The run for what waits has ended."""
        self.watch.take("main")
        assert not self.watch.done("main")


@pytest.fixture
async def opened() -> AsyncIterator[Opened]:
    maps, rung = Maps(), list[HookEvents]()
    watch = OpenWatch(
        KEY,
        WATCHED,
        kube=maps,
        jq=NoFilter(),
        ring=lambda _, events: rung.append(events),
        namespace="prod",
        border=BORDER,
    )

    async def config_maps(*_: str) -> ResourceInfo:
        return ResourceInfo(api_version="v1", kind="ConfigMap", plural="configmaps", namespaced=True)

    await watch.open(config_maps)
    yield Opened(watch, maps, rung)
    await watch.close()


async def test_a_run_begins_with_the_news_once_and_its_id_is_told(opened: Opened) -> None:
    opened.watch.allow("main", opened.begin, since=1.0)
    told = await opened.news("a")
    assert (told.queue, [told.run]) == ("main", opened.begun)
    opened.handled()
    assert (await opened.news("b")).run == ""
    assert len(opened.begun) == 1


async def test_leave_is_given_for_news_that_are_to_come_only(opened: Opened) -> None:
    assert (await opened.news("a")).run == ""
    opened.watch.allow("main", opened.begin, since=1.0)
    opened.handled()
    assert (await opened.news("b")).run == ""
    assert opened.begun == []


@pytest.mark.parametrize("since", [1.0, 2.0])
async def test_a_hold_takes_leave_back_and_outweighs_what_was_decided_before(opened: Opened, since: float) -> None:
    opened.watch.allow("main", opened.begin, since=1.0)
    opened.watch.hold(since=2.0)
    opened.watch.allow("main", opened.begin, since=since)
    assert (await opened.news("a")).run == ""
    opened.handled()
    opened.watch.allow("main", opened.begin, since=3.0)
    assert (await opened.news("b")).run != ""


async def test_closing_ends_what_has_begun_ahead(opened: Opened) -> None:
    opened.watch.allow("main", opened.begin, since=1.0)
    await opened.news("a")
    await opened.watch.close()
    assert opened.ended == opened.begun != []


async def test_a_lost_package_is_left_alone_at_once_and_for_good(opened: Opened) -> None:
    opened.watch.allow("main", opened.begin, since=1.0)
    await opened.news("a")
    opened.watch.abandon()
    await eventually(lambda: opened.ended == opened.begun != [])
    opened.handled()
    opened.watch.allow("main", opened.begin, since=5.0)
    assert (await opened.news("b")).run == ""


async def test_leave_for_a_queue_that_is_not_there_is_nothing(opened: Opened) -> None:
    opened.watch.allow("other", opened.begin, since=1.0)
    assert (await opened.news("a")).run == ""
