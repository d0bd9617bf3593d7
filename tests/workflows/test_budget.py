"""What a change costs in commands and history with activities that take no time (design section 4: budget)."""

from __future__ import annotations

import pytest
from workflows.life import Life
from workflows.test_journeys import HOOKS
from workflows.world import source

from support.histories import Cost, cost

pytestmark = pytest.mark.stack


def within(found: Cost, *, hooks: int) -> None:
    assert found.remote["hook.run"] == hooks, found
    assert found.beside_hooks <= 2, found
    assert found.local_steps <= 6, found
    assert found.status_writes <= 3, found
    assert found.upserts <= 1, found
    assert found.events < 100, found
    assert found.size < 256 * 1024, found


async def test_changes_stay_within_the_budget(life: Life) -> None:
    life.world.hooks = HOOKS
    await life.changed()
    await life.rests()
    install = await life.events()
    within(cost(install), hooks=4)
    await life.change(source=source("2"))
    await life.rests()
    upgrade = await life.events()
    within(cost(upgrade[len(install) :]), hooks=4)
    await life.change(settings="s2")
    await life.rests()
    settings = await life.events()
    within(cost(settings[len(upgrade) :]), hooks=3)
    await life.change(deleting=True)
    await life.ended()
    within(cost((await life.events())[len(settings) :]), hooks=2)
