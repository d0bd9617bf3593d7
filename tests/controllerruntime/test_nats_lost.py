"""The NATS server, or the way to it, goes away in the middle of work."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from controllerruntime.following import following
from controllerruntime.memory import Controller

from support.cut import wire
from support.nats import NatsServer, nats_server
from support.waiting import eventually
from windlass.adapters.nats.access import NatsAccess
from windlass.adapters.nats.connection import NatsConnection, connected
from windlass.adapters.nats.entities import BucketEntities, ensure_bucket
from windlass.controllerruntime import ControllerRuntime
from windlass.domain.entities import Operation
from windlass.domain.errors import PermanentError, Reason, TransientError, WindlassError

WITHIN = 60.0


@pytest.fixture
def mortal(tmp_path: Path) -> Iterator[NatsServer]:
    with nats_server(tmp_path / "nats") as running:
        yield running


@pytest.fixture
async def link(mortal: NatsServer) -> AsyncIterator[NatsConnection]:
    async with connected(mortal.access) as opened:
        await ensure_bucket(opened, "routes", history=2)
        await ensure_bucket(opened, "made")
        yield opened


class Copying(Controller):
    """Makes of every primary a secondary with the same content."""

    primary: BucketEntities
    made: BucketEntities

    async def sync_handler(self, key: str) -> None:
        await super().sync_handler(key)
        found = await self.primary.get(key)
        there = await self.made.get(key)
        if found is None:
            await self.made.delete(key)
            return
        wanted = self.runtime.owned({"metadata": {"name": key}, "spec": (found.document or {})["spec"]}, key)
        if there is None:
            await self.made.create(key, wanted)
        elif there.document != wanted:
            await self.made.update(key, wanted, version=there.version)


def copying(link: NatsConnection, **options: Any) -> Copying:
    primary, made = BucketEntities(link, "routes"), BucketEntities(link, "made")
    runtime = ControllerRuntime("copy", "Route", primary, **{"resync": 3600, "secondaries": [made], **options})
    controller = Copying(runtime)
    controller.primary, controller.made = primary, made
    runtime.set_custom_controller(controller)
    return controller


async def specs(entities: BucketEntities) -> dict[str, Any]:
    return {item.key: (item.document or {})["spec"] for item in await entities.list()}


async def test_the_server_is_killed_and_comes_back(mortal: NatsServer, link: NatsConnection) -> None:
    controller = copying(link)
    stop = asyncio.Event()
    task = asyncio.create_task(controller.run(4, stop))
    primary, made = controller.primary, controller.made
    wanted: dict[str, int] = {}
    written = 0
    for n in range(300):
        key = f"k{n % 40}"
        try:
            if n % 7 == 3:
                await primary.delete(key)
                wanted.pop(key, None)
            else:
                await primary.put(key, {"spec": n})
                wanted[key] = n
            written += 1
        except TransientError:
            wanted.pop(key, None)  # nobody knows; read below
        if n in {60, 180}:
            assert controller.calls.count("clean") == 0
            assert controller.synced, "it is at work"
            mortal.kill()
            with pytest.raises(TransientError) as caught:
                await primary.get("k1")
            assert caught.value.reason is Reason.API_UNAVAILABLE
            mortal.start()
            await eventually(lambda: link.up, WITHIN)
    assert written > 250
    wanted = await specs(primary)
    assert wanted

    async def copied() -> bool:
        return await specs(made) == wanted

    await eventually(copied, WITHIN)
    stop.set()
    await asyncio.wait_for(task, WITHIN)


async def test_deletes_behind_a_cut_wire_are_found_even_without_markers(
    mortal: NatsServer, link: NatsConnection
) -> None:
    direct = BucketEntities(link, "routes")
    for key in ("stays", "deleted", "purged", "traceless"):
        await direct.put(key, {"spec": 1})
    async with (
        wire(mortal.port) as cable,
        connected(NatsAccess(servers=[f"nats://127.0.0.1:{cable.port}"])) as far,
    ):
        controller = copying(far)
        stop = asyncio.Event()
        task = asyncio.create_task(controller.run(2, stop))
        made = BucketEntities(link, "made")

        async def there(*keys: str) -> bool:
            return set(await specs(made)) == set(keys)

        await eventually(lambda: there("stays", "deleted", "purged", "traceless"), WITHIN)
        await cable.cut()
        await direct.delete("deleted")
        await direct.purge("purged")
        await direct.delete("traceless")
        await link.client.jetstream().purge_stream("KV_routes", subject="$KV.routes.traceless")
        await direct.put("new", {"spec": 2})
        assert await there("stays", "deleted", "purged", "traceless")
        await cable.mend()
        await eventually(lambda: there("stays", "new"), WITHIN)
        stop.set()
        await asyncio.wait_for(task, WITHIN)


async def test_a_replay_after_a_cut_tells_no_change_twice(mortal: NatsServer, link: NatsConnection) -> None:
    direct = BucketEntities(link, "routes")
    await direct.put("a", {"spec": 1})
    async with (
        wire(mortal.port) as cable,
        connected(NatsAccess(servers=[f"nats://127.0.0.1:{cable.port}"])) as far,
    ):
        controller = copying(far)
        stop = asyncio.Event()
        task = asyncio.create_task(controller.run(2, stop))
        await eventually(lambda: controller.calls.count("secondary a") == 1, WITHIN)
        await eventually(lambda: controller.synced.count("a") == 2, WITHIN)  # its own, and that of its secondary
        for _ in range(2):
            await cable.cut()
            await eventually(lambda: not far.up, WITHIN)
            await cable.mend()
            await eventually(lambda: far.up, WITHIN)
        await direct.put("b", {"spec": 1})
        await eventually(lambda: controller.synced.count("b") == 2, WITHIN)
        assert controller.synced.count("a") == 2
        stop.set()
        await asyncio.wait_for(task, WITHIN)


async def test_a_consumer_that_is_taken_away_is_replaced(link: NatsConnection) -> None:
    entities = BucketEntities(link, "routes")
    async with following(entities) as notes:
        await eventually(lambda: notes.pictures, WITHIN)
        context = link.client.jetstream()
        for consumer in await context.consumers_info("KV_routes"):
            await context.delete_consumer("KV_routes", consumer.name)
        await entities.put("a", {"spec": 1})
        await eventually(lambda: len(notes.pictures) == 2 and notes.last_keys == {"a"}, WITHIN)
        assert "changes may have been missed" in str(notes.errors[0])
        await entities.put("b", {"spec": 1})
        await eventually(lambda: notes.changes == [(Operation.PUT, "b")], WITHIN)


async def test_readers_leave_nothing_behind_on_the_server(link: NatsConnection) -> None:
    entities = BucketEntities(link, "routes")
    async with following(entities) as notes:
        await eventually(lambda: notes.pictures, WITHIN)
        for _ in range(3):
            await entities.list()
        assert len(await link.client.jetstream().consumers_info("KV_routes")) == 1
    assert await link.client.jetstream().consumers_info("KV_routes") == []


async def test_what_can_never_be_followed_again_is_said(link: NatsConnection) -> None:
    errors: list[WindlassError] = []
    stream = BucketEntities(link, "routes").follow(errors.append)
    await anext(stream)
    await link.client.close()
    with pytest.raises(PermanentError, match="bucket routes any more"):
        await anext(stream)
