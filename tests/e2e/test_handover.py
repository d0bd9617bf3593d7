"""Runs that end early and workers that die: what is carried over, with a threshold of thirty events for each run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from e2e import test_lifecycle as lifecycle
from e2e.test_examples import test_the_whole_story as the_examples
from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import WorkflowHistory

from support.installation import CONFIG_MAP, GREETING, ROLLOUT, STUCK, Installation, installed, write_package
from support.running import application_ref, keep, packages, revisions, running
from support.waiting import eventually
from windlass.contracts.lifecycle import Action
from windlass.devstack.stack import Stack

EVENTS = 30


@pytest.fixture
async def installation(stack: Stack, tmp_path: Path) -> AsyncIterator[Installation]:
    """An installation whose lifecycles hand over at thirty events; no process is running yet."""
    async with installed(stack, tmp_path / "installation", WINDLASS_CONTINUE_AFTER_EVENTS=str(EVENTS)) as made:
        (tmp_path / "packages").mkdir()
        await made.repository(tmp_path / "packages")
        yield made


@pytest.fixture(scope="module", autouse=True)
async def long_release(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Installation]:
    """A release that never becomes ready in a run that is due to end: begun first, since that takes half a minute."""
    folder = tmp_path_factory.mktemp("long")
    async with running(stack, folder, WINDLASS_CONTINUE_AFTER_EVENTS=str(EVENTS)) as made:
        write_package(packages(made), "rollout", "1.0.0", templates={"rollout.yaml": ROLLOUT}, settings=STUCK)
        await made.application("one", "rollout", "1.0.0", settings={"stuck": True})
        await made.status("one", lambda status: status.get("progress"))
        for number in range(20):
            touch = {"metadata": {"annotations": {"touched": str(number)}}}
            await made.kube.patch(application_ref(made, "one"), touch, kind="merge")
            await asyncio.sleep(0.05)  # each a signal of its own, so that the history grows
        yield made


def begun(history: WorkflowHistory) -> HistoryEvent:
    """Return the first event of a run."""
    return history.events[0]


def continued(history: WorkflowHistory) -> bool:
    """Say whether the run took over from another one."""
    return bool(begun(history).workflow_execution_started_event_attributes.continued_execution_run_id)


def first_run(history: WorkflowHistory) -> str:
    """Return the id of the first run of the chain that this run belongs to."""
    return begun(history).workflow_execution_started_event_attributes.first_execution_run_id


@pytest.mark.parametrize(
    "journey",
    [
        lifecycle.test_install_reconfigure_upgrade_downgrade_remove,
        lifecycle.test_invalid_settings_leave_the_release_untouched,
        lifecycle.test_recreated_during_removal_lives,
    ],
    ids=["whole-life", "invalid-settings", "re-creation"],
)
async def test_a_journey_is_the_same_in_short_runs(
    installation: Installation, tmp_path: Path, journey: Callable[[Installation, Path], Awaitable[None]]
) -> None:
    await journey(installation, tmp_path)
    history = await installation.history("one")
    assert continued(history), "runs did hand over"
    assert len(history.events) < 3 * EVENTS


async def test_the_examples_live_the_same_in_short_runs(installation: Installation) -> None:
    await the_examples(installation)
    assert continued(await installation.history("vault"))


async def test_hand_over_in_mid_pass_carries_everything(installation: Installation, tmp_path: Path) -> None:
    """Hooks fill the history: the first run ends between two of them, and none is run twice."""
    journal = tmp_path / "journal"
    hook = f"""#!/bin/sh
[ "$1" = --config ] && echo '{{"configVersion": "v1", "beforeHelm": 1}}' && exit 0
echo $0 >> {journal}
"""
    write_package(
        tmp_path / "packages",
        "many",
        "1.0.0",
        templates={"config.yaml": CONFIG_MAP},
        settings=GREETING,
        hooks={f"{number}.sh": hook for number in range(10, 20)},
    )
    installation.start()
    await installation.application("one", "many", "1.0.0", settings={"greeting": "hi"})
    await installation.ready("one")
    assert [Path(line).stem for line in journal.read_text().split()] == [str(number) for number in range(10, 20)]
    assert await revisions(installation, "one") == ["deployed"]

    await installation.lifecycles.pause(installation.key("one"), Action(who="ann", why="to be carried over"))
    for number in range(8):
        touch = {"metadata": {"annotations": {"touched": str(number)}}}
        await installation.kube.patch(application_ref(installation, "one"), touch, kind="merge")
        await asyncio.sleep(0.1)  # each a signal of its own

    async def taken_notice() -> bool:
        return continued(await installation.history("one"))

    await eventually(taken_notice, what="a later run")
    view = await installation.lifecycles.status(installation.key("one"))
    assert view.paused
    assert [(one.action, one.who, one.why) for one in view.actions] == [("pause", "ann", "to be carried over")]
    assert view.version == "1.0.0"
    history = await installation.history("one")
    await keep(installation, "one", "continue-as-new-in-mid-pass", first_run(history))
    await keep(installation, "one", "continued-run")


async def test_a_step_that_does_not_end_is_taken_along(long_release: Installation) -> None:
    """A run that has to end while a release is awaited gives it half a minute, and the next run awaits it again."""

    async def handed_over() -> bool:
        return continued(await long_release.history("one"))

    await eventually(handed_over, every=0.5, what="the next run")

    async def awaits() -> bool:
        return (await long_release.lifecycles.dump(long_release.key("one"))).running == "UpgradeRelease"

    await eventually(awaits, what="the next run awaits the same release")
    assert await revisions(long_release, "one") == ["deployed"], "released once"
    first = first_run(await long_release.history("one"))
    await long_release.application("one", "rollout", "1.0.0", settings={"stuck": False})
    await long_release.ready("one")
    await keep(long_release, "one", "hand-over-during-release", first)


async def test_a_lost_worker_is_told_from_a_failed_step(stack: Stack, tmp_path: Path) -> None:
    async with installed(stack, tmp_path / "installation") as installation:
        await installation.repository(tmp_path / "packages")
        write_package(tmp_path / "packages", "rollout", "1.0.0", templates={"rollout.yaml": ROLLOUT}, settings=STUCK)
        installation.start()
        await installation.application("one", "rollout", "1.0.0", settings={"stuck": True})
        await installation.status("one", lambda status: status.get("progress"))
        installation.kill()
        installation.start()

        async def timed_out() -> bool:
            events = (await installation.history("one")).events
            return any(event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_TIMED_OUT for event in events)

        await eventually(timed_out, what="the attempt of the lost worker is given up")

        async def awaits() -> bool:
            return (await installation.lifecycles.dump(installation.key("one"))).running == "UpgradeRelease"

        await eventually(awaits, what="the next attempt")
        assert await revisions(installation, "one") == ["deployed"]
        await installation.application("one", "rollout", "1.0.0", settings={"stuck": False})
        await installation.ready("one")
        await keep(installation, "one", "worker-lost")
