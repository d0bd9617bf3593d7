from __future__ import annotations

import base64
import gzip
import json
import uuid
from typing import Any

import pytest

from support.fake_kube import FakeKube
from windlass.adapters.kube import records
from windlass.adapters.kube.client import KubeClient
from windlass.adapters.kube.records import RecordStore
from windlass.contracts.record import JOURNAL_LIMIT, JournalEntry, PackageRecord, ReleasedRecord
from windlass.devstack.stack import Stack
from windlass.domain.digests import keyed_digest
from windlass.domain.errors import Actor, PermanentError, Reason, TransientError
from windlass.domain.ids import SYSTEM_NAMESPACE, Kind, PackageKey, record_name
from windlass.domain.packages.model import Artifact, Source
from windlass.ports.kube import ObjectRef

DIGEST_KEY = b"d" * 32
KEY = PackageKey(namespace="prod", name="billing")
ARTIFACT = Artifact(source=Source(repository="corp", package="billing", version="1.2.3"), digest="sha256:" + "a" * 64)
FULL = PackageRecord(
    uid="u-1",
    artifact=ARTIFACT,
    released=ReleasedRecord(digest="r", artifact=ARTIFACT),
    settings={"password": "hunter2", "list": [1, None, {"ü": 1.5}]},
    settings_digest="s",
    patches=({"op": "add", "path": "/billing/token", "value": "t"},),
    config_patches=({"op": "remove", "path": "/billing/x"},),
    started="sha256:b",
    completed="c",
    journal=(JournalEntry(run_id="1", result={"values": "v"}),),
)


@pytest.fixture
def kube() -> FakeKube:
    return FakeKube()


@pytest.fixture
def store(kube: FakeKube) -> RecordStore:
    return RecordStore(kube, DIGEST_KEY)


def secret_ref(key: PackageKey = KEY) -> ObjectRef:
    return ObjectRef(api_version="v1", kind="Secret", namespace=SYSTEM_NAMESPACE, name=record_name(key))


def stored(kube: FakeKube, key: PackageKey = KEY) -> dict[str, Any]:
    secret = kube.peek(secret_ref(key))
    assert secret is not None
    return secret


async def test_no_record_is_none(store: RecordStore) -> None:
    assert await store.load(KEY) is None
    await store.delete(KEY)


async def test_what_was_saved_is_loaded(kube: FakeKube, store: RecordStore) -> None:
    saved = await store.save(KEY, FULL, None)
    assert await store.load(KEY) == (FULL, saved)
    secret = stored(kube)
    assert secret["type"] == "windlass.dev/record"
    assert secret["metadata"]["labels"]["windlass.dev/package"] == "prod.billing"
    assert (saved.namespace, saved.resource_version) == ("windlass-system", secret["metadata"]["resourceVersion"])
    await store.delete(KEY)
    assert await store.load(KEY) is None


async def test_all_packages_with_a_record_are_listed(store: RecordStore) -> None:
    others = [PackageKey(kind=Kind.MODULE, name="dns"), PackageKey(namespace="stage", name="billing")]
    for key in (KEY, *others):
        await store.save(key, FULL, None)
    assert set(await store.stored("windlass")) == {KEY, *others}
    assert await store.stored("second") == {}


async def test_two_writers_do_not_overwrite_each_other(store: RecordStore) -> None:
    first = await store.save(KEY, FULL, None)
    with pytest.raises(TransientError) as there_already:
        await store.save(KEY, FULL, None)
    second = await store.save(KEY, FULL.model_copy(update={"completed": "new"}), first)
    with pytest.raises(TransientError) as stale:
        await store.save(KEY, FULL, first)
    await store.delete(KEY)
    with pytest.raises(TransientError) as gone:
        await store.save(KEY, FULL, second)
    assert {error.value.reason for error in (there_already, stale, gone)} == {Reason.API_CONFLICT}


async def test_saving_the_same_content_again_changes_nothing(store: RecordStore) -> None:
    first = await store.save(KEY, FULL, None)
    assert await store.save(KEY, FULL, first) == first


async def test_content_is_not_readable_without_unpacking_and_never_in_metadata(
    kube: FakeKube, store: RecordStore
) -> None:
    await store.save(KEY, FULL, None)
    assert "hunter2" not in json.dumps(stored(kube)["metadata"])


def tampered(content: dict[str, Any]) -> str:
    return base64.b64encode(gzip.compress(json.dumps(content).encode(), mtime=0)).decode()


@pytest.mark.parametrize(
    "change",
    [
        {"data": {"record": tampered({"uid": "u-1", "patches": []})}},
        {"data": {"record": "no base64!"}},
        {"data": {}},
        {"data": None},
        {"metadata": {"annotations": {records.DIGEST_ANNOTATION: "0" * 64}}},
        {"metadata": {"annotations": {}}},
        {"metadata": {"annotations": None}},
    ],
)
async def test_a_changed_secret_is_refused(kube: FakeKube, store: RecordStore, change: dict[str, Any]) -> None:
    await store.save(KEY, FULL, None)
    secret = stored(kube)
    kube.put({**secret, **change, "metadata": {**secret["metadata"], **change.get("metadata", {})}})
    with pytest.raises(PermanentError) as caught:
        await store.load(KEY)
    assert (caught.value.reason, caught.value.actor) == (Reason.STATE_REJECTED, Actor.ADMIN)
    assert f"Secret {record_name(KEY)} in namespace windlass-system" in caught.value.message
    assert "delete this Secret" in caught.value.hint


