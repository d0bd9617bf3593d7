from __future__ import annotations

from typing import Any

import pytest
from activities.fakes import ARTIFACT, DIGEST_KEY, KEY, OWN, PLACED, SOURCE, Bench, package

from windlass.activities.cleaning import CleaningActivities
from windlass.activities.packages import PackageActivities
from windlass.activities.settings import SettingsActivities
from windlass.contracts.record import ReleasedRecord, RevisionRecord
from windlass.contracts.steps import (
    DownloadRequest,
    FinalizerRequest,
    InstallRequest,
    LoadRequest,
    PackageRequest,
    SettingsRequest,
)
from windlass.domain.errors import PermanentError, Reason, TransientError
from windlass.domain.ids import FINALIZER
from windlass.domain.packages.model import Artifact
from windlass.ports.hooks import Verdict
from windlass.ports.kube import Object, ObjectRef


def activities(bench: Bench) -> PackageActivities:
    return PackageActivities(
        kube=bench.kube,
        objects=bench.objects,
        packages=bench.packages,
        contents=bench.contents,
        references=bench.references,
        targets=bench.targets,
        openings=bench.openings,
    )


def settings(bench: Bench) -> SettingsActivities:
    return SettingsActivities(
        objects=bench.objects,
        contents=bench.contents,
        jq=bench.jq,
        scripts=bench.scripts,
        openings=bench.openings,
        digest_key=DIGEST_KEY,
    )


def finalizers(bench: Bench) -> list[str]:
    obj = bench.kube.peek(OWN)
    assert obj is not None
    return obj["metadata"].get("finalizers") or []


# -- finalizer -------------------------------------------------------------------------------------------------------


async def test_the_finalizer_is_put_beside_others_and_only_once() -> None:
    bench = Bench()
    uid = bench.application(metadata={"finalizers": ["example.dev/theirs"]})["metadata"]["uid"]
    for _ in range(2):
        await bench.run(activities(bench).add_finalizer, FinalizerRequest(key=KEY, uid=uid))
    assert finalizers(bench) == ["example.dev/theirs", FINALIZER]
    assert bench.kube.verbs().count("patch") == 1


async def test_the_finalizer_is_taken_off_and_others_stay() -> None:
    bench = Bench()
    uid = bench.application(metadata={"finalizers": [FINALIZER, "example.dev/theirs"]})["metadata"]["uid"]
    for _ in range(2):
        await bench.run(activities(bench).release_finalizer, FinalizerRequest(key=KEY, uid=uid))
    assert finalizers(bench) == ["example.dev/theirs"]


async def test_a_finalizer_that_meets_another_writer_is_put_by_the_next_attempt() -> None:
    bench = Bench()
    uid = bench.application()["metadata"]["uid"]
    read = bench.kube.get

    async def get(ref: ObjectRef) -> Object | None:
        found = await read(ref)
        bench.application(metadata={"labels": {"written": "meanwhile"}})
        return found

    bench.kube.get = get
    with pytest.raises(TransientError) as refused:
        await bench.run(activities(bench).add_finalizer, FinalizerRequest(key=KEY, uid=uid))
    assert refused.value.reason is Reason.API_CONFLICT


async def test_the_object_of_another_life_is_left_alone() -> None:
    bench = Bench()
    bench.application(metadata={"finalizers": [FINALIZER]})
    await bench.run(activities(bench).release_finalizer, FinalizerRequest(key=KEY, uid="an-earlier-one"))
    assert finalizers(bench) == [FINALIZER]
    with pytest.raises(TransientError) as refused:
        await bench.run(activities(bench).add_finalizer, FinalizerRequest(key=KEY, uid="an-earlier-one"))
    assert refused.value.reason is Reason.API_CONFLICT


async def test_no_object_has_no_finalizer_to_take_off() -> None:
    bench = Bench()
    await bench.run(activities(bench).release_finalizer, FinalizerRequest(key=KEY, uid="u1"))
    assert "patch" not in bench.kube.verbs()


# -- content ---------------------------------------------------------------------------------------------------------


async def test_download_pins_and_fetches() -> None:
    bench = Bench()
    found = await bench.run(activities(bench).download, DownloadRequest(key=KEY, source=SOURCE))
    assert found.artifact.source == SOURCE
    assert bench.packages.cache == {found.artifact.digest}


async def test_a_repository_that_is_missing_may_still_come() -> None:
    bench = Bench()
    bench.kube = type(bench.kube)()
    with pytest.raises(TransientError) as refused:
        await bench.run(activities(bench).download, DownloadRequest(key=KEY, source=SOURCE))
    assert refused.value.reason is Reason.REPOSITORY_NOT_FOUND
    assert "'shelf'" in str(refused.value)


async def test_install_switches_and_leaves_the_record_to_the_settings() -> None:
    bench = Bench()
    result = await bench.run(activities(bench).install, InstallRequest(key=KEY, uid="u1", artifact=ARTIFACT))
    assert bench.packages.installed == {"prod.web": ARTIFACT.digest}
    assert (result.record, bench.records.stored) == (None, {})


