"""A run that has grown long hands over to the next one, which goes on where it stood."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import partial

import pytest
from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.worker import UnsandboxedWorkflowRunner
from workflows.life import ACTION, Life
from workflows.test_journeys import HOOKS, INSTALL, RUN
from workflows.world import FakeWorld, source

from support.waiting import eventually
from windlass.contracts.lifecycle import Limits
from windlass.domain.errors import PermanentError, Reason
from windlass.workflows import _beside

pytestmark = pytest.mark.stack


@pytest.fixture
async def life(temporal: Client) -> AsyncIterator[Life]:
    """Two remote activities end a run. The server begins a run a second after the last one at the earliest."""
    life = Life(client=temporal, world=FakeWorld(), limits=Limits(events=20))
    async with life.worker():
        yield life
        if (await life.handle.describe()).status is WorkflowExecutionStatus.RUNNING:
            await life.handle.terminate("the test is over")


async def runs(life: Life) -> int:
    """Count the runs by walking back from the newest."""
    count, run_id = 0, (await life.handle.describe()).run_id
    while run_id:
        count += 1
        handle = life.client.get_workflow_handle(life.handle.id, run_id=run_id)
        first = (await handle.fetch_history()).events[0].workflow_execution_started_event_attributes
        run_id = first.continued_execution_run_id
    return count


async def test_a_pass_over_many_runs_does_every_step_once(life: Life) -> None:
    life.world.hooks = HOOKS
    await life.changed()
    await life.rests()
    assert life.world.steps() == [*INSTALL[:-1], "onStartup hooks/late", *RUN]
    assert await runs(life) >= 3
    await life.change(source=source("2"))
    assert (await life.rests()).version == "2"
    await life.change(deleting=True)
    assert await life.ended() is WorkflowExecutionStatus.COMPLETED
    assert life.world.steps()[-5:] == [
        "beforeDeleteHelm hooks/early",
        "uninstall_release",
        "afterDeleteHelm hooks/last",
        "clean_up",
        "release_finalizer",
    ]


async def test_a_failure_its_attempts_and_actions_are_carried_over(life: Life) -> None:
    broken = PermanentError(Reason.RESOURCE_FAILED, "Job/web-init failed")
    life.world.fail("helm.upgrade_release", broken, broken)
    await life.changed()
    await eventually(lambda: life.world.statuses and life.world.statuses[-1].status.failure)
    await life.lifecycles.retry(life.key, ACTION)

    def second() -> bool:
        failure = life.world.statuses[-1].status.failure
        return failure is not None and failure.attempt == 2

    await eventually(second, what="the second attempt has failed")

    async def handed_over() -> bool:
        return await runs(life) > 1

    await eventually(handed_over, what="another run has taken over")
    await eventually(life.status)
    dump = await life.lifecycles.dump(life.key)
    assert [action.action for action in dump.state.actions] == ["retry"]
    assert dump.state.failure is not None
    assert dump.state.failure.attempt == 2
    assert dump.state.progress.run.before == 0
    assert life.world.steps().count("download 1") == 1


async def test_a_pause_is_carried_over(life: Life) -> None:
    hold = life.world.hold("package.download")
    await life.changed()
    await hold.started.wait()
    await life.lifecycles.pause(life.key, ACTION)
    hold.release()
    await life.rests("Paused")
    for _ in range(3):
        await life.change()
        await life.rests("Paused")
    assert life.world.steps() == ["add_finalizer", "download 1"]
    await life.lifecycles.resume(life.key, ACTION)
    await life.rests()


async def test_many_signals_end_a_run_too(temporal: Client) -> None:
    life = Life(client=temporal, world=FakeWorld(), limits=Limits(signals=3))
    async with life.worker():
        await life.changed()
        await life.rests()
        first = (await life.handle.describe()).run_id
        for _ in range(3):
            await life.change()
            await life.rests()
        assert (await life.handle.describe()).run_id != first
        assert life.world.steps() == INSTALL
        await life.handle.terminate("the test is over")


async def test_a_step_that_runs_when_the_run_is_due_to_end_gets_time_to_finish(life: Life) -> None:
    hold = life.world.hold("helm.upgrade_release")
    await life.changed()
    await hold.started.wait()
    run = (await life.handle.describe()).run_id
    for looks in range(2, 5):
        await life.changed()
        await eventually(partial(life.world.looked, looks))
    status = await life.status()
    assert status.step == "UpgradeRelease"
    assert (await life.handle.describe()).run_id == run
    hold.release()
    await life.rests()
    assert not hold.cancelled.is_set()
    assert life.world.steps().count("upgrade_release 1:s1") == 1
    assert (await life.handle.describe()).run_id != run


async def test_a_step_that_does_not_finish_in_time_is_cancelled_and_stays_next(
    temporal: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Outside of the sandbox the workflow is this very module, whose half minute can be shortened.
    monkeypatch.setattr(_beside, "HANDOVER_GRACE", 0.5)
    life = Life(client=temporal, world=FakeWorld(), limits=Limits(events=20))
    async with life.worker(UnsandboxedWorkflowRunner()):
        hold = life.world.hold("helm.upgrade_release")
        await life.changed()
        await hold.started.wait()
        run = (await life.handle.describe()).run_id
        for looks in range(2, 6):
            await life.changed()
            await eventually(partial(life.world.looked, looks))
        await asyncio.wait_for(hold.cancelled.wait(), 10)
        await life.rests()
        assert life.world.steps() == [*INSTALL, INSTALL[-1]]
        assert (await life.handle.describe()).run_id != run
        await life.handle.terminate("the test is over")
