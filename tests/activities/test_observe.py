from __future__ import annotations

from typing import Any

import pytest
from activities.fakes import ARTIFACT, DIGEST_KEY, KEY, SOURCE, Bench

from windlass.activities.observe import BURST_SECONDS, SHOW_MOST, ObserveActivities
from windlass.contracts.record import ReleasedRecord
from windlass.contracts.steps import Observation, ObserveRequest
from windlass.domain.errors import Reason, TransientError
from windlass.domain.ids import ABANDON_ANNOTATION, FINALIZER
from windlass.domain.lifecycle.conditions import Status, Type, find
from windlass.domain.lifecycle.steps import ATTEMPTS, OnFailure
from windlass.domain.packages.model import Artifact, Source
from windlass.ports.packages import Repository


def observing(bench: Bench) -> ObserveActivities:
    return ObserveActivities(
        objects=bench.objects,
        references=bench.references,
        records=bench.records,
        contents=bench.contents,
        openings=bench.openings,
        clock=bench.clock,
        digest_key=DIGEST_KEY,
    )


async def observed(bench: Bench, *, restore: bool = False) -> Observation:
    return await bench.run(observing(bench).observe, ObserveRequest(key=KEY, restore=restore))


async def test_no_object_is_no_wish() -> None:
    found = await observed(Bench())
    assert not found.desired.exists
    assert found.restored is None


async def test_what_the_object_says() -> None:
    bench = Bench()
    obj = bench.application(
        metadata={"finalizers": [FINALIZER], "annotations": {ABANDON_ANNOTATION: "true"}},
        suspend=True,
        deleteOnDisable=True,
    )
    desired = (await observed(bench)).desired
    assert (desired.exists, desired.uid, desired.generation) == (True, obj["metadata"]["uid"], 1)
    assert (desired.finalizer, desired.abandon, desired.deleting) == (True, True, False)
    assert (desired.suspended, desired.delete_on_disable, desired.source) == (True, True, SOURCE)


@pytest.mark.parametrize(
    ("upgrade", "policy", "attempts"),
    [
        (None, OnFailure.RETRY, ATTEMPTS),
        ({"onFailure": "rollback"}, OnFailure.ROLLBACK, ATTEMPTS),
        ({"onFailure": "hold", "attempts": 1}, OnFailure.HOLD, 1),
    ],
)
async def test_the_policy_of_upgrades(upgrade: dict[str, Any] | None, policy: OnFailure, attempts: int) -> None:
    bench = Bench()
    bench.application(**({"upgrade": upgrade} if upgrade else {}))
    desired = (await observed(bench)).desired
    assert (desired.on_failure, desired.attempts) == (policy, attempts)


@pytest.mark.parametrize("value", ["false", "", "True"])
async def test_only_the_documented_word_abandons(value: str) -> None:
    bench = Bench()
    bench.application(metadata={"annotations": {ABANDON_ANNOTATION: value}})
    assert not (await observed(bench)).desired.abandon


async def test_the_digest_of_settings_follows_spec_and_references_and_shows_neither() -> None:
    bench = Bench()
    reference = [{"kind": "Secret", "name": "more"}]
    digests: list[str] = []
    for text, port in (("canary-a", 1), ("canary-b", 1), ("canary-b", 2)):
        bench.kube.put(
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {"name": "more", "namespace": "prod"},
                "stringData": {"values.yaml": text},
            }
        )
        bench.application(valuesFrom=reference, settings={"port": port})
        found = await observed(bench)
        assert "canary" not in found.model_dump_json()
        digests.append(found.desired.settings)
    assert len(set(digests)) == 3


async def test_a_second_look_at_the_same_sees_the_same() -> None:
    bench = Bench()
    bench.application(settings={"port": 1})
    assert await observed(bench) == await observed(bench)


async def test_an_annotation_is_seen_and_changes_no_settings() -> None:
    bench = Bench()
    bench.application()
    before = await observed(bench)
    bench.application(metadata={"annotations": {"note": "x"}})
    after = await observed(bench)
    assert before.seen.digest != after.seen.digest
    assert before.desired.settings == after.desired.settings


STATUS: dict[str, Any] = {
    "version": "1.0.0",
    "completed": "sha256:1/s1",
    "release": {"name": "prod.web", "namespace": "prod", "revision": 4},
    "conditions": [
        {"type": "Ready", "status": "True", "reason": "Ready", "lastTransitionTime": "2026-01-01T00:00:00Z"},
        {"type": "FromTheFuture", "status": "True", "reason": "X", "lastTransitionTime": "2026-01-01T00:00:00Z"},
    ],
    "actions": [
        {"action": "retry", "who": "ada", "at": "2026-01-01T00:00:00Z"},
        {"action": "retry", "who": "bob", "at": "2026-01-01T00:00:02Z"},
    ],
    "paused": True,
}


