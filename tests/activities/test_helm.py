from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from typing import Any

import pytest
from activities.fakes import ARTIFACT, CLAIM, DEPLOYMENT, KEY, OWN, PLACED, Bench, package

from support.fake_kube import FakeKube
from support.waiting import eventually
from windlass.activities import helm
from windlass.activities.helm import KEEP, HelmActivities
from windlass.activities.turns import Turns
from windlass.contracts.record import ReleasedRecord, RevisionRecord
from windlass.contracts.steps import ReleaseRequest, ReleaseResult, UninstallRequest, UninstallResult
from windlass.domain.errors import PermanentError, Reason, TransientError
from windlass.ports.kube import ObjectRef


def activities(bench: Bench, turns: Turns | None = None) -> HelmActivities:
    return HelmActivities(
        kube=bench.kube,
        objects=bench.objects,
        helm=bench.helm,
        targets=bench.targets,
        readiness=bench.readiness,
        contents=bench.contents,
        clock=bench.clock,
        turns=turns or Turns(1),
    )


async def upgrade(bench: Bench, *, record: dict[str, Any] | None = None, **spec: Any) -> ReleaseResult:
    obj = bench.application(**spec)
    uid = obj["metadata"]["uid"]
    ref = bench.records.put(**{"uid": uid, "settings": {"port": 80}, **(record or {})})
    request = ReleaseRequest(
        key=KEY, placement=PLACED, uid=uid, generation=obj["metadata"]["generation"], artifact=ARTIFACT, record=ref
    )
    return await bench.run(activities(bench).upgrade_release, request)


async def uninstall(bench: Bench) -> UninstallResult:
    ref = bench.records.stored[KEY][1]
    return await bench.run(
        activities(bench).uninstall_release, UninstallRequest(key=KEY, placement=PLACED, uid="u1", record=ref)
    )


def put(kube: FakeKube, ref: ObjectRef, **annotations: str) -> None:
    metadata = {"name": ref.name, "namespace": ref.namespace, "annotations": annotations}
    kube.put({"apiVersion": ref.api_version, "kind": ref.kind, "metadata": metadata})


async def test_the_release_gets_the_merged_values_and_is_awaited() -> None:
    bench = Bench()
    found = await upgrade(bench, timeouts={"readiness": "90s"})
    (request,) = bench.helm.upgrades
    assert request.values == {"replicas": 1, "port": 80}
    assert (request.ref.namespace, request.ref.name) == ("prod", "web")
    assert (found.action, found.name, found.revision, found.superseded) == ("installed", "web", 1, False)
    assert (bench.readiness.awaited, bench.readiness.deadline) == ([DEPLOYMENT], 90.0)
    assert bench.readiness.owner == (OWN, 1)


async def test_helm_masks_what_came_from_secrets_or_is_marked_and_nothing_else() -> None:
    bench = Bench()
    texts = {name: {"type": "string"} for name in ("image", "password", "mode")}
    schema = {"type": "object", "properties": {**texts, "token": {"type": "string", "format": "password"}}}
    bench.packages.package = package(static_values={"image": "redis"}, settings_schema=None, values_schema=schema)
    settings = {"token": "marked-1", "password": "canary-4711", "mode": "safe"}
    await upgrade(bench, record={"settings": settings, "secrets": ("canary-4711",)})
    (request,) = bench.helm.upgrades
    assert request.secrets == {"canary-4711", "marked-1"}


async def test_content_or_values_make_another_digest() -> None:
    bench = Bench()
    await upgrade(bench)
    await upgrade(bench)
    await upgrade(bench, record={"settings": {"port": 81}})
    first, second, third = (request.digest for request in bench.helm.upgrades)
    assert first == second != third


async def test_the_release_is_written_down_before_it_is_tried() -> None:
    bench = Bench()
    known: list[ReleasedRecord | None] = []

    async def look() -> None:
        known.append(bench.records.record.released)
        raise TransientError(Reason.APPLY_MANIFESTS_FAILED, "the connection broke")

    bench.helm.during = look
    with pytest.raises(TransientError):
        await upgrade(bench)
    assert known == [ReleasedRecord(digest=bench.helm.upgrades[0].digest, artifact=ARTIFACT)]


