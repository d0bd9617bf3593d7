from __future__ import annotations

import pytest
from activities.fakes import DIGEST_KEY, KEY, OWN, Bench

from windlass.activities.package_objects import Mark, PackageObjects
from windlass.domain.errors import Reason, TransientError
from windlass.ports.kube import Object


def labelled(bench: Bench, label: str) -> Object:
    return bench.application(metadata={"labels": {"written": label}})


async def stamp(bench: Bench, objects: PackageObjects, uid: str) -> bool:
    async def write(mark: Mark) -> Object | None:
        patch = {"metadata": {"resourceVersion": mark.resource_version, "annotations": {"stamped": mark.uid}}}
        return await bench.kube.patch(OWN, patch, kind="merge")

    return await objects.write(KEY, uid, write)


async def test_settings_that_were_just_seen_are_not_read_again() -> None:
    bench = Bench()
    objects = bench.objects
    uid = bench.application(settings={"port": 1})["metadata"]["uid"]
    seen = await objects.look(KEY)
    assert seen is not None
    before = len(bench.kube.calls)
    again = await objects.inputs(KEY, uid, seen.settings_digest(DIGEST_KEY))
    package = await objects.package(KEY, uid, 1)
    assert again.settings() == {"port": 1}
    assert package.spec.settings == {"port": 1}
    assert len(bench.kube.calls) == before


async def test_settings_of_another_digest_are_read() -> None:
    bench = Bench()
    objects = bench.objects
    uid = bench.application(settings={"port": 1})["metadata"]["uid"]
    await objects.look(KEY)
    bench.application(settings={"port": 2})
    assert (await objects.inputs(KEY, uid, "newer")).settings() == {"port": 2}


async def test_a_newer_generation_is_read() -> None:
    bench = Bench()
    objects = bench.objects
    uid = bench.application(settings={"port": 1})["metadata"]["uid"]
    await objects.look(KEY)
    bench.application(settings={"port": 2})
    assert (await objects.package(KEY, uid, 2)).spec.settings == {"port": 2}


async def test_what_was_seen_serves_one_release() -> None:
    bench = Bench()
    objects = bench.objects
    uid = bench.application()["metadata"]["uid"]
    await objects.look(KEY)
    await objects.package(KEY, uid, 1)
    before = bench.kube.verbs().count("get")
    await objects.package(KEY, uid, 1)
    assert bench.kube.verbs().count("get") == before + 1


@pytest.mark.parametrize("seen", [True, False])
async def test_the_object_of_another_life_is_refused(seen: bool) -> None:
    bench = Bench()
    objects = bench.objects
    bench.application()
    if seen:
        await objects.look(KEY)
    for attempt in (objects.inputs(KEY, "an-earlier-one", ""), objects.package(KEY, "an-earlier-one", 1)):
        with pytest.raises(TransientError) as refused:
            await attempt
        assert refused.value.reason is Reason.API_CONFLICT
    assert not await stamp(bench, objects, "an-earlier-one")


async def test_a_write_over_what_was_seen_reads_nothing() -> None:
    bench = Bench()
    objects = bench.objects
    uid = bench.application()["metadata"]["uid"]
    await objects.look(KEY)
    before = bench.kube.verbs().count("get")
    for _ in range(3):
        assert await stamp(bench, objects, uid)
    assert bench.kube.verbs().count("get") == before
    assert bench.kube.verbs().count("patch") == 3


async def test_a_write_over_what_has_changed_since_reads_the_newest() -> None:
    bench = Bench()
    objects = bench.objects
    uid = labelled(bench, "first")["metadata"]["uid"]
    await objects.look(KEY)
    labelled(bench, "meanwhile")
    assert await stamp(bench, objects, uid)
    obj = bench.kube.peek(OWN)
    assert obj is not None
    assert obj["metadata"]["annotations"] == {"stamped": uid}
    assert obj["metadata"]["labels"] == {"written": "meanwhile"}


async def test_a_write_to_what_is_gone_says_so() -> None:
    bench = Bench()
    objects = bench.objects
    uid = bench.application()["metadata"]["uid"]
    await objects.look(KEY)
    await bench.kube.delete(OWN)
    assert not await stamp(bench, objects, uid)


async def test_an_api_server_that_does_not_answer_is_told() -> None:
    bench = Bench()
    objects = bench.objects
    uid = bench.application()["metadata"]["uid"]
    await objects.look(KEY)
    bench.kube.fail_next("patch", TransientError(Reason.API_UNAVAILABLE, "no answer"))
    with pytest.raises(TransientError) as lost:
        await stamp(bench, objects, uid)
    assert lost.value.reason is Reason.API_UNAVAILABLE