async def test_hooks_are_asked_once_for_each_content() -> None:
    bench = Bench()
    bench.packages.package = package(hook_files=("hooks/a", "hooks/b"))
    steps = activities(bench)
    for _ in range(2):
        loaded = (await bench.run(steps.load, LoadRequest(key=KEY, artifact=ARTIFACT))).loaded
        assert [hook.path for hook in loaded.hooks] == ["hooks/a", "hooks/b"]
        assert loaded.artifact == ARTIFACT
    assert bench.hooks.discovered == 1


# -- settings --------------------------------------------------------------------------------------------------------


async def apply(bench: Bench, **spec: Any) -> Any:
    uid = bench.application(**spec)["metadata"]["uid"]
    ref = bench.records.stored[KEY][1] if KEY in bench.records.stored else None
    request = SettingsRequest(key=KEY, placement=PLACED, uid=uid, artifact=ARTIFACT, record=ref)
    return await bench.run(settings(bench).apply_settings, request)


async def test_settings_content_and_release_are_one_write() -> None:
    bench = Bench()
    applied = await apply(bench, settings={"port": 1})
    record = bench.records.record
    assert (bench.records.saves, record.artifact, record.settings) == (1, ARTIFACT, {"port": 1})
    assert record.released is not None
    assert record.released.artifact == ARTIFACT
    assert [one.settings for one in record.revisions] == [{"port": 1}]
    assert applied.record == bench.records.stored[KEY][1]


async def test_a_release_that_hooks_come_before_is_not_foretold() -> None:
    bench = Bench()
    bench.packages.package = package(hook_files=("hooks/a",))
    await apply(bench, settings={"port": 1})
    assert (bench.records.record.released, bench.records.record.revisions) == (None, ())


async def test_the_release_of_another_content_stays_until_it_is_replaced() -> None:
    bench = Bench()
    uid = bench.application()["metadata"]["uid"]
    old = ReleasedRecord(digest="d", artifact=Artifact(source=SOURCE, digest="sha256:0"))
    bench.records.put(uid=uid, artifact=old.artifact, released=old)
    await apply(bench, settings={"port": 1})
    assert (bench.records.record.artifact, bench.records.record.released) == (ARTIFACT, old)


@pytest.mark.parametrize(("digest", "kept"), [(ARTIFACT.digest, True), ("sha256:0", False)])
async def test_values_that_hooks_worked_out_end_with_their_version(digest: str, kept: bool) -> None:
    bench = Bench()
    uid = bench.application()["metadata"]["uid"]
    patch = {"op": "add", "path": "/web/x", "value": 1}
    bench.records.put(uid=uid, artifact=Artifact(source=SOURCE, digest=digest), patches=(patch,))
    await apply(bench)
    assert bench.records.record.patches == ((patch,) if kept else ())


async def test_the_record_of_an_earlier_life_lends_no_values() -> None:
    bench = Bench()
    patch = {"op": "add", "path": "/web/x", "value": 1}
    bench.records.put(uid="an-earlier-one", artifact=ARTIFACT, patches=(patch,), settings={"port": 1})
    await apply(bench, settings={"port": 2})
    record = bench.records.record
    assert record.uid != "an-earlier-one"
    assert (record.patches, record.settings) == ((), {"port": 2})


async def test_settings_are_applied_and_kept() -> None:
    bench = Bench()
    first = await apply(bench, settings={"port": 80})
    assert bench.records.record.settings == {"port": 80}
    assert bench.records.record.settings_digest == first.settings
    second = await apply(bench, settings={"port": 81})
    assert (first.settings, first.values) != (second.settings, second.values)


async def test_invalid_settings_say_where_and_leave_what_was_applied() -> None:
    bench = Bench()
    await apply(bench, settings={"port": 80})
    with pytest.raises(PermanentError) as refused:
        await apply(bench, settings={"port": 0})
    assert refused.value.reason is Reason.VALIDATION_FAILED
    assert "settings.port" in str(refused.value)
    assert bench.records.record.settings == {"port": 80}


async def test_what_comes_from_a_secret_is_not_shown_when_it_is_refused() -> None:
    bench = Bench()
    bench.kube.put(
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "more", "namespace": "prod"},
            "stringData": {"values.yaml": "port: canary-4711"},
        }
    )
    with pytest.raises(PermanentError) as refused:
        await apply(bench, valuesFrom=[{"kind": "Secret", "name": "more"}])
    assert "settings.port" in str(refused.value)
    assert "canary" not in str(refused.value)


