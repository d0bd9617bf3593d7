from __future__ import annotations

import asyncio

import pytest

from windlass.adapters.kube.ratelimit import TokenBucket


class Time:
    """A clock that moves only by sleeping."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now += seconds


async def test_a_burst_is_free_and_then_the_rate_holds() -> None:
    time = Time()
    bucket = TokenBucket(10, 3, clock=time, sleep=time.sleep)
    taken: list[float] = []
    for _ in range(6):
        await bucket.take()
        taken.append(round(time.now - 100, 6))
    assert taken == [0, 0, 0, 0.1, 0.2, 0.3]


async def test_a_rest_refills_no_more_than_the_burst() -> None:
    time = Time()
    bucket = TokenBucket(10, 2, clock=time, sleep=time.sleep)
    await bucket.take()
    time.now += 60
    began = time.now
    for _ in range(3):
        await bucket.take()
    assert time.now - began == pytest.approx(0.1)


async def test_waiting_together_keeps_the_rate_and_a_cancelled_one_gives_its_token_back() -> None:
    time = Time()
    waits: list[tuple[float, asyncio.Future[None]]] = []

    async def sleep(seconds: float) -> None:
        future = asyncio.get_running_loop().create_future()
        waits.append((seconds, future))
        await future

    bucket = TokenBucket(10, 1, clock=time, sleep=sleep)
    await bucket.take()
    tasks = [asyncio.create_task(bucket.take()) for _ in range(2)]
    await asyncio.sleep(0)
    assert [seconds for seconds, _ in waits] == pytest.approx([0.1, 0.2])
    tasks[1].cancel()
    await asyncio.gather(*tasks[1:], return_exceptions=True)
    last = asyncio.create_task(bucket.take())
    await asyncio.sleep(0)
    assert waits[2][0] == pytest.approx(0.2)
    for _, future in waits:
        if not future.done():
            future.set_result(None)
    await asyncio.gather(tasks[0], last)


@pytest.mark.parametrize(("rate", "burst"), [(0, 1), (-1, 1), (1, 0)])
def test_senseless_rates_are_refused(rate: float, burst: int) -> None:
    with pytest.raises(ValueError, match="must be"):
        TokenBucket(rate, burst, clock=lambda: 0.0)