async def test_what_a_release_is_made_from_is_kept_beside_the_good_ones() -> None:
    bench = Bench()
    older = tuple(RevisionRecord(mark=mark, settings={"port": 1}, settings_digest=mark) for mark in ("good", "bad"))
    patches = ({"op": "add", "path": "/web/replicas", "value": 3},)
    obj = bench.application()
    ref = bench.records.put(
        uid=obj["metadata"]["uid"], settings={"port": 80}, settings_digest="s1", patches=patches, revisions=older
    )
    request = ReleaseRequest(
        key=KEY,
        placement=PLACED,
        uid=obj["metadata"]["uid"],
        generation=1,
        artifact=ARTIFACT,
        record=ref,
        keep=("good",),
    )
    saves = bench.records.saves
    await bench.run(activities(bench).upgrade_release, request)
    assert bench.records.saves == saves + 2, "with the write before the attempt; the other is about Helm's record"
    made = RevisionRecord(mark="sha256:1/s1", settings={"port": 80}, settings_digest="s1", patches=patches)
    assert bench.records.record.revisions == (older[0], made)


async def test_a_wait_that_is_given_up_for_something_newer_is_no_failure() -> None:
    bench = Bench()
    bench.readiness.ready = False
    assert (await upgrade(bench)).superseded


async def test_an_object_that_does_not_want_to_wait_is_not_awaited() -> None:
    bench = Bench()
    bench.readiness.ready = False
    assert not (await upgrade(bench, wait=False)).superseded
    assert bench.readiness.awaited == []


async def test_a_package_without_a_chart_has_no_release() -> None:
    bench = Bench()
    bench.packages.package = package(has_chart=False)
    found = await upgrade(bench)
    assert (found.action, found.name, bench.helm.upgrades) == ("none", "", [])
    assert found.values


async def test_what_helm_needs_is_checked_before_helm_is_called() -> None:
    bench = Bench()
    bench.packages.package = package(
        values_schema={"type": "object", "properties": {"cert": {"type": "string"}}, "x-required-for-helm": ["cert"]}
    )
    with pytest.raises(PermanentError) as refused:
        await upgrade(bench)
    assert "values.cert" in str(refused.value)
    assert bench.helm.upgrades == []


async def test_a_lost_record_is_said_so_instead_of_releasing_without_settings() -> None:
    bench = Bench()
    with pytest.raises(TransientError) as refused:
        await upgrade(bench, record={"settings": None})
    assert refused.value.reason is Reason.STATE_LOST
    assert bench.helm.upgrades == []


async def test_a_failure_of_the_wait_passes_through() -> None:
    bench = Bench()
    bench.readiness.failure = PermanentError(Reason.RESOURCE_FAILED, "Job/init failed")
    with pytest.raises(PermanentError) as failed:
        await upgrade(bench)
    assert failed.value.reason is Reason.RESOURCE_FAILED


async def test_an_object_that_was_replaced_is_not_released_for() -> None:
    bench = Bench()
    bench.application()
    request = ReleaseRequest(
        key=KEY,
        placement=PLACED,
        uid="an-earlier-one",
        generation=1,
        artifact=ARTIFACT,
    )
    with pytest.raises(TransientError) as refused:
        await bench.run(activities(bench).upgrade_release, request)
    assert refused.value.reason is Reason.API_CONFLICT
    assert bench.helm.upgrades == []


# -- uninstall -------------------------------------------------------------------------------------------------------


async def test_objects_are_awaited_and_what_the_chart_keeps_is_not() -> None:
    bench = Bench()
    bench.records.put(released=ReleasedRecord(digest="x", artifact=ARTIFACT))
    bench.helm.objects_of["web"] = (DEPLOYMENT, CLAIM)
    put(bench.kube, DEPLOYMENT)
    put(bench.kube, CLAIM, **{KEEP: "keep"})
    found = await uninstall(bench)
    assert (bench.helm.uninstalled, bench.readiness.gone, found.objects) == (["web"], [DEPLOYMENT], 2)
    assert (bench.records.record.leaving, bench.records.record.released) == ((), None)


