"""Shows how far a wait has come in ``status.progress``, under a field manager of its own."""

from __future__ import annotations

import asyncio
from typing import Final

from windlass.activities.heartbeat import Beat
from windlass.contracts.objects import ProgressStatus
from windlass.domain.errors import WindlassError
from windlass.domain.ids import API_VERSION, PackageKey
from windlass.domain.lifecycle.readiness import Progress
from windlass.ports.clock import Clock
from windlass.ports.kube import Kube, Object

FIELD_MANAGER: Final = "windlass-progress"
EVERY: Final = 1.0
"""Seconds between writes at least; a wait that ends sooner writes nothing."""


class ProgressReporter:
    """Puts progress into the heartbeat at once and into the object's status once a second.

    ``shown`` says that the status holds progress already, left by an attempt that was killed.
    """

    def __init__(self, kube: Kube, clock: Clock, key: PackageKey, beat: Beat, *, shown: bool = False) -> None:
        self._kube = kube
        self._clock = clock
        self._key = key
        self._beat = beat
        self._next = clock.now() + EVERY
        self._shown = shown

    async def report(self, progress: Progress) -> None:
        """Take one reading of the wait; return when it has been shown.

        Readings come only when something changes, and the one before a long silence is the one people need: an early
        one is held back, not dropped. The wait's end cancels it.
        """
        awaited = f": {'; '.join(progress.waiting_for)}" if progress.waiting_for else ""
        self._beat.details = f"{progress.completed} ready, {progress.remaining} awaited{awaited}"
        await asyncio.sleep(self._next - self._clock.now())
        self._next = self._clock.now() + EVERY
        self._shown = True
        status = ProgressStatus(
            completed=progress.completed, remaining=progress.remaining, waiting_for=list(progress.waiting_for)
        )
        await self._apply({"progress": status.to_object()})

    async def clear(self) -> None:
        """Take the progress off the status if it was ever shown."""
        if self._shown:
            await self._apply({})

    async def _apply(self, status: Object) -> None:
        metadata: Object = {"name": self._key.name}
        if self._key.namespace:
            metadata["namespace"] = self._key.namespace
        body: Object = {
            "apiVersion": API_VERSION,
            "kind": self._key.kind.value,
            "metadata": metadata,
            "status": status,
        }
        try:
            await self._kube.apply(body, field_manager=FIELD_MANAGER, subresource="status")
        except WindlassError:
            return  # a reading that cannot be shown must not fail the release it is about
