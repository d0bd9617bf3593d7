"""Signals while Temporal is away: kept, newest first to count, and sent soon after it is back."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from support.waiting import eventually
from windlass.contracts.objects import SeenStatus
from windlass.domain.errors import Reason, TransientError
from windlass.domain.ids import PackageKey
from windlass.observers.metrics import Metrics
from windlass.observers.watcher import signals
from windlass.observers.watcher.signals import AWAY_CAP, SENDERS, SignalQueue
from windlass.runtime.packages import PackageLifecycles


class Away:
    """Lifecycles of a Temporal that is away until ``back``; keeps when it was asked and what it took."""

    def __init__(self) -> None:
        self.back = False
        self.asked: list[float] = []
        self.taken: dict[str, int | None] = {}

    async def desired_changed(self, key: PackageKey, seen: SeenStatus) -> None:
        self.asked.append(asyncio.get_running_loop().time())
        if not self.back:
            raise TransientError(Reason.API_UNAVAILABLE, "Temporal does not answer")
        self.taken[key.name] = seen.generation


async def test_all_senders_wait_for_temporal_together(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []

    def shortened(*_: object, **__: object) -> float:
        pauses.append(100.0)
        return 100.0

    monkeypatch.setattr(signals, "delay", shortened)
    monkeypatch.setattr(signals, "AWAY_CAP", 0.05)
    away = Away()
    queue = SignalQueue(cast("PackageLifecycles", away), Metrics("test"))
    running = asyncio.create_task(queue.run())
    keys = [PackageKey(namespace="shop", name=f"app-{number}") for number in range(3 * SENDERS)]
    for key in keys:
        queue.put(key, SeenStatus(generation=1))
    await eventually(lambda: len(pauses) >= 3, what="three failed rounds")
    assert len(away.asked) >= len(pauses), "a round fails once, however many tried"
    queue.put(keys[0], SeenStatus(generation=2))
    away.back = True
    # The delay asked for is 100 s each time: only the cap explains that everything arrives.
    await eventually(lambda: len(away.taken) == len(keys), what="every signal is taken")
    assert away.taken[keys[0].name] == 2, "the newest wins"
    running.cancel()
    await asyncio.wait([running])


def test_nobody_waits_long_once_temporal_is_back() -> None:
    assert AWAY_CAP <= 2.0
