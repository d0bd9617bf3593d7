"""The drift monitor: whose packages it knows, what one package can do to another, and what it costs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.drift_field import SHARDS, Field, body, config_map, key, laid_out, name_in
from support.waiting import eventually
from windlass.domain.ids import API_VERSION
from windlass.observers.drift import comparing as drift_comparing
from windlass.observers.drift import owners as drift_owners
from windlass.observers.drift import package as drift_package
from windlass.observers.drift.owners import Owners
from windlass.observers.drift.package import RETELL, pause_after
from windlass.ports.helm import Manifest
from windlass.ports.kube import ObjectRef


@pytest.fixture
async def laid(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Field]:
    async with laid_out(monkeypatch) as made:
        yield made


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
