"""When a worker fetches releases from its task queue of Helm operations."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import override
from weakref import WeakSet

from temporalio.worker import (
    CustomSlotSupplier,
    FixedSizeSlotSupplier,
    SlotMarkUsedContext,
    SlotPermit,
    SlotReleaseContext,
    SlotReserveContext,
    WorkerTuner,
)

from windlass.activities.turns import Turns


class HelmSlots(CustomSlotSupplier):
    """Lets a worker ask for one more release while a turn at Helm is free.

    Workers of several task queues share the turns of their process, and each asks when one is free, for one release at
    a time: for a moment there may be as many beyond the bound as there are workers.

    Args:
        turns: of this process.
        most: releases that this worker has at a time, those that wait for readiness among them.
    """

    def __init__(self, turns: Turns, most: int) -> None:
        self._turns = turns
        self._most = most
        # Weakly: a permit that the SDK drops without giving it back must not count for ever.
        self._asking: WeakSet[SlotPermit] = WeakSet()
        self._working: WeakSet[SlotPermit] = WeakSet()
        self._changed = asyncio.Event()
        turns.tell(self._changed)
        self._loop = asyncio.get_running_loop()

    @override
    async def reserve_slot(self, ctx: SlotReserveContext) -> SlotPermit:
        """Wait until there is room for one more; on the event loop."""
        while self._asking or len(self._working) >= self._most or not self._turns.free:
            self._changed.clear()
            await self._changed.wait()
        permit = SlotPermit()
        self._asking.add(permit)
        return permit

    @override
    def try_reserve_slot(self, ctx: SlotReserveContext) -> SlotPermit | None:
        """Give nothing: workflows of other task queues bring no releases along."""
        return None

    @override
    def mark_slot_used(self, ctx: SlotMarkUsedContext) -> None:
        """Learn that a release has come; called in threads of the SDK."""
        self._soon(self._came, ctx.permit)

    @override
    def release_slot(self, ctx: SlotReleaseContext) -> None:
        """Take a permit back; called in threads of the SDK."""
        self._soon(self._left, ctx.permit)

    def _soon(self, notice: Callable[[SlotPermit], None], permit: SlotPermit) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(notice, permit)

    def _came(self, permit: SlotPermit) -> None:
        self._asking.discard(permit)
        self._working.add(permit)
        self._turns.expect()
        self._changed.set()

    def _left(self, permit: SlotPermit) -> None:
        self._asking.discard(permit)
        self._working.discard(permit)
        self._changed.set()


def helm_tuner(turns: Turns, most: int) -> WorkerTuner:
    """Return the tuner of a worker that does Helm operations and nothing else; see `HelmSlots`."""
    none = FixedSizeSlotSupplier(1)
    return WorkerTuner.create_composite(
        workflow_supplier=none,
        activity_supplier=HelmSlots(turns, most),
        local_activity_supplier=none,
        nexus_supplier=none,
    )