async def test_texts_of_a_secret_are_recorded_to_be_masked_and_others_are_not() -> None:
    bench = Bench()
    bench.packages.package = package(
        static_values={"image": "redis"}, settings_schema={"type": "object", "additionalProperties": True}
    )
    for kind, text in (("Secret", "password: canary-4711\nport: 8080\nuser: abc\n"), ("ConfigMap", "host: db.example")):
        data = {"stringData" if kind == "Secret" else "data": {"values.yaml": text}}
        metadata = {"name": "more", "namespace": "prod"}
        bench.kube.put({"apiVersion": "v1", "kind": kind, "metadata": metadata, **data})
    references = [{"kind": kind, "name": "more"} for kind in ("Secret", "ConfigMap")]
    await apply(bench, valuesFrom=references, settings={"mode": "safe"})
    assert bench.records.record.secrets == ("canary-4711",)


async def test_a_reference_that_is_missing_may_still_come_unless_it_is_optional() -> None:
    bench = Bench()
    reference: dict[str, Any] = {"kind": "ConfigMap", "name": "more"}
    with pytest.raises(TransientError) as refused:
        await apply(bench, valuesFrom=[reference])
    assert refused.value.reason is Reason.VALUES_SOURCE_NOT_FOUND
    await apply(bench, valuesFrom=[{**reference, "optional": True}])
    assert bench.records.record.settings == {}


async def test_values_that_follow_from_valid_settings_are_checked_too() -> None:
    bench = Bench()
    bench.packages.package = package(
        values_schema={"type": "object", "properties": {"port": {"type": "integer", "maximum": 1000}}}
    )
    with pytest.raises(PermanentError) as refused:
        await apply(bench, settings={"port": 2000})
    assert "values.port" in str(refused.value)


async def test_settings_of_an_object_that_was_replaced_are_not_applied() -> None:
    bench = Bench()
    bench.application()
    request = SettingsRequest(key=KEY, placement=PLACED, uid="an-earlier-one", artifact=ARTIFACT)
    with pytest.raises(TransientError) as refused:
        await bench.run(settings(bench).apply_settings, request)
    assert refused.value.reason is Reason.API_CONFLICT
    assert bench.records.stored == {}


async def test_the_settings_of_a_good_release_are_brought_back_whatever_the_object_says() -> None:
    bench = Bench()
    good = await apply(bench, settings={"port": 80})
    kept = RevisionRecord(
        mark="sha256:1/s1",
        settings={"port": 80},
        settings_digest=good.settings,
        patches=({"op": "add", "path": "/web/replicas", "value": 7},),
    )
    uid = bench.application(settings={"port": 0})["metadata"]["uid"]
    bench.records.put(uid=uid, settings={"port": 81}, settings_digest="s2", revisions=(kept,))
    request = SettingsRequest(
        key=KEY,
        placement=PLACED,
        uid=uid,
        artifact=ARTIFACT,
        restore="sha256:1/s1",
    )
    found = await bench.run(settings(bench).apply_settings, request)
    assert found.settings == good.settings
    assert found.values != good.values, "with what the hooks had patched"
    assert (bench.records.record.settings, bench.records.record.patches) == ({"port": 80}, kept.patches)


async def test_a_good_release_whose_settings_are_lost_says_so() -> None:
    bench = Bench()
    await apply(bench, settings={"port": 80})
    request = SettingsRequest(
        key=KEY,
        placement=PLACED,
        uid="u1",
        artifact=ARTIFACT,
        restore="sha256:1/gone",
    )
    with pytest.raises(PermanentError) as refused:
        await bench.run(settings(bench).apply_settings, request)
    assert refused.value.reason is Reason.REVISION_LOST
    assert "does not hold the settings of the good release of version 1.0.0" in str(refused.value)
    assert bench.records.record.settings == {"port": 80}


# -- the end ---------------------------------------------------------------------------------------------------------


async def test_cleaning_up_drops_files_account_and_record_and_may_be_repeated() -> None:
    bench = Bench()
    bench.records.put(artifact=ARTIFACT)
    bench.packages.installed["prod.web"] = ARTIFACT.digest
    cleaning = CleaningActivities(
        packages=bench.packages,
        records=bench.records,
        watches=bench.watches,
        metrics=bench.metrics,
    )
    for _ in range(2):
        await bench.run(cleaning.clean_up, PackageRequest(key=KEY))
    assert (bench.records.stored, bench.packages.installed) == ({}, {})


async def test_a_modules_own_script_is_shown_the_values_and_its_no_is_passed_on() -> None:
    bench = Bench()
    bench.packages.package = package(enabled_script=True)
    bench.scripts.verdict = Verdict(enabled=False, reason="not today")
    assert (await apply(bench, settings={"port": 80})).disabled == "not today"
    (run,) = bench.scripts.runs
    assert (run.values["web"]["port"], run.config_values["web"]) == (80, {"port": 80})

    bench.scripts.verdict = Verdict(enabled=False)
    assert (await apply(bench, settings={"port": 81})).disabled == "the script 'enabled' says so"
    bench.scripts.verdict = Verdict(enabled=True)
    assert (await apply(bench, settings={"port": 82})).disabled == ""
