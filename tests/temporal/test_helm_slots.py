"""Releases wait for Helm in their task queue: workers fetch as many as have a turn soon."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import pytest
from temporal.helm_sample import Releases
from temporalio import activity
from temporalio.client import Client, WorkflowHandle
from temporalio.worker import PollerBehaviorSimpleMaximum, Worker

from support.waiting import eventually
from windlass.activities.turns import Turns
from windlass.devstack.stack import Stack
from windlass.worker.slots import helm_tuner

pytestmark = pytest.mark.stack

MOST = 3
LONG_ENOUGH = 0.5
"""Seconds in which a worker would have fetched everything: that nothing comes can only be waited for."""


@dataclass
class Helm:
    """Applies nothing until it is let; then releases wait for readiness until they are ready."""

    turns: Turns
    applying: int = 0
    waiting: int = 0
    may_apply: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(0))
    ready: asyncio.Event = field(default_factory=asyncio.Event)

    @activity.defn(name="release")
    async def release(self) -> None:
        with self.turns.taken() as turn:
            self.applying += 1
            await self.may_apply.acquire()
            self.applying -= 1
            turn.give_back()
            self.waiting += 1
            await self.ready.wait()

    def apply(self, count: int) -> None:
        for _ in range(count):
            self.may_apply.release()


type Begin = Callable[..., Awaitable[list[WorkflowHandle[Any, None]]]]


@pytest.fixture
async def client(stack: Stack) -> Client:
    return await Client.connect(stack.temporal_address)


@pytest.fixture
async def helm() -> Helm:
    return Helm(Turns(MOST))


@pytest.fixture
async def begin(client: Client, helm: Helm) -> AsyncIterator[Begin]:
    """Start workers of so many shards, and of each so many releases."""
    async with AsyncExitStack() as stack:

        async def run(*, shards: int, releases: int, most: int = 100) -> list[WorkflowHandle[Any, None]]:
            name = f"turns-{uuid4()}"
            await stack.enter_async_context(Worker(client, task_queue=name, workflows=[Releases]))
            for shard in range(shards):
                worker = Worker(
                    client,
                    task_queue=f"{name}/{shard}",
                    activities=[helm.release],
                    tuner=helm_tuner(helm.turns, most),
                    activity_task_poller_behavior=PollerBehaviorSimpleMaximum(1),
                )
                await stack.enter_async_context(worker)
            return [
                await client.start_workflow(
                    Releases.run, args=[f"{name}/{shard}", releases], id=f"{name}-{shard}", task_queue=name
                )
                for shard in range(shards)
            ]

        yield run


async def test_who_has_no_turn_stays_in_the_queue(begin: Begin, helm: Helm) -> None:
    (handle,) = await begin(shards=1, releases=20)
    await eventually(lambda: helm.applying >= MOST, what="turns are taken")
    await asyncio.sleep(LONG_ENOUGH)
    assert helm.applying <= MOST + 1
    pending = (await handle.describe()).raw_description.pending_activities
    assert sum(not one.HasField("last_started_time") for one in pending) >= 20 - MOST - 1
    helm.apply(5)
    await eventually(lambda: helm.waiting == 5 and helm.applying >= MOST, what="turns are passed on")
    await asyncio.sleep(LONG_ENOUGH)
    assert helm.applying <= MOST + 1
    helm.ready.set()
    helm.apply(15)
    await handle.result()
    assert helm.turns.free


async def test_shards_share_the_turns_and_none_is_forgotten(begin: Begin, helm: Helm) -> None:
    handles = await begin(shards=4, releases=10)
    await eventually(lambda: helm.applying >= MOST, what="turns are taken")
    await asyncio.sleep(LONG_ENOUGH)
    assert helm.applying <= MOST + 4
    helm.ready.set()
    helm.apply(40)
    await asyncio.gather(*(handle.result() for handle in handles))


async def test_those_that_wait_for_readiness_hold_slots_but_no_turns(begin: Begin, helm: Helm) -> None:
    (handle,) = await begin(shards=1, releases=8, most=5)
    helm.apply(8)
    await eventually(lambda: helm.waiting == 5, what="all slots are used")
    assert helm.turns.free
    await asyncio.sleep(LONG_ENOUGH)
    assert helm.waiting + helm.applying == 5
    helm.ready.set()
    await handle.result()
