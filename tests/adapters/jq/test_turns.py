"""Packages take turns: none is delayed for long by the filters of others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from support.waiting import eventually
from windlass.adapters.jq.client import JqClient
from windlass.adapters.jq.turns import BURST, RATE, SUSPECT, Turns
from windlass.domain.errors import TransientError

LOOP = "def f: f; f"


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Users:
    """Who holds a place, in the order in which they got it, and how long they held it by a clock of our own."""

    def __init__(self, size: int = 2) -> None:
        self.clock = Clock()
        self.turns = Turns(size, self.clock)
        self.got: list[str] = []
        self._ends: dict[str, list[asyncio.Event]] = {}
        self._tasks: list[asyncio.Task[None]] = []

    async def ask(self, *packages: str) -> None:
        for package in packages:
            self._tasks.append(asyncio.create_task(self._hold(package)))
            await self.settle()

    async def end(self, package: str, after: float = 0.0) -> None:
        self.clock.now += after
        self._ends[package].pop(0).set()
        await self.settle()

    async def settle(self) -> None:
        for _ in range(5):
            await asyncio.sleep(0)

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _hold(self, package: str) -> None:
        async with self.turns.taken(package):
            self.got.append(package)
            end = asyncio.Event()
            self._ends.setdefault(package, []).append(end)
            await end.wait()


@pytest.fixture
async def users() -> AsyncIterator[Users]:
    made = Users()
    yield made
    await made.close()


async def test_a_package_has_one_place_at_a_time(users: Users) -> None:
    await users.ask("busy", "busy", "busy", "other")
    assert users.got == ["busy", "other"]


async def test_packages_come_in_rotation_however_many_filters_one_has(users: Users) -> None:
    await users.ask("a", "b", "a", "a", "c", "b")
    await users.end("a")
    await users.end("b")
    assert users.got == ["a", "b", "c", "a"]


async def test_one_that_used_its_budget_waits_until_it_is_paid_for(users: Users) -> None:
    await users.ask("greedy", "greedy")
    await users.end("greedy", after=BURST + RATE)
    assert users.got == ["greedy"]
    users.clock.now += 2.0
    await users.ask("other")  # whoever asks next has the places given out
    assert sorted(users.got) == ["greedy", "greedy", "other"]


async def test_suspects_leave_a_place_free_together(users: Users) -> None:
    for package in ("a", "b"):
        await users.ask(package)
        await users.end(package, after=SUSPECT * 2)
    await users.ask("a", "b")
    assert users.got == ["a", "b", "a"]
    await users.ask("good")
    assert users.got == ["a", "b", "a", "good"]


async def test_who_is_cancelled_while_waiting_takes_no_place(users: Users) -> None:
    await users.ask("a", "b", "c", "d")
    users._tasks[2].cancel()
    await users.settle()
    await users.end("a")
    assert users.got == ["a", "b", "d"]


async def test_accounts_without_debt_are_forgotten(users: Users) -> None:
    await users.ask("a")
    await users.end("a")
    assert not users.turns._accounts


async def test_looping_filters_of_one_package_delay_no_other() -> None:
    async with JqClient(size=2) as jq:
        loops = [asyncio.create_task(jq.on_behalf_of("loops").run(LOOP, None, timeout=1.0)) for _ in range(20)]
        await eventually(lambda: jq.busy, what="one loops")
        # Before, each child would have been busy for ten seconds with the loops.
        async with asyncio.timeout(5):
            for number in range(50):
                assert await jq.on_behalf_of(f"p{number % 5}").run(".a", {"a": number}) == [number]
        assert len(jq.busy) == 1
        for loop in loops:
            loop.cancel()
        outcomes = await asyncio.gather(*loops, return_exceptions=True)
    assert all(isinstance(one, (TransientError, asyncio.CancelledError)) for one in outcomes)