async def test_a_record_of_another_package_is_refused(kube: FakeKube, store: RecordStore) -> None:
    await store.save(KEY, FULL, None)
    for other in (
        PackageKey(namespace="stage", name="billing"),
        PackageKey(namespace="prod", name="other"),
        PackageKey(namespace="prod", name="billing", installation="second"),
    ):
        copied = stored(kube)
        copied["metadata"] = {
            **copied["metadata"],
            "name": record_name(other),
            "namespace": SYSTEM_NAMESPACE,
        }
        kube.put(copied)
        with pytest.raises(PermanentError, match="digest does not fit"):
            await store.load(other)


async def test_another_digest_key_is_refused(kube: FakeKube, store: RecordStore) -> None:
    await store.save(KEY, FULL, None)
    with pytest.raises(PermanentError, match="digest key was exchanged"):
        await RecordStore(kube, b"other" * 8).load(KEY)


async def test_newer_fields_are_ignored_and_older_records_read(kube: FakeKube, store: RecordStore) -> None:
    await store.save(KEY, FULL, None)
    for content, expected in (
        (
            {**FULL.model_dump(mode="json"), "schema_version": 9, "invented": {"later": 1}},
            {**FULL.model_dump(), "schema_version": 9},
        ),
        ({"uid": "u-1"}, PackageRecord(uid="u-1").model_dump()),
    ):
        write_signed(kube, content)
        loaded = await store.load(KEY)
        assert loaded is not None
        assert loaded[0].model_dump() == expected


@pytest.mark.parametrize("content", [{"uid": 7}, [], {"uid": "u", "journal": "x"}])
async def test_unreadable_content_is_refused_without_quoting_it(
    kube: FakeKube, store: RecordStore, content: Any
) -> None:
    await store.save(KEY, FULL, None)
    write_signed(kube, content)
    with pytest.raises(PermanentError, match="incompatible version"):
        await store.load(KEY)


def write_signed(kube: FakeKube, content: Any) -> None:
    packed = gzip.compress(json.dumps(content).encode(), mtime=0)
    owner = json.dumps(["windlass", "Application", KEY.namespace, KEY.name], separators=(",", ":")).encode()
    secret = stored(kube)
    secret["data"]["record"] = base64.b64encode(packed).decode()
    secret["metadata"]["annotations"][records.DIGEST_ANNOTATION] = keyed_digest(
        "record", owner + b"\0" + packed, DIGEST_KEY
    )
    kube.put(secret)


async def test_a_record_that_does_not_fit_is_refused_before_it_is_sent(kube: FakeKube, store: RecordStore) -> None:
    noise = "".join(uuid.uuid4().hex for _ in range(70_000))
    with pytest.raises(PermanentError, match="a Secret holds") as caught:
        await store.save(KEY, FULL.model_copy(update={"settings": {"noise": noise}}), None)
    assert caught.value.reason is Reason.STATE_REJECTED
    assert kube.calls == []


def test_the_journal_remembers_the_last_runs() -> None:
    record = PackageRecord(uid="u")
    for number in range(JOURNAL_LIMIT + 5):
        record = record.with_hook_run(f"run-{number}", {"values": str(number)})
    assert [entry.run_id for entry in record.journal] == [f"run-{n}" for n in range(5, JOURNAL_LIMIT + 5)]
    assert record.hook_result("run-4") is None
    assert record.hook_result("run-5") == {"values": "5"}
    again = record.with_hook_run("run-5", {"values": "again"})
    assert (len(again.journal), again.journal[-1].run_id) == (JOURNAL_LIMIT, "run-5")
    assert again.hook_result("run-5") == {"values": "again"}


@pytest.mark.stack
async def test_on_a_real_api_server(stack: Stack) -> None:
    key = PackageKey(namespace=f"records-{uuid.uuid4().hex[:8]}", name="billing")
    async with KubeClient.from_kubeconfig(stack.kubeconfig) as kube:
        store = RecordStore(kube, DIGEST_KEY)
        assert await store.load(key) is None
        first = await store.save(key, FULL, None)
        assert await store.load(key) == (FULL, first)
        with pytest.raises(TransientError) as there_already:
            await store.save(key, FULL, None)
        second = await store.save(key, FULL.model_copy(update={"completed": "new"}), first)
        assert second.resource_version != first.resource_version
        with pytest.raises(TransientError) as stale:
            await store.save(key, FULL, first)
        await kube.patch(secret_ref(key), {"data": {"record": base64.b64encode(b"edited").decode()}}, kind="merge")
        with pytest.raises(PermanentError) as edited:
            await store.load(key)
        await store.delete(key)
        await store.delete(key)
        assert await store.load(key) is None
        with pytest.raises(TransientError) as gone:
            await store.save(key, FULL, second)
    assert {error.value.reason for error in (there_already, stale, gone)} == {Reason.API_CONFLICT}
    assert edited.value.reason is Reason.STATE_REJECTED
