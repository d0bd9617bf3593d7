"""The drift monitor: whose packages it knows, what one package can do to another, and what it costs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.fake_kube import FakeKube
from support.targets import FakeTargets, at_home
from support.waiting import eventually
from windlass.contracts.lifecycle import Quarantined, ReleaseDrifted
from windlass.domain.ids import API_VERSION, Kind, PackageKey, shard_of
from windlass.domain.lifecycle.releases import DEPLOYED
from windlass.observers.border import Border
from windlass.observers.drift import comparing as drift_comparing
from windlass.observers.drift import monitor as drift
from windlass.observers.drift import owners as drift_owners
from windlass.observers.drift import package as drift_package
from windlass.observers.drift.monitor import DriftService
from windlass.observers.drift.owners import Owners
from windlass.observers.drift.package import RETELL, pause_after
from windlass.observers.quarantine import Quarantine
from windlass.observers.shard import Shard
from windlass.ports.helm import Manifest, Release, ReleaseRef
from windlass.ports.kube import Object, ObjectRef

MANAGED = {"app.kubernetes.io/managed-by": "Helm"}
SHARDS = 4


def config_map(name: str) -> ObjectRef:
    return ObjectRef(api_version="v1", kind="ConfigMap", namespace="prod", name=name)


def body(ref: ObjectRef) -> Object:
    metadata = {"name": ref.name, "namespace": ref.namespace, "labels": MANAGED}
    return {"apiVersion": ref.api_version, "kind": ref.kind, "metadata": metadata, "data": {"a": "b"}}


def key(name: str) -> PackageKey:
    return PackageKey(installation="windlass", kind=Kind.APPLICATION, namespace="prod", name=name)


def shard(number: int) -> Shard:
    return Shard(installation="windlass", number=number, count=SHARDS)


def name_in(number: int, prefix: str = "web") -> str:
    """Return the name of a package in this shard."""
    return next(name for n in range(1000) if shard_of(key(name := f"{prefix}-{n}"), SHARDS) == number)


class Cluster(FakeKube):
    """Applies data and nothing else, as far as dry runs go."""

    async def apply(self, obj: Object, *, dry_run: bool = False, **more: Any) -> Object:
        if not dry_run:
            return await super().apply(obj, **more)
        ref = ObjectRef(api_version=obj["apiVersion"], kind=obj["kind"], namespace="prod", name=obj["metadata"]["name"])
        found = self.peek(ref)
        assert found is not None
        return {**found, "data": obj["data"]}


@dataclass
class Releases:
    """Stored manifests, by release name; an exception stands for one that cannot be read."""

    stored: dict[str, Manifest | Exception] = field(default_factory=dict[str, Manifest | Exception])
    asked: list[str] = field(default_factory=list[str])

    async def manifest(self, ref: ReleaseRef) -> Manifest | None:
        self.asked.append(ref.name)
        found = self.stored.get(ref.name)
        if isinstance(found, Exception):
            raise found
        return found


@dataclass
class Told:
    """Lifecycles that keep what they are told."""

    drifted: list[str] = field(default_factory=list[str])
    broken: dict[str, list[str]] = field(default_factory=dict[str, list[str]])

    async def release_drifted(self, key: PackageKey, message: ReleaseDrifted) -> bool:
        del message
        self.drifted.append(key.name)
        return True

    async def quarantined(self, key: PackageKey, message: Quarantined) -> bool:
        self.broken[key.name] = [part.reason for part in message.parts]
        return True


@dataclass
class Field:
    """A drift service over a cluster that is made up."""

    kube: Cluster
    releases: Releases
    told: Told
    service: DriftService
    stack: AsyncExitStack
    left: dict[int, AsyncExitStack] = field(default_factory=dict[int, AsyncExitStack])

    def package(self, name: str, *objects: str, fault: Exception | None = None) -> None:
        """Put a package with an installed release of some ConfigMaps."""
        status = {"phase": "Running", "release": {"name": name, "namespace": "prod", "revision": 1}}
        spec = {"package": {"repository": "r", "name": "p", "version": "1.0.0"}}
        metadata = {"name": name, "namespace": "prod"}
        refs = {ref: body(ref) for ref in map(config_map, objects)}
        for obj in refs.values():
            self.kube.put(obj)
        ref = ReleaseRef(target=at_home("prod"), name=name)
        release = Release(ref=ref, revision=1, status=DEPLOYED, chart_version="1.0.0")
        self.releases.stored[ref.name] = fault or Manifest(release=release, objects=refs)
        self.kube.put(
            {"apiVersion": API_VERSION, "kind": "Application", "metadata": metadata, "spec": spec, "status": status}
        )

    async def serve(self, number: int) -> None:
        self.left[number] = AsyncExitStack()
        await self.left[number].enter_async_context(self.service.serving(shard(number)))

    async def give_up(self, number: int) -> None:
        await self.left.pop(number).aclose()

    def known(self) -> set[str]:
        """The packages that are looked after."""
        return {one.name for one in self.service.packages}

    def watched(self) -> set[str]:
        """The kinds that are watched because releases have objects of them."""
        return {kind for _, kind in self.service.kinds}

    async def compared(self, *names: str) -> None:
        """Wait until the releases have been compared as a whole."""
        await eventually(lambda: set(names) <= set(self.releases.asked))


@pytest.fixture
async def laid(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Field]:
    monkeypatch.setattr(drift, "SETTLE", 0.02)
    monkeypatch.setattr(drift, "ARRIVALS", 0.01)
    kube, releases, told = Cluster(), Releases(), Told()
    kube.serve(API_VERSION, "Module", namespaced=False)
    quarantine = Quarantine(told, "worker")
    border = Border(quarantine, lambda _: None)
    parts: dict[str, Any] = {"kube": kube, "targets": FakeTargets(kube), "helm": releases, "lifecycles": told}
    service = DriftService(**parts, border=border, quarantine=quarantine)
    made = Field(kube, releases, told, service, AsyncExitStack())
    yield made
    for number in list(made.left):
        await made.give_up(number)


async def test_packages_of_other_shards_are_not_kept(laid: Field) -> None:
    for number in range(SHARDS):
        laid.package(name_in(number))
    await laid.serve(1)
    await eventually(lambda: laid.known() == {name_in(1)})
    laid.package(name_in(2, "later"))
    laid.package(name_in(1, "later"))
    await eventually(lambda: laid.known() == {name_in(1), name_in(1, "later")})


async def test_packages_of_a_shard_that_arrives_are_found(laid: Field) -> None:
    for number in range(SHARDS):
        laid.package(name_in(number))
    await laid.serve(1)
    await eventually(lambda: laid.known() == {name_in(1)})
    await laid.serve(2)
    await eventually(lambda: laid.known() == {name_in(1), name_in(2)})


async def test_a_shard_that_leaves_takes_its_packages_and_their_watches_along(laid: Field) -> None:
    laid.package(name_in(1), "one")
    laid.package(name_in(2))
    await laid.serve(1)
    await laid.serve(2)
    await eventually(lambda: laid.watched() == {"ConfigMap"} and len(laid.known()) == 2)
    await laid.give_up(1)
    assert laid.known() == {name_in(2)}
    assert laid.watched() == set()


async def test_a_deleted_package_is_forgotten(laid: Field) -> None:
    laid.package(name_in(1), "one")
    await laid.serve(1)
    await eventually(laid.watched)
    ref = ObjectRef(api_version=API_VERSION, kind="Application", namespace="prod", name=name_in(1))
    await laid.kube.delete(ref)
    await eventually(lambda: not laid.known() and not laid.watched())


@pytest.mark.parametrize("fault", [RecursionError("deep"), ValueError("odd tag"), MemoryError(), KeyError("metadata")])
async def test_a_manifest_that_cannot_be_read_stays_with_its_package(laid: Field, fault: Exception) -> None:
    laid.package(name_in(1, "odd"), fault=fault)
    laid.package(name_in(1), "one")
    await laid.serve(1)
    await eventually(lambda: laid.told.broken.get(name_in(1, "odd")) == [type(fault).__name__])
    await laid.compared(name_in(1))
    await eventually(laid.watched)
    await laid.kube.delete(config_map("one"))
    await eventually(lambda: name_in(1) in laid.told.drifted)
    assert name_in(1) not in laid.told.broken


async def test_an_object_that_two_releases_name_is_told_to_both(laid: Field) -> None:
    laid.package(name_in(1), "one")
    laid.package(name_in(1, "claims"), "one")
    await laid.serve(1)
    await laid.compared(name_in(1), name_in(1, "claims"))
    await eventually(laid.watched)
    await laid.kube.delete(config_map("one"))
    await eventually(lambda: set(laid.told.drifted) == {name_in(1), name_in(1, "claims")})


async def test_a_large_release_takes_turns_and_all_of_it_is_compared(
    laid: Field, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drift_comparing, "AT_ONCE", 2)
    objects = [f"map-{number}" for number in range(5)]
    laid.package(name_in(1), *objects)
    await laid.kube.delete(config_map(objects[-1]))
    await laid.serve(1)
    await eventually(lambda: laid.told.drifted == [name_in(1)])
    assert len(laid.releases.asked) == 3


async def test_a_comparison_that_broke_off_is_made_again_as_a_whole(
    laid: Field, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drift_package, "INTERVAL", 0.05)
    laid.package(name_in(1), "one", "two")
    laid.kube.put({**body(config_map("two")), "data": {"a": "changed"}})
    laid.kube.fail_next("get", TypeError("an odd object"))
    await laid.serve(1)
    await eventually(lambda: laid.told.drifted == [name_in(1)])


async def test_a_kind_that_is_not_served_holds_nothing_up(laid: Field) -> None:
    name = name_in(1)
    laid.package(name, "one")
    odd = ObjectRef(api_version="none.example/v1", kind="None", namespace="prod", name="x")
    found = laid.releases.stored[name]
    assert isinstance(found, Manifest)
    laid.releases.stored[name] = Manifest(release=found.release, objects={**found.objects, odd: body(odd)})
    await laid.kube.delete(config_map("one"))
    await laid.serve(1)
    await eventually(lambda: laid.told.drifted == [name])


@given(failures=st.integers(0, 10**6))
def test_pauses_after_failures_are_bounded(failures: int) -> None:
    assert 0 < pause_after(failures) <= RETELL
    assert pause_after(failures) <= pause_after(failures + 1)


refs = st.sets(st.sampled_from([config_map(str(n)) for n in range(6)]), max_size=6)


@given(steps=st.lists(st.tuples(st.sampled_from("abc"), refs), max_size=20))
def test_owners_are_what_the_releases_say(steps: list[tuple[str, set[ObjectRef]]]) -> None:
    owners, model = Owners(), dict[str, set[ObjectRef]]()
    for name, wanted in steps:
        before = model.get(name, set())
        elsewhere = {ref for other, refs in model.items() if other != name for ref in refs}
        assert owners.replace(key(name), before, wanted) == before - wanted - elsewhere
        model[name] = wanted
        everything = {ref for refs in model.values() for ref in refs}
        assert owners.objects(("v1", "ConfigMap")) == everything
        assert owners.uses(("v1", "ConfigMap")) is bool(everything)
        for ref in everything:
            assert {one.name for one in owners.of(ref)} == {one for one, refs in model.items() if ref in refs}


def test_giving_up_many_packages_looks_at_each_object_once(monkeypatch: pytest.MonkeyPatch) -> None:
    releases = {key(f"p-{n}"): {config_map(f"{n}-{i}") for i in range(3)} for n in range(1000)}
    owners = Owners()
    for one, objects in releases.items():
        owners.replace(one, set(), objects)
    looks = 0
    kind_of = drift_owners.kind_of

    def counted(ref: ObjectRef) -> tuple[str, str]:
        nonlocal looks
        looks += 1
        return kind_of(ref)

    monkeypatch.setattr(drift_owners, "kind_of", counted)
    for one, objects in releases.items():
        owners.replace(one, objects, set())
    assert looks <= 3 * 3 * len(releases)
    assert not owners.uses(("v1", "ConfigMap"))


async def test_a_loop_over_many_lets_others_run(monkeypatch: pytest.MonkeyPatch) -> None:
    from windlass.observers.drift import pacing  # noqa: PLC0415 - the one test of it

    monkeypatch.setattr(pacing, "SLICE", 0.0)
    seen: list[int] = []
    between: list[int] = []

    async def other() -> None:
        while len(seen) < 100:
            between.append(len(seen))
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    async for item in pacing.paced(range(100)):
        seen.append(item)  # noqa: PERF401 - the other task looks at it meanwhile
    await task
    assert len(set(between)) > 50
