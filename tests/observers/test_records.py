"""State Secrets of packages that are gone."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import cast

import pytest

from support.fake_kube import FakeKube
from windlass.adapters.kube.records import RecordStore
from windlass.contracts.record import PackageRecord
from windlass.domain.ids import API_VERSION, Kind, PackageKey, package_workflow_id
from windlass.observers.border import Border
from windlass.observers.quarantine import Quarantine
from windlass.observers.records import RecordSweep
from windlass.observers.shard import Shard
from windlass.ports.kube import Object
from windlass.runtime.packages import PackageLifecycles

APP = PackageKey(installation="test", namespace="prod", name="web")
MODULE = PackageKey(installation="test", kind=Kind.MODULE, name="dns")
EVERYTHING = Shard(installation="test", number=0, count=1)


@dataclass
class Lifecycles:
    """Says which lifecycles run."""

    ids: set[str] = field(default_factory=set[str])

    async def running(self) -> set[str]:
        return self.ids


@dataclass
class Laid:
    kube: FakeKube
    records: RecordStore
    lifecycles: Lifecycles
    sweep: RecordSweep

    async def save(self, *keys: PackageKey) -> None:
        for key in keys:
            await self.records.save(key, PackageRecord(uid="u1"), None)

    async def left(self) -> set[PackageKey]:
        return set(await self.records.stored("test"))

    async def look_twice(self) -> None:
        for _ in range(2):
            await self.sweep.look("test")


@pytest.fixture
def laid() -> Laid:
    kube, lifecycles = FakeKube(), Lifecycles()
    border = Border(cast("Quarantine", None), lambda _: None)
    kube.serve(API_VERSION, "Module", namespaced=False)
    records = RecordStore(kube, b"k" * 32)
    sweep = RecordSweep(kube=kube, records=records, lifecycles=cast("PackageLifecycles", lifecycles), border=border)
    return Laid(kube, records, lifecycles, sweep)


@pytest.fixture
async def served(laid: Laid) -> AsyncIterator[Laid]:
    async with laid.sweep.serving(EVERYTHING):
        yield laid


def application() -> Object:
    return {"apiVersion": API_VERSION, "kind": "Application", "metadata": {"name": "web", "namespace": "prod"}}


async def test_the_state_of_a_package_that_is_gone_is_deleted_by_the_second_look(served: Laid) -> None:
    await served.save(APP, MODULE)
    await served.sweep.look("test")
    assert await served.left() == {APP, MODULE}
    await served.sweep.look("test")
    assert await served.left() == set()


async def test_the_state_of_a_package_with_an_object_stays(served: Laid) -> None:
    served.kube.put(application())
    await served.save(APP, MODULE)
    await served.look_twice()
    assert await served.left() == {APP}


async def test_the_state_of_a_package_whose_lifecycle_runs_stays(served: Laid) -> None:
    served.lifecycles.ids.add(package_workflow_id(APP))
    await served.save(APP, MODULE)
    await served.look_twice()
    assert await served.left() == {APP}


async def test_the_state_of_a_package_that_came_back_meanwhile_stays(served: Laid) -> None:
    await served.save(APP)
    await served.sweep.look("test")
    served.kube.put(application())
    await served.sweep.look("test")
    assert await served.left() == {APP}


async def test_a_state_that_was_written_meanwhile_is_not_deleted(served: Laid, monkeypatch: pytest.MonkeyPatch) -> None:
    await served.save(APP)
    await served.sweep.look("test")
    running = served.lifecycles.running

    async def written() -> set[str]:
        found = await served.records.load(APP)
        assert found is not None
        await served.records.save(APP, PackageRecord(uid="u2"), found[1])
        return await running()

    monkeypatch.setattr(served.lifecycles, "running", written)
    await served.sweep.look("test")
    assert await served.left() == {APP}


async def test_packages_of_other_shards_are_left_to_others(laid: Laid) -> None:
    await laid.save(APP, MODULE)
    await laid.look_twice()
    assert await laid.left() == {APP, MODULE}
