"""Entities in key-value buckets of a real NATS server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from controllerruntime.following import following

from support.waiting import eventually
from windlass.adapters.nats import reading
from windlass.adapters.nats.connection import NatsConnection
from windlass.adapters.nats.entities import BucketEntities, ensure_bucket
from windlass.domain.entities import Operation
from windlass.domain.errors import PermanentError, Reason, TransientError
from windlass.ports.entities import EntityClient

NewName = Callable[[str], str]
PUT, DELETE, PURGE = Operation.PUT, Operation.DELETE, Operation.PURGE


@pytest.fixture
async def bucket(connection: NatsConnection, new_name: NewName) -> str:
    name = new_name("routes")
    await ensure_bucket(connection, name, history=3)
    return name


@pytest.fixture
def entities(connection: NatsConnection, bucket: str) -> BucketEntities:
    return BucketEntities(connection, bucket)


async def test_what_is_put_can_be_read_until_it_is_deleted(entities: BucketEntities) -> None:
    client: EntityClient = entities
    assert await client.get("a") is None
    version = await client.create("a", {"n": 1, "text": "é"})
    found = await client.get("a")
    assert found is not None
    assert (found.version, found.document) == (version, {"n": 1, "text": "é"})
    changed = await client.update("a", {"n": 2}, version=version)
    assert int(changed) > int(version)
    assert [item.document for item in await client.list()] == [{"n": 2}]
    assert [item.document for item in await client.list(content=False)] == [None]
    assert await client.delete("a")
    assert not await client.delete("a")
    assert await client.get("a") is None
    assert list(await client.list()) == []


async def test_a_precondition_that_does_not_hold_is_a_conflict(entities: BucketEntities) -> None:
    first = await entities.create("a", {"n": 1})
    await entities.put("a", {"n": 2})
    for refused in (
        entities.create("a", {}),
        entities.update("a", {}, version=first),
        entities.delete("a", version=first),
        entities.purge("a", version=first),
        entities.update("b", {}, version="99999"),
    ):
        with pytest.raises(TransientError) as caught:
            await refused
        assert caught.value.reason is Reason.API_CONFLICT
    found = await entities.get("a")
    assert found is not None
    assert found.document == {"n": 2}


@pytest.mark.parametrize("gone", ["delete", "purge"])
async def test_a_key_can_be_created_again(entities: BucketEntities, gone: str) -> None:
    await entities.create("a", {"n": 1})
    assert await getattr(entities, gone)("a")
    assert await entities.get("a") is None
    await entities.create("a", {"n": 2})
    found = await entities.get("a")
    assert found is not None
    assert found.document == {"n": 2}


async def test_put_delete_and_purge_are_told_apart(entities: BucketEntities) -> None:
    await entities.put("before", {"n": 1})
    await entities.put("gone", {})
    await entities.delete("gone")
    async with following(entities) as notes:
        await eventually(lambda: notes.pictures, 20)
        assert notes.last_keys == {"before"}
        await entities.put("a", {"n": 1})
        await entities.put("a", {"n": 2})
        await entities.delete("a")
        await entities.put("b/c=d_e-f.g", {})
        await entities.purge("b/c=d_e-f.g")
        wanted = [(PUT, "a"), (PUT, "a"), (DELETE, "a"), (PUT, "b/c=d_e-f.g"), (PURGE, "b/c=d_e-f.g")]
        await eventually(lambda: notes.changes == wanted, 20)
    assert not notes.errors
    assert len(notes.pictures) == 1


async def test_an_empty_bucket_has_an_empty_picture(entities: BucketEntities) -> None:
    async with following(entities) as notes:
        await eventually(lambda: notes.pictures, 20)
        assert notes.last_keys == set()


async def test_what_expires_is_told_where_the_server_leaves_markers(
    connection: NatsConnection, new_name: NewName
) -> None:
    name = new_name("leases")
    await ensure_bucket(connection, name, ttl=1, marker_ttl=60)
    entities = BucketEntities(connection, name)
    async with following(entities) as notes:
        await eventually(lambda: notes.pictures, 20)
        await entities.put("a", {"n": 1})
        await eventually(lambda: (PURGE, "a") in notes.changes, 30)
    assert await entities.get("a") is None, "a marker of the server is no value"
    assert not await entities.delete("a")
    assert list(await entities.list()) == []
    await entities.create("a", {"n": 2})


async def test_what_expires_without_a_marker_is_seen_by_listing(connection: NatsConnection, new_name: NewName) -> None:
    name = new_name("leases")
    await ensure_bucket(connection, name, ttl=1)
    entities = BucketEntities(connection, name)
    async with following(entities) as notes:
        await eventually(lambda: notes.pictures, 20)
        await entities.put("a", {"n": 1})

        async def expired() -> bool:
            return not await entities.list()

        await eventually(expired, 30)
        assert notes.changes == [(PUT, "a")]
    assert await entities.get("a") is None


async def test_a_slow_reader_misses_nothing_and_holds_nobody_up(entities: BucketEntities, bucket: str) -> None:
    count = 5 * reading.BATCH
    errors: list[Exception] = []
    stream = entities.follow(errors.append)
    await anext(stream)
    await asyncio.gather(*(entities.put(f"k{n % 400}", {"n": n}) for n in range(count)))
    # Others get their answers while this one does not read.
    assert await BucketEntities(entities._connection, bucket).get("k1") is not None
    seen = []
    async with asyncio.timeout(60):
        while len({change.item.key for change in seen}) < 400 or seen[-1].item.version != str(count):
            change = await anext(stream)
            seen.append(change)
    versions = [int(change.item.version) for change in seen]
    assert versions == sorted(versions)
    assert errors == []
    await stream.aclose()


async def test_values_that_are_no_json_object_are_somebodys_mistake(
    entities: BucketEntities, connection: NatsConnection, bucket: str
) -> None:
    raw = await connection.client.jetstream().key_value(bucket)
    async with following(entities) as notes:
        await eventually(lambda: notes.pictures, 20)
        for value in (b"", b"[1]", b"\xff\xfe", b"{", b"null"):
            await raw.put("bad", value)
            with pytest.raises(PermanentError) as caught:
                await entities.get("bad")
            assert caught.value.reason is Reason.VALIDATION_FAILED
            assert f"{bucket}/bad" in str(caught.value)
        await entities.put("good", {})
        await eventually(lambda: notes.changes[-1] == (PUT, "good"), 20)
    assert {item.key: item.document for item in await entities.list()} == {"bad": None, "good": {}}


@pytest.mark.parametrize("key", ["", ".a", "a.", "a..b", "a b", "a*", "a>", "ä", "a" * 2000])
async def test_a_key_that_cannot_be_is_refused_before_the_server_is_asked(entities: BucketEntities, key: str) -> None:
    for call in (entities.get(key), entities.put(key, {}), entities.create(key, {}), entities.delete(key)):
        with pytest.raises(PermanentError) as caught:
            await call
        assert caught.value.reason is Reason.VALIDATION_FAILED


async def test_a_bucket_that_is_not_there_yet_is_waited_for(connection: NatsConnection, new_name: NewName) -> None:
    name = new_name("late")
    entities = BucketEntities(connection, name)
    for call in (entities.get("a"), entities.list(), entities.put("a", {})):
        with pytest.raises(TransientError):
            await call
    async with following(entities) as notes:
        await eventually(lambda: notes.errors, 20)
        assert name in str(notes.errors[0])
        await ensure_bucket(connection, name)
        await eventually(lambda: notes.pictures, 20)


async def test_a_bucket_that_is_made_anew_is_followed_anew(connection: NatsConnection, new_name: NewName) -> None:
    name = new_name("again")
    await ensure_bucket(connection, name)
    entities = BucketEntities(connection, name)
    for n in range(5):
        await entities.put("a", {"n": n})
    async with following(entities) as notes:
        await eventually(lambda: notes.pictures, 20)
        await connection.client.jetstream().delete_key_value(name)
        await ensure_bucket(connection, name)
        await entities.put("b", {})  # at revision 1: lower than all that were seen
        await eventually(lambda: notes.last_keys == {"b"} or (PUT, "b") in notes.changes, 40)