async def test_what_outlived_the_workflow_is_restored() -> None:
    bench = Bench()
    uid = bench.application(status=STATUS)["metadata"]["uid"]
    ref = bench.records.put(uid=uid, artifact=ARTIFACT, released=ReleasedRecord(digest="x", artifact=ARTIFACT))
    restored = (await observed(bench, restore=True)).restored
    assert restored is not None
    assert (restored.artifact, restored.released, restored.record) == (ARTIFACT, ARTIFACT, ref)
    assert (restored.completed, restored.version) == ("sha256:1/s1", "1.0.0")
    assert restored.release is not None
    assert restored.release.revision == 4
    assert [condition.type for condition in restored.conditions] == list(Type)
    assert find(restored.conditions, Type.READY).status is Status.TRUE
    assert restored.paused, "also when later actions have pushed the pause out of the list"
    assert [action.who for action in restored.actions] == ["ada", "bob"]


async def test_another_life_leaves_its_content_and_release_and_nothing_else() -> None:
    bench = Bench()
    bench.application(status=STATUS)
    bench.records.put(uid="an-earlier-one", artifact=ARTIFACT, released=ReleasedRecord(digest="x", artifact=ARTIFACT))
    restored = (await observed(bench, restore=True)).restored
    assert restored is not None
    assert (restored.artifact, restored.released) == (ARTIFACT, ARTIFACT)
    assert (restored.completed, restored.version, restored.release, restored.conditions) == ("", "", None, ())


async def test_a_record_without_its_object_is_found() -> None:
    bench = Bench()
    bench.records.put(artifact=ARTIFACT)
    restored = (await observed(bench, restore=True)).restored
    assert restored is not None
    assert restored.artifact == ARTIFACT


async def test_a_deleted_object_whose_secret_is_broken_can_still_be_observed() -> None:
    bench = Bench()
    bench.kube.put(
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "more", "namespace": "prod"},
            "data": {"values.yaml": "//79"},
        }
    )
    bench.application(
        valuesFrom=[{"kind": "Secret", "name": "more"}], metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}
    )
    assert (await observed(bench)).desired.exists


# -- what is at hand -------------------------------------------------------------------------------------------------

DIGEST = f"sha256:{SOURCE.repository}/{SOURCE.version}"


async def test_content_that_is_at_hand_and_opened_is_pinned_by_the_look() -> None:
    bench = Bench()
    bench.application()
    bench.packages.cache.add(DIGEST)
    assert (await observed(bench)).artifact is None
    await bench.openings.open(KEY, Artifact(source=SOURCE, digest=DIGEST))
    assert (await observed(bench)).artifact == Artifact(source=SOURCE, digest=DIGEST)


async def test_a_suspected_package_goes_through_the_download() -> None:
    bench = Bench()
    bench.application()
    bench.packages.cache.add(DIGEST)
    await bench.openings.open(KEY, Artifact(source=SOURCE, digest=DIGEST))
    bench.suspects.keys.add(KEY)
    assert (await observed(bench)).artifact is None


@pytest.mark.parametrize("spec", [{"suspend": True}, {"package": {"repository": "x", "name": "web", "version": "1"}}])
async def test_what_is_not_wanted_or_not_there_is_not_pinned(spec: dict[str, Any]) -> None:
    bench = Bench()
    bench.application(**spec)
    bench.packages.cache.add(DIGEST)
    assert (await observed(bench)).artifact is None


async def test_content_that_has_to_be_fetched_is_left_to_the_download() -> None:
    bench = Bench()
    bench.application()
    assert (await observed(bench)).artifact is None


async def test_what_is_pinned_already_is_not_looked_for() -> None:
    bench = Bench()
    bench.application()
    bench.packages.cache.add(DIGEST)
    activities = observing(bench)
    found = await bench.run(activities.observe, ObserveRequest(key=KEY, pinned=SOURCE))
    assert found.artifact is None


async def test_a_repository_that_cannot_be_read_is_told_by_the_download() -> None:
    bench = Bench()
    bench.application()

    async def refuse(repository: Repository, source: Source) -> Artifact | None:
        raise TransientError(Reason.DOWNLOAD_FAILED, f"{repository.name} is gone, and {source} with it")

    bench.packages.at_hand = refuse
    assert (await observed(bench)).artifact is None


async def test_of_many_packages_each_is_shown_later() -> None:
    bench = Bench()
    bench.application()
    activities = observing(bench)

    async def look() -> float:
        return (await bench.run(activities.observe, ObserveRequest(key=KEY))).show_after

    assert [await look() for _ in range(20)] == [0.0] * 20
    assert await look() > 1.0
    found = [await look() for _ in range(200)]
    assert found == sorted(found)
    assert found[-1] == SHOW_MOST
    bench.clock.time += BURST_SECONDS + 1
    assert await look() == 0.0
