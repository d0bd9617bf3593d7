"""What holds of a controller over entities, whatever way it is run (frameworks.md section 2.3)."""

from __future__ import annotations

import asyncio

from conformance.how import HowToRun

from support.waiting import eventually

WITHIN = 30.0


async def nothing(_key: str) -> None:
    """Bring nothing about."""


async def test_a_change_a_deletion_and_a_changed_secondary_are_looked_at(how: HowToRun) -> None:
    async with how.controller(nothing) as running:
        for number, fact in enumerate([running.put, running.put, running.touch, running.delete], 1):
            await fact("a")
            await eventually(lambda n=number: running.begun("a") == n, WITHIN)


async def test_facts_while_a_key_is_worked_on_give_exactly_one_more_run(how: HowToRun) -> None:
    released = asyncio.Event()

    async def wait(key: str) -> None:
        if key == "a":
            await released.wait()

    async with how.controller(wait) as running:
        await running.put("a")
        await eventually(lambda: running.begun("a") == 1, WITHIN)
        for _ in range(5):
            await running.put("a")
            await running.touch("a")
        await running.put("b")
        await eventually(lambda: running.begun("b") == 1, WITHIN)
        assert running.begun("a") == 1, "never two workers on one key"
        released.set()
        await eventually(lambda: running.begun("a") == 2, WITHIN)
        await running.put("b")
        await eventually(lambda: running.begun("b") == 2, WITHIN)
        assert running.begun("a") == 2


async def test_a_failing_key_is_tried_again_until_it_works_and_holds_up_nobody(how: HowToRun) -> None:
    failures = [1] * 5

    async def fail(key: str) -> None:
        if key == "bad" and failures:
            failures.pop()
            raise RuntimeError("boom")

    async with how.controller(fail, threadiness=1) as running:
        await running.put("bad")
        for n in range(20):
            await running.put(f"k{n}")
        await eventually(lambda: all(running.begun(f"k{n}") == 1 for n in range(20)), WITHIN)
        await eventually(lambda: running.begun("bad") == 6, WITHIN)
        await running.put("end")
        await eventually(lambda: running.begun("end") == 1, WITHIN)
        assert running.begun("bad") == 6


async def test_of_several_delays_the_earliest_counts_once(how: HowToRun) -> None:
    async with how.controller(nothing) as running:
        for delay in (20.0, 0.2, 0.4):
            running.enqueue_after("a", delay)
        await running.put("b")
        await eventually(lambda: running.begun("b") == 1, WITHIN)
        await eventually(lambda: running.begun("a") == 1, WITHIN)
        await asyncio.sleep(0.5)
        assert running.begun("a") == 1
