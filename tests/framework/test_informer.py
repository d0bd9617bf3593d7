"""The informer over a scripted feed (frameworks.md 1.13), its cache over every kind of news."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import pytest
import structlog
from framework.recording import LOGGER, obj
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from windlass.domain.errors import PermanentError, Reason, TransientError
from windlass.framework import (
    Delete,
    Event,
    Failure,
    FrameworkMetrics,
    InvalidConfigError,
    ObjectInformer,
    Update,
    is_invalid_event,
)
from windlass.ports.kube import WatchEvent
from windlass.ports.operators import Complete, FeedItem, Trouble, WatchEnded

GOING = "2026-01-01T00:00:00Z"


class Fed:
    """A feed with these items, which then is silent, or ends."""

    def __init__(self, *items: FeedItem, ends: bool = True) -> None:
        self.items = items
        self.ends = ends
        self.closed = False

    async def follow(self) -> AsyncGenerator[FeedItem]:
        try:
            for item in self.items:
                yield item
            if not self.ends:
                await asyncio.Event().wait()
        finally:
            self.closed = True


class Told:
    def __init__(self, *items: FeedItem, **options: Any) -> None:
        self.registry = CollectorRegistry()
        self.feed = Fed(*items, ends=options.pop("ends", True))
        self.informer = ObjectInformer(
            feed=self.feed, logger=structlog.get_logger(), metrics=FrameworkMetrics(self.registry), **options
        )

    async def all(self) -> list[Event]:
        return [event async for event in self.informer.watch()]

    async def first(self, number: int) -> list[Event]:
        found: list[Event] = []
        async with aclosing(self.informer.watch()) as stream:
            async for event in stream:
                found.append(event)
                if len(found) == number:
                    break
        return found

    def count(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(f"operatorkit_informer_{name}", labels)


def complete(*items: dict[str, Any]) -> Complete:
    return Complete(items=list(items))


def change(type_: Any, one: dict[str, Any]) -> WatchEvent:
    return WatchEvent(type=type_, object=one)


A, B = obj("a", uid="a"), obj("b", uid="b")
A2 = obj("a", uid="a", version="2")
A_GOING = obj("a", uid="a", version="3", deletionTimestamp=GOING)
A_NEW = obj("a", uid="other", version="9")

TABLE: dict[str, tuple[list[FeedItem], list[Event]]] = {
    "first fill": ([complete(A, B)], [Update(A), Update(B)]),
    "first fill, under deletion": ([complete(A_GOING)], [Delete(A_GOING)]),
    "added": ([complete(), change("ADDED", A)], [Update(A)]),
    "added, as known": ([complete(A), change("ADDED", A)], [Update(A)]),
    "added, under deletion": ([complete(), change("ADDED", A_GOING)], [Delete(A_GOING)]),
    "modified": ([complete(A), change("MODIFIED", A2)], [Update(A), Update(A2)]),
    "modified, not known": ([complete(), change("MODIFIED", A2)], [Update(A2)]),
    "modified, under deletion": ([complete(A), change("MODIFIED", A_GOING)], [Update(A), Delete(A_GOING)]),
    "deleted": ([complete(A), change("DELETED", A2)], [Update(A), Delete(A2)]),
    "deleted, not known": ([complete(), change("DELETED", A2)], [Delete(A2)]),
    "made anew in one": ([complete(A), change("MODIFIED", A_NEW)], [Update(A), Delete(A), Update(A_NEW)]),
    "bookmark": ([complete(A), change("BOOKMARK", {"metadata": {"resourceVersion": "5"}})], [Update(A)]),
    "410, nothing new": ([complete(A, B), complete(A, B)], [Update(A), Update(B)]),
    "410, changed": ([complete(A, B), complete(A2, B)], [Update(A), Update(B), Update(A2)]),
    "410, deleted meanwhile": ([complete(A, B), complete(B)], [Update(A), Update(B), Delete(A)]),
    "410, made anew meanwhile": ([complete(A), complete(A_NEW)], [Update(A), Delete(A), Update(A_NEW)]),
    "410, under deletion": ([complete(A), complete(A_GOING)], [Update(A), Delete(A_GOING)]),
}


@pytest.mark.parametrize("case", TABLE)
async def test_what_is_told(case: str) -> None:
    items, events = TABLE[case]
    assert await Told(*items).all() == events


async def test_nothing_is_told_before_the_first_list() -> None:
    told = Told(ends=False)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await told.first(1)
    assert told.feed.closed


async def test_an_event_of_an_unknown_type_is_a_failure() -> None:
    first, second = await Told(complete(A), change("STRANGE", A)).all()
    assert first == Update(A)
    assert isinstance(second, Failure)
    assert is_invalid_event(second.error)


async def test_errors_that_go_away_are_waited_out_others_are_failures() -> None:
    away = Trouble(error=TransientError(Reason.API_UNAVAILABLE, "no answer"))
    forbidden = PermanentError(Reason.FORBIDDEN, "no right")
    with capture_logs() as logs:
        assert await Told(away, complete(A), away, Trouble(error=forbidden)).all() == [Update(A), Failure(forbidden)]
    assert [line["log_level"] for line in logs] == ["warning", "info", "warning"]


async def test_what_manages_fields_is_left_out() -> None:
    (event,) = await Told(complete(obj("a", uid="a", managedFields=[{"manager": "kubectl"}]))).all()
    assert event == Update(A)


async def test_each_resync_tells_everything_again() -> None:
    told = Told(complete(A, A_GOING | {"metadata": {**A_GOING["metadata"], "name": "g"}}), ends=False, resync=0.01)
    events = await told.first(6)
    assert [type(event).__name__ for event in events] == ["Update", "Delete"] * 3


async def test_a_resync_waits_between_objects_and_not_before_the_first() -> None:
    """On a clock that only runs while the informer waits, so the waits are its own."""
    told = Told(complete(A, B), ends=False, resync=0.1, rate_wait=0.3)
    loop = asyncio.get_running_loop()
    at: list[float] = []
    async with aclosing(told.informer.watch()) as stream:
        async for _ in stream:
            at.append(loop.time())
            if len(at) == 4:
                break
    fill, _, first, second = at
    assert first - fill >= 0.09
    assert second - first >= 0.29


async def test_changes_are_told_while_a_resync_waits() -> None:
    more = asyncio.Event()

    class Later(Fed):
        async def follow(self) -> AsyncGenerator[FeedItem]:
            yield complete(A, B)
            await more.wait()
            yield change("MODIFIED", A2)
            await asyncio.Event().wait()

    informer = ObjectInformer(
        feed=Later(), logger=LOGGER, resync=0.01, rate_wait=3600, metrics=FrameworkMetrics(CollectorRegistry())
    )
    found: list[Event] = []
    async with aclosing(informer.watch()) as stream:
        async for event in stream:
            found.append(event)
            if len(found) == 3:
                more.set()  # the resync has told A and waits an hour before B
            if len(found) == 4:
                break
    assert found == [Update(A), Update(B), Update(A), Update(A2)]


async def test_metrics() -> None:
    changes = [change("ADDED", B), change("MODIFIED", A2), change("DELETED", B)]
    told = Told(complete(A), *changes, WatchEnded(), change("STRANGE", A), ends=False)
    async with aclosing(told.informer.watch()) as stream:
        for _ in range(5):
            await anext(stream)
        counts = {kind: told.count("watch_event_total", kind=kind) for kind in ("create", "update", "delete", "error")}
        assert counts == {"create": 2, "update": 1, "delete": 1, "error": 1}
        assert told.count("watcher_close_total") == 1
        assert told.count("cache_size") == 1
    assert told.count("cache_size") == 0


def test_constructor_checks_in_their_order() -> None:
    given: dict[str, Any] = {"feed": None, "logger": None, "resync": 0, "rate_wait": -1}
    for change_, named in (
        ({}, "feed"),
        ({"feed": Fed()}, "logger"),
        ({"logger": LOGGER}, "resyncs"),
        ({"resync": 1}, "objects of a resync"),
    ):
        given |= change_
        with pytest.raises(InvalidConfigError, match=named):
            ObjectInformer(**given)
    ObjectInformer(**(given | {"rate_wait": 0}))