async def test_a_repeated_attempt_awaits_what_the_first_one_left() -> None:
    bench = Bench()
    bench.records.put()
    bench.helm.objects_of["web"] = (DEPLOYMENT,)
    put(bench.kube, DEPLOYMENT)
    bench.readiness.failure = TransientError(Reason.UNINSTALL_FAILED, "Deployment/web is still there")
    with pytest.raises(TransientError):
        await uninstall(bench)
    assert bench.records.record.leaving == (asdict(DEPLOYMENT),)
    assert bench.helm.objects_of == {}  # Helm knows nothing of it any more
    bench.readiness.failure = None
    bench.readiness.gone.clear()
    await uninstall(bench)
    assert bench.readiness.gone == [DEPLOYMENT]
    assert bench.records.record.leaving == ()


async def test_what_is_dropped_next_is_not_written_once_more() -> None:
    bench = Bench()
    ref = bench.records.put(released=ReleasedRecord(digest="x", artifact=ARTIFACT))
    bench.helm.objects_of["web"] = (DEPLOYMENT,)
    before = bench.records.saves
    request = UninstallRequest(key=KEY, placement=PLACED, uid="u1", record=ref, last=True)
    found = await bench.run(activities(bench).uninstall_release, request)
    assert (found.objects, bench.helm.objects_of) == (1, {})
    assert bench.records.saves == before + 1
    assert bench.records.record.leaving == (asdict(DEPLOYMENT),)


async def test_no_release_is_gone_already() -> None:
    bench = Bench()
    bench.records.put()
    assert (await uninstall(bench)).objects == 0


# -- what settings refer to --------------------------------------------------------------------------------------------

REFERENCE = [{"kind": "ConfigMap", "name": "more", "key": "values"}]


def refer(bench: Bench, text: str, **other: str) -> None:
    metadata = {"name": "more", "namespace": KEY.namespace}
    bench.kube.put({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"values": text, **other}})


async def awaited(bench: Bench, uid: str, **fields: Any) -> ReleaseResult:
    ref = bench.records.put(uid=uid, settings={"port": 80})
    request = ReleaseRequest(
        key=KEY,
        placement=PLACED,
        uid=uid,
        generation=1,
        artifact=ARTIFACT,
        record=ref,
        **fields,
    )
    return await bench.run(activities(bench).upgrade_release, request)


async def test_a_wait_ends_when_what_settings_refer_to_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(helm, "LOOK_SECONDS", 0.01)
    bench = Bench()
    refer(bench, "port: 80")
    uid = bench.application(valuesFrom=REFERENCE)["metadata"]["uid"]
    ended: list[str] = []

    async def change() -> None:
        refer(bench, "port: 81")
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("the wait")

    bench.readiness.during = change
    found = await awaited(bench, uid, settings=await bench.objects.settings(KEY, uid))
    assert (found.superseded, ended) == (True, ["the wait"])


async def test_a_wait_goes_on_while_settings_stay_what_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(helm, "LOOK_SECONDS", 0.01)
    bench = Bench()
    refer(bench, "port: 80")
    uid = bench.application(valuesFrom=REFERENCE)["metadata"]["uid"]
    settings = await bench.objects.settings(KEY, uid)

    async def others() -> None:
        refer(bench, "port: 80", unrelated="true")
        looks = len(bench.kube.calls)
        await eventually(lambda: len(bench.kube.calls) > looks + 4)

    bench.readiness.during = others
    assert not (await awaited(bench, uid, settings=settings)).superseded
    bench.readiness.failure = TransientError(Reason.READINESS_TIMEOUT, "0 of 1")
    with pytest.raises(TransientError, match="0 of 1"):
        await awaited(bench, uid, settings=settings)


async def test_without_references_nothing_is_looked_at() -> None:
    bench = Bench()
    uid = bench.application()["metadata"]["uid"]
    assert not (await awaited(bench, uid, settings="anything")).superseded


async def test_a_turn_at_helm_ends_with_the_operation_and_not_with_the_wait() -> None:
    bench, turns = Bench(), Turns(1)
    uid = bench.application()["metadata"]["uid"]
    request = ReleaseRequest(
        key=KEY,
        placement=PLACED,
        uid=uid,
        generation=1,
        artifact=ARTIFACT,
        record=bench.records.put(uid=uid, settings={"port": 80}),
    )
    free: dict[str, bool] = {}

    def look(when: str) -> Callable[[], Awaitable[None]]:
        async def looked() -> None:
            free[when] = turns.free

        return looked

    bench.helm.during, bench.readiness.during = look("helm"), look("readiness")
    await bench.run(activities(bench, turns).upgrade_release, request)
    assert free == {"helm": False, "readiness": True}
    assert turns.free
