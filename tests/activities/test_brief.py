"""What begins in a local activity ends there, or goes on below a remote one, or is cancelled."""

from __future__ import annotations

import asyncio

import pytest
from temporalio.testing import ActivityEnvironment

from support.waiting import eventually
from windlass.activities import brief as brief_module
from windlass.activities.brief import Brief, Briefs


class Work:
    """Goes on until it is let go, or for ever if it wants to be attended and is not."""

    def __init__(self, *, attended: bool = False) -> None:
        self.go = asyncio.Event()
        self.begun = 0
        self.cancelled = False
        self._attended = attended

    async def __call__(self, brief: Brief) -> str:
        self.begun += 1
        brief.beat.details = "at it"
        try:
            if self._attended:
                await brief.attended()
            else:
                await self.go.wait()
        except asyncio.CancelledError:
            self.cancelled = True
            raise
        return "done"


async def test_what_ends_at_once_ends_in_the_local_activity() -> None:
    work = Work()
    work.go.set()
    assert await Briefs[str]().begin("a", work) == "done"


async def test_what_takes_longer_is_taken_over_and_goes_on_with_heartbeats() -> None:
    briefs, work, beats = Briefs[str](), Work(), list[str]()
    assert await briefs.begin("a", work) is None
    environment = ActivityEnvironment()
    environment.on_heartbeat = lambda *details: beats.append(details[0])
    taking = asyncio.ensure_future(environment.run(briefs.attend, "a", work))
    await eventually(lambda: beats, 10)
    work.go.set()
    assert await taking == "done"
    assert (work.begun, beats[0]) == (1, "at it")


async def test_what_wants_to_be_attended_says_so_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(brief_module, "LINGER", 60)
    briefs, work = Briefs[str](), Work(attended=True)
    assert await briefs.begin("a", work) is None
    assert await ActivityEnvironment().run(briefs.attend, "a", work) == "done"
    assert work.begun == 1


async def test_a_remote_activity_that_finds_nothing_does_it_all() -> None:
    work = Work(attended=True)
    assert await ActivityEnvironment().run(Briefs[str]().attend, "a", work) == "done"


async def test_what_fails_at_once_fails_in_the_local_activity() -> None:
    async def work(_: Brief) -> str:
        raise ValueError("no luck")

    with pytest.raises(ValueError, match="no luck"):
        await Briefs[str]().begin("a", work)


async def test_what_nobody_takes_over_is_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(brief_module, "TAKEN_WITHIN", 0.01)
    briefs, work = Briefs[str](), Work()
    assert await briefs.begin("a", work) is None
    await eventually(lambda: work.cancelled, 10)
    again = Work()
    again.go.set()
    assert await ActivityEnvironment().run(briefs.attend, "a", again) == "done"
    assert again.begun == 1


async def test_what_is_taken_over_is_not_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(brief_module, "TAKEN_WITHIN", 0.05)
    briefs, work = Briefs[str](), Work()
    assert await briefs.begin("a", work) is None
    taking = asyncio.ensure_future(ActivityEnvironment().run(briefs.attend, "a", work))
    await asyncio.sleep(0.2)  # longer than it would have been left alone
    assert not work.cancelled
    work.go.set()
    assert await taking == "done"


@pytest.mark.parametrize("remote", [False, True])
async def test_cancelling_either_activity_ends_the_work_first(monkeypatch: pytest.MonkeyPatch, *, remote: bool) -> None:
    monkeypatch.setattr(brief_module, "LINGER", 60)
    briefs, work = Briefs[str](), Work()
    call = ActivityEnvironment().run(briefs.attend, "a", work) if remote else briefs.begin("a", work)
    activity = asyncio.ensure_future(call)
    await eventually(lambda: work.begun, 10)
    activity.cancel()
    with pytest.raises(asyncio.CancelledError):
        await activity
    assert work.cancelled


async def test_what_is_left_can_be_ended() -> None:
    briefs, mine, other = Briefs[str](), Work(), Work()
    assert await briefs.begin(("mine", 1), mine) is None
    assert await briefs.begin(("other", 1), other) is None
    await briefs.end(lambda key: isinstance(key, tuple) and "mine" in key)
    assert (mine.cancelled, other.cancelled) == (True, False)
    await briefs.end(lambda _: True)


async def test_what_was_begun_ahead_is_what_the_local_activity_ends_with() -> None:
    briefs, work = Briefs[str](), Work()
    task = briefs.ahead("a", work)
    await eventually(lambda: work.begun, 10)
    coming = asyncio.ensure_future(briefs.begin("a", work))
    work.go.set()
    assert await coming == "done" == await task
    assert work.begun == 1


@pytest.mark.parametrize("remote", [False, True])
async def test_what_has_ended_or_failed_ahead_is_learned_all_the_same(*, remote: bool) -> None:
    async def fails(_: Brief) -> str:
        raise ValueError("no luck")

    briefs, work = Briefs[str](), Work()
    work.go.set()
    await asyncio.wait({briefs.ahead("works", work), briefs.ahead("fails", fails)})

    async def come(key: str) -> str | None:
        return await (ActivityEnvironment().run(briefs.attend, key, work) if remote else briefs.begin(key, work))

    assert await come("works") == "done"
    with pytest.raises(ValueError, match="no luck"):
        await come("fails")
    assert work.begun == 1


async def test_what_was_begun_ahead_and_nobody_comes_for_is_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(brief_module, "TAKEN_WITHIN", 0.01)
    work = Work()
    task = Briefs[str]().ahead("a", work)
    await asyncio.wait({task}, timeout=10)
    assert (task.cancelled(), work.cancelled) == (True, True)


async def test_each_wait_for_an_activity_is_granted_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(brief_module, "TAKEN_WITHIN", 0.3)
    monkeypatch.setattr(brief_module, "LINGER", 0.2)
    briefs, work = Briefs[str](), Work()
    briefs.ahead("a", work)
    assert await briefs.begin("a", work) is None
    await asyncio.sleep(0.2)  # together more than one wait, and less than two
    assert not work.cancelled
    await briefs.end(lambda _: True)
