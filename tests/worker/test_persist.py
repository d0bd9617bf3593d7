"""A part of a process runs until the process is told to stop, whatever it meets."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
import structlog

from support.waiting import eventually
from windlass.adapters.kube.coordination.leases import LeaseLostError
from windlass.domain.errors import PermanentError, Reason, TransientError
from windlass.observers.metrics import Metrics
from windlass.worker import main

GONE = PermanentError(Reason.API_REJECTED, "the installation has 8 shards")
FORBIDDEN = PermanentError(Reason.FORBIDDEN, "cannot watch configmaps")
MET = [
    RuntimeError("File descriptor 62 is used by transport"),
    ExceptionGroup("tasks", [KeyError("x"), TransientError(Reason.API_UNAVAILABLE, "away")]),
    asyncio.CancelledError(),
    LeaseLostError(Reason.LEASE_LOST, "somebody else has taken it"),
    FORBIDDEN,
    None,
]


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(main, "delay", lambda *_, **__: 0.01)


class Part:
    """Ends in the given ways, one at a time, then serves until it is told to stop."""

    def __init__(self, *ends: BaseException | None, serves_first: bool = False) -> None:
        self.ends = list(ends)
        self.serves_first = serves_first
        self.tries = 0
        self.served = asyncio.Event()
        self.stop = asyncio.Event()

    async def __call__(self, serving: asyncio.Event) -> None:
        self.tries += 1
        if self.serves_first:
            serving.set()
        if self.ends:
            end = self.ends.pop(0)
            if end is None:
                return
            raise end
        serving.set()
        self.served.set()
        await self.stop.wait()


def persist(part: Part) -> Awaitable[None]:
    once: Callable[[asyncio.Event], Awaitable[None]] = part
    return main._persist("worker", once, part.stop, Metrics("test"))  # pyright: ignore[reportPrivateUsage]


@pytest.mark.parametrize("end", MET, ids=lambda end: type(end).__name__)
async def test_a_part_that_ends_is_started_again(end: BaseException | None) -> None:
    part = Part(end)
    running = asyncio.ensure_future(persist(part))
    await eventually(part.served.is_set)
    assert part.tries == 2
    part.stop.set()
    await running


async def test_what_was_met_is_in_the_log() -> None:
    with structlog.testing.capture_logs() as logs:
        part = Part(RuntimeError("File descriptor 62 is used by transport"))
        running = asyncio.ensure_future(persist(part))
        await eventually(part.served.is_set)
        part.stop.set()
        await running
    [said] = [one for one in logs if one["event"] == "interrupted"]
    assert said["error"] == "RuntimeError: File descriptor 62 is used by transport"
    assert "test_persist.py" in said["stack"]


async def test_settings_that_cannot_work_end_a_process_that_has_never_worked() -> None:
    with pytest.raises(PermanentError, match="8 shards"):
        await persist(Part(GONE))


async def test_nothing_ends_a_process_that_has_worked() -> None:
    part = Part(GONE, serves_first=True)
    running = asyncio.ensure_future(persist(part))
    await eventually(part.served.is_set)
    part.stop.set()
    await running
