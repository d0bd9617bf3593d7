"""What a change costs in commands and history, counted from the history (design section 4: budget)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

from faults.subjects import Subject
from temporalio.client import WorkflowExecutionStatus

from support.histories import HOOK, Cost, cost
from support.installation import Installation
from support.waiting import eventually
from windlass.domain.ids import package_workflow_id

REMOTE = 2
LOCAL = 6
STATUS_WRITES = 3
UPSERTS = 1
EVENTS = 100
SIZE = 256 * 1024


async def spent(
    installation: Installation, name: str, change: Callable[[], Awaitable[object]], *, ends: bool = False
) -> Cost:
    """Return what ``change`` cost until the lifecycle rested again, or ended."""
    handle = installation.client.get_workflow_handle(package_workflow_id(installation.key(name)))
    before = 0
    if await installation.object(name) is not None:
        before = len((await handle.fetch_history()).events)
    await change()

    async def settled() -> bool:
        found = await handle.describe()
        if ends:
            return found.status is WorkflowExecutionStatus.COMPLETED
        raw = found.raw_description
        return not raw.pending_activities and not raw.HasField("pending_workflow_task")

    await eventually(settled, what=f"the lifecycle of {name} rests")
    return cost((await handle.fetch_history()).events[before:])


def check(what: str, found: Cost, *, hooks: int) -> None:
    """Compare with the budget."""
    assert found.remote[HOOK] == hooks, (what, found)
    assert found.beside_hooks <= REMOTE, (what, found)
    assert found.local_steps <= LOCAL, (what, found)
    assert found.status_writes <= STATUS_WRITES, (what, found)
    assert found.upserts <= UPSERTS, (what, found)
    assert found.failed_tasks == 0, (what, found)
    assert found.events < EVENTS, (what, found)
    assert found.size < SIZE, (what, found)


async def test_every_change_stays_within_the_budget(installation: Installation, tmp_path: Path) -> None:
    Subject("one", tmp_path / "packages", tmp_path / "one").write("1.0.0", "2.0.0")
    Subject("zero", tmp_path / "packages", tmp_path / "zero").write("1.0.0")
    installation.start()
    # The first package of a namespace takes one activity more: it makes the account that all of them act as.
    await installation.application("zero", "zero", "1.0.0")
    await installation.ready("zero", "1.0.0")

    async def install() -> None:
        await installation.application("one", "one", "1.0.0")
        await installation.ready("one", "1.0.0")

    async def upgrade() -> None:
        await installation.application("one", "one", "2.0.0")
        await installation.ready("one", "2.0.0")

    async def change_settings() -> None:
        await installation.application("one", "one", "2.0.0", settings={"greeting": "hi"})
        await installation.ready("one", "2.0.0")

    async def remove() -> None:
        await installation.delete("one")
        await installation.gone("one")

    found = {
        "install": (await spent(installation, "one", install), 3),
        "upgrade": (await spent(installation, "one", upgrade), 3),
        "settings change": (await spent(installation, "one", change_settings), 2),
        "removal": (await spent(installation, "one", remove, ends=True), 2),
    }
    for what, (spending, hooks) in found.items():
        check(what, spending, hooks=hooks)
