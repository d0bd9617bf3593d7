"""The work queue against a model, with many workers and a clock that only moves when told."""

from __future__ import annotations

import math

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from windlass.controllerruntime.ratelimit import BASE, BURST, CAP, RATE, RateLimiter
from windlass.controllerruntime.workqueue import WorkQueue

KEYS = st.sampled_from(["a", "b", "c", "d"])


class FakeClock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Model(RuleBasedStateMachine):
    """What frameworks.md section 2.3 says, in the plainest form: lists and sets, no heap and no deque."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = FakeClock()
        self.queue: WorkQueue[str] = WorkQueue(self.clock)
        self.waiting: list[str] = []
        self.working: set[str] = set()
        self.again: list[str] = []
        self.delayed: dict[str, float] = {}
        self.failures: dict[str, int] = {}

    def _add(self, key: str) -> None:
        if key in self.waiting or key in self.again:
            return
        (self.again if key in self.working else self.waiting).append(key)

    def _delay(self, key: str, seconds: float) -> None:
        if seconds <= 0:
            self._add(key)
        else:
            self.delayed[key] = min(self.delayed.get(key, math.inf), self.clock.now + seconds)

    def _due(self) -> None:
        for key, due in sorted(self.delayed.items(), key=lambda entry: entry[1]):
            if due <= self.clock.now:
                del self.delayed[key]
                self._add(key)

    @rule(key=KEYS)
    def add(self, key: str) -> None:
        self.queue.add(key)
        self._due()  # what was due before stands before it only if somebody looked; see `look`
        self._add(key)

    @rule(key=KEYS, seconds=st.sampled_from([-1.0, 0.0, 0.5, 2.0, 2.0, 7.0]))
    def add_after(self, key: str, seconds: float) -> None:
        self.queue.add_after(key, seconds)
        self._delay(key, seconds)

    @precondition(lambda self: bool(self.working))
    @rule(data=st.data())
    def fail(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.working)))
        failures = self.failures.get(key, 0)
        delay = self.queue.add_rate_limited(key)
        self.failures[key] = failures + 1
        assert delay >= min(BASE * 2**failures, CAP)
        self._delay(key, delay)
        self.queue.done(key)
        self._done(key)

    @precondition(lambda self: bool(self.working))
    @rule(data=st.data())
    def succeed(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.working)))
        self.queue.forget(key)
        self.failures.pop(key, None)
        self.queue.done(key)
        self._done(key)

    def _done(self, key: str) -> None:
        self.working.discard(key)
        if key in self.again:
            self.again.remove(key)
            self.waiting.append(key)

    @rule()
    def get(self) -> None:
        self._due()
        got = self.queue.get()
        if not self.waiting:
            assert got is None
            return
        assert got in self.waiting
        assert got not in self.working, "two workers on one key"
        self.waiting.remove(got)
        self.working.add(got)

    @rule(key=KEYS)
    def done_with_what_is_not_worked_on(self, key: str) -> None:
        if key not in self.working:
            self.queue.done(key)

    @rule(seconds=st.sampled_from([0.001, 0.5, 3.0, 2000.0]))
    def time_passes(self, seconds: float) -> None:
        self.clock.now += seconds

    @invariant()
    def look(self) -> None:
        self._due()
        assert len(self.queue) == len(self.waiting)
        assert self.queue.idle == (not self.working)
        due = self.queue.next_due()
        wanted = min(self.delayed.values(), default=None)
        assert due == (None if wanted is None else wanted - self.clock.now)
        assert all(self.queue.failures(key) == self.failures.get(key, 0) for key in "abcd")

    def teardown(self) -> None:
        """Whatever happened: everything that was added is handed out in the end, each key once."""
        for key in sorted(self.working):
            self.queue.done(key)
            self._done(key)
        self.clock.now += 2 * CAP
        self._due()
        rest: list[str] = []
        while (key := self.queue.get()) is not None:
            rest.append(key)
        assert sorted(rest) == sorted(self.waiting)


Model.TestCase.settings = settings(max_examples=150, stateful_step_count=60)
TestModel = Model.TestCase


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


def test_first_come_first_served(clock: FakeClock) -> None:
    queue: WorkQueue[str] = WorkQueue(clock)
    for key in ("a", "b", "a", "c", "b"):
        queue.add(key)
    assert [queue.get() for _ in range(4)] == ["a", "b", "c", None]


def test_adds_while_it_is_worked_on_give_exactly_one_more_run(clock: FakeClock) -> None:
    queue: WorkQueue[str] = WorkQueue(clock)
    queue.add("a")
    assert queue.get() == "a"
    for _ in range(3):
        queue.add("a")
        assert queue.get() is None
    queue.done("a")
    assert queue.get() == "a"
    queue.done("a")
    assert queue.get() is None


def test_the_earliest_of_several_delays_counts_and_only_once(clock: FakeClock) -> None:
    queue: WorkQueue[str] = WorkQueue(clock)
    for delay in (9.0, 3.0, 5.0):
        queue.add_after("a", delay)
    assert queue.next_due() == 3.0
    clock.now += 3
    assert queue.get() == "a"
    queue.done("a")
    clock.now += 100
    assert queue.get() is None


def test_an_add_neither_waits_for_a_delay_nor_cancels_it(clock: FakeClock) -> None:
    queue: WorkQueue[str] = WorkQueue(clock)
    queue.add_after("a", 5)
    queue.add("a")
    assert queue.get() == "a"
    queue.done("a")
    clock.now += 5
    assert queue.get() == "a"


def test_a_delay_counts_no_failure(clock: FakeClock) -> None:
    queue: WorkQueue[str] = WorkQueue(clock)
    queue.add_after("a", 1)
    assert queue.failures("a") == 0


def test_waits_of_one_key_double_up_to_the_cap(clock: FakeClock) -> None:
    limiter: RateLimiter[str] = RateLimiter(clock)
    waits: list[float] = []
    for _ in range(20):
        waits.append(limiter.when("a"))
        clock.now += 1000  # the shared bucket is full again
    assert waits[:4] == [0.005, 0.01, 0.02, 0.04]
    assert waits[17] == pytest.approx(655.36)
    assert waits[18:] == [1000.0, 1000.0]
    limiter.forget("a")
    assert limiter.when("a") == 0.005


def test_all_keys_share_ten_retries_a_second_after_a_hundred(clock: FakeClock) -> None:
    limiter: RateLimiter[int] = RateLimiter(clock)
    waits = [limiter.when(key) for key in range(BURST + 30)]
    assert waits[:BURST] == [BASE] * BURST
    assert waits[BURST:] == pytest.approx([(n + 1) / RATE for n in range(30)])
    clock.now += 3 + 1  # the 30 that are owed, and 10 more
    assert [limiter.when(key) for key in range(1000, 1012)] == pytest.approx([BASE] * 10 + [0.1, 0.2])


def test_any_number_of_failures_is_a_number(clock: FakeClock) -> None:
    limiter: RateLimiter[str] = RateLimiter(clock, rate=1e9)
    assert [limiter.when("a") for _ in range(5000)][-1] == CAP


def test_nothing_begins_after_the_end(clock: FakeClock) -> None:
    queue: WorkQueue[str] = WorkQueue(clock)
    queue.add("a")
    queue.add("b")
    queue.add_after("c", 1)
    assert queue.get() == "a"
    queue.add("a")
    queue.shut_down()
    queue.done("a")
    queue.add("d")
    queue.add_after("e", 0)
    queue.add_rate_limited("f")
    clock.now += 100
    assert (queue.get(), len(queue), queue.next_due(), queue.idle, queue.shutting_down) == (None, 0, None, True, True)
