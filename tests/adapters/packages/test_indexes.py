"""Indexes of Helm repositories: one request and one reading for all who ask at the same time, and a bound on memory."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.adapters.packages.sources.indexes import FRESH, Charts, Fetched, Indexes, Mark, Place
from windlass.adapters.packages.sources.source import Found
from windlass.domain.errors import Reason, TransientError
from windlass.domain.packages.registry_login import Login
from windlass.ports.packages import Access

PLACE = Place(url="https://charts.example", insecure=False, access=Access())


def charts(versions: int, name: str = "web") -> Charts:
    return {name: tuple(Found(version=f"1.0.{n}", locator=f"https://x/{n}") for n in range(versions))}


class Repository:
    """Answers slowly enough that those who ask together meet."""

    def __init__(self, says: Charts | Exception) -> None:
        self.says = says
        self.asked: list[Mapping[str, str]] = []
        self.tag = "a"

    async def __call__(self, known: Mark) -> Fetched:
        self.asked.append(known.validators)
        await asyncio.sleep(0)
        if isinstance(self.says, Exception):
            raise self.says
        mark = Mark(validators={"If-None-Match": self.tag})
        return Fetched(charts=None if known == mark else self.says, mark=mark)


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


async def test_all_who_ask_at_the_same_time_share_a_request() -> None:
    repository, indexes = Repository(charts(2)), Indexes()
    found = await asyncio.gather(*(indexes.read(PLACE, repository, anew=True) for _ in range(100)))
    assert len(repository.asked) <= 2  # who asks after the first request was sent may not take its answer
    assert all(one is found[0] for one in found)


async def test_all_who_ask_at_the_same_time_share_one_failure() -> None:
    error = TransientError(Reason.DOWNLOAD_FAILED, "away", hint="")
    repository, indexes = Repository(error), Indexes()
    found = await asyncio.gather(
        *(indexes.read(PLACE, repository, anew=True) for _ in range(100)), return_exceptions=True
    )
    assert found == [error] * 100
    assert len(repository.asked) == 1
    repository.says = charts(1)
    assert await indexes.read(PLACE, repository, anew=False) == charts(1)


async def test_who_is_cancelled_takes_the_request_away_from_nobody() -> None:
    repository, indexes = Repository(charts(2)), Indexes()
    first = asyncio.create_task(indexes.read(PLACE, repository, anew=True))
    second = asyncio.create_task(indexes.read(PLACE, repository, anew=True))
    await asyncio.sleep(0)
    first.cancel()
    assert await second == charts(2)


async def test_a_young_index_serves_without_a_request_and_an_old_one_is_asked_about() -> None:
    repository, clock = Repository(charts(2)), Clock()
    indexes = Indexes(clock=clock)
    first = await indexes.read(PLACE, repository, anew=False)
    clock.now += FRESH - 1
    assert await indexes.read(PLACE, repository, anew=False) is first
    clock.now += 2
    assert await indexes.read(PLACE, repository, anew=False) is first
    assert repository.asked == [{}, {"If-None-Match": "a"}]


async def test_a_changed_index_takes_the_place_of_the_one_before() -> None:
    repository, clock = Repository(charts(2)), Clock()
    indexes = Indexes(clock=clock)
    await indexes.read(PLACE, repository, anew=True)
    repository.says, repository.tag = charts(3), "b"
    clock.now += 1
    assert await indexes.read(PLACE, repository, anew=True) == charts(3)
    assert indexes.versions == 3


async def test_what_one_login_sees_is_not_shown_to_another() -> None:
    other = Place(url=PLACE.url, insecure=False, access=Access(login=Login(username="u", password="p")))
    indexes = Indexes()
    assert await indexes.read(PLACE, Repository(charts(1)), anew=False) == charts(1)
    assert await indexes.read(other, Repository(charts(2)), anew=False) == charts(2)


@given(sizes=st.lists(st.integers(0, 15), max_size=20))
def test_no_more_than_the_bound_is_kept(sizes: list[int]) -> None:
    async def read_all() -> None:
        indexes = Indexes(kept=10)
        for number, size in enumerate(sizes):
            place = Place(url=f"https://{number}.example", insecure=False, access=Access())
            assert await indexes.read(place, Repository(charts(size)), anew=False) == charts(size)
            assert indexes.versions <= 10

    asyncio.run(read_all())


@pytest.mark.parametrize("size", [9, 10])
async def test_an_index_within_the_bound_is_read_once(size: int) -> None:
    repository, indexes = Repository(charts(size)), Indexes(kept=10)
    await indexes.read(PLACE, repository, anew=False)
    await indexes.read(PLACE, repository, anew=False)
    assert len(repository.asked) == 1
