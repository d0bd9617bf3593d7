"""Whatever work for one package raises stays with that package, is tried again, and is reported once."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import pytest

from support.waiting import eventually
from windlass.contracts.lifecycle import Quarantined
from windlass.domain.errors import PermanentError, Reason, TransientError
from windlass.domain.ids import Kind, PackageKey
from windlass.observers import border as borders
from windlass.observers import quarantine as quarantines
from windlass.observers.border import Border
from windlass.observers.quarantine import Quarantine

WEB = PackageKey(installation="test", kind=Kind.APPLICATION, namespace="prod", name="web")
SHOP = PackageKey(installation="test", kind=Kind.APPLICATION, namespace="prod", name="shop")


@dataclass
class Told:
    """Lifecycles that keep what they are told; ``failures`` calls are refused first."""

    messages: list[tuple[PackageKey, Quarantined]] = field(default_factory=list[tuple[PackageKey, Quarantined]])
    failures: list[Exception] = field(default_factory=list[Exception])
    runs: bool = True

    async def quarantined(self, key: PackageKey, message: Quarantined) -> bool:
        if self.failures:
            raise self.failures.pop()
        self.messages.append((key, message))
        return self.runs

    def of(self, key: PackageKey) -> list[list[tuple[str, str]]]:
        """What one lifecycle was told, in order: parts and reasons."""
        return [[(part.part, part.reason) for part in message.parts] for told, message in self.messages if told == key]


@dataclass
class Around:
    """A border and what is around it."""

    told: Told
    quarantine: Quarantine
    border: Border
    counted: list[str]


@pytest.fixture
def around(monkeypatch: pytest.MonkeyPatch) -> Around:
    monkeypatch.setattr(borders, "delay", lambda *_, **__: 0.01)
    told, counted = Told(), list[str]()
    quarantine = Quarantine(told, "worker")
    return Around(told, quarantine, Border(quarantine, counted.append), counted)


class Work:
    """Raises what it is given, one at a try, then returns; or goes on until it is cancelled."""

    def __init__(self, *errors: BaseException, endless: bool = False) -> None:
        self.errors = list(errors)
        self.endless = endless
        self.tries = 0

    async def __call__(self) -> None:
        self.tries += 1
        if self.errors:
            raise self.errors.pop(0)
        if self.endless:
            await asyncio.Event().wait()


async def test_work_that_fails_is_tried_again_until_it_is_done(around: Around) -> None:
    work = Work(RecursionError("too deep"), ExceptionGroup("both", [ValueError("x")]))
    await around.border.run(WEB, "informer", work)
    assert (work.tries, around.counted) == (3, ["informer", "informer"])


async def test_the_package_is_told_what_is_broken_and_when_it_works_again(around: Around) -> None:
    await around.border.run(WEB, "informer", Work(ValueError("secret=hunter2")))
    await eventually(lambda: len(around.quarantine) == 0)
    [first, *_, last] = around.told.messages
    assert [(part.part, part.reason) for part in first[1].parts] == [("informer", "ValueError")]
    assert "test_border.py" in first[1].parts[0].cause
    assert "hunter2" not in first[1].parts[0].cause
    assert last[1].parts == ()


async def test_work_that_fails_for_ever_for_one_reason_is_told_of_once(around: Around) -> None:
    work = Work(*(ValueError(f"at {number}") for number in range(50)), endless=True)
    task = around.border.spawn(WEB, "informer", work)
    await eventually(lambda: work.tries == 51)
    assert around.told.of(WEB) == [[("informer", "ValueError")]]
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_thousand_failures_overflow_nothing(around: Around, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    monkeypatch.setattr(borders.asyncio, "sleep", sleep)
    await around.border.run(WEB, "informer", Work(*(ValueError("x") for _ in range(2000))))
    assert len(waits) == 2000
    assert max(waits) <= 60 * 1.2


async def test_a_cancellation_that_nobody_asked_for_is_a_failure(around: Around) -> None:
    work = Work(asyncio.CancelledError())
    await around.border.run(WEB, "events", work)
    assert (work.tries, around.counted) == (2, ["events"])


async def test_a_cancellation_ends_the_work(around: Around) -> None:
    work = Work(endless=True)
    task = around.border.spawn(WEB, "events", work)
    await eventually(lambda: work.tries == 1)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert task.cancelled()
    assert (work.tries, around.counted) == (1, [])


async def test_a_cluster_that_is_away_is_no_fault_of_a_package(around: Around) -> None:
    work = Work(TransientError(Reason.API_UNAVAILABLE, "away"))
    await around.border.run(WEB, "informer", work)
    assert (work.tries, around.counted, around.told.messages) == (2, [], [])


async def test_an_error_of_ours_is_shown_with_its_text(around: Around) -> None:
    error = PermanentError(Reason.FORBIDDEN, "may not list pods", hint="grant it")
    await around.border.run(WEB, "informer", Work(error))
    await eventually(lambda: len(around.quarantine) == 0)
    part = around.told.messages[0][1].parts[0]
    assert (part.reason, part.cause) == ("Forbidden", "may not list pods (grant it)")


async def test_another_part_and_another_package_go_on(around: Around) -> None:
    broken = around.border.spawn(WEB, "informer", Work(*(ValueError("x") for _ in range(20)), endless=True))
    part, package = Work(), Work()
    await around.border.run(WEB, "drift", part)
    await around.border.run(SHOP, "informer", package)
    assert (part.tries, package.tries) == (1, 1)
    await eventually(lambda: around.told.of(WEB) == [[("informer", "ValueError")]])
    assert around.told.of(SHOP) == []
    broken.cancel()
    await asyncio.gather(broken, return_exceptions=True)


async def test_endless_work_counts_as_working_after_a_while(around: Around, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(borders, "STEADY", 0.05)
    task = around.border.spawn(WEB, "informer", Work(ValueError("x"), endless=True))
    await eventually(lambda: around.told.of(WEB) == [[("informer", "ValueError")], []])
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_work_with_a_schedule_of_its_own_is_over_its_fault_with_its_next_success(around: Around) -> None:
    assert not await around.border.once(WEB, "drift", Work(ValueError("x")))
    await eventually(lambda: around.told.of(WEB) == [[("drift", "ValueError")]])
    assert await around.border.once(WEB, "drift", Work())
    await eventually(lambda: around.told.of(WEB)[1:] == [[]])
    await eventually(lambda: len(around.quarantine) == 0)


async def test_what_is_not_taken_is_told_again(around: Around, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quarantines, "delay", lambda *_, **__: 0.01)
    around.told.failures = [TransientError(Reason.API_UNAVAILABLE, "away"), RuntimeError("stray")]
    await around.border.once(WEB, "drift", Work(ValueError("x")))
    await eventually(lambda: around.told.of(WEB) == [[("drift", "ValueError")]])


async def test_a_condition_that_nothing_stands_behind_is_withdrawn(
    around: Around, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quarantines, "REVIEW", 0.05)
    around.quarantine.observed(WEB, quarantined=True)
    await eventually(lambda: around.told.of(WEB) == [[]])
    await eventually(lambda: len(around.quarantine) == 0)


async def test_a_condition_of_an_earlier_process_stands_while_the_part_fails_here_too(
    around: Around, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quarantines, "REVIEW", 0.05)
    around.quarantine.observed(WEB, quarantined=True)
    await around.border.once(WEB, "drift", Work(ValueError("x")))
    await eventually(lambda: around.told.of(WEB) == [[("drift", "ValueError")]])
    reviewed = asyncio.Event()
    asyncio.get_running_loop().call_later(0.2, reviewed.set)
    await reviewed.wait()
    assert around.told.of(WEB) == [[("drift", "ValueError")]]


async def test_what_moves_to_another_process_is_forgotten_without_a_word(around: Around) -> None:
    await around.border.once(WEB, "drift", Work(ValueError("x")))
    await eventually(lambda: around.told.messages)
    await around.quarantine.leave(lambda key: key == WEB)
    assert (len(around.quarantine), around.told.of(WEB)) == (0, [[("drift", "ValueError")]])


async def test_work_for_all_packages_is_restarted_and_no_package_is_blamed(around: Around) -> None:
    work = Work(KeyError("x"), asyncio.CancelledError())
    await around.border.shared("restore", work)
    assert (work.tries, around.counted, around.told.messages) == (3, ["restore", "restore"], [])
