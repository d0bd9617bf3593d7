"""Signals on their way to Temporal: at most one per package, the newest wins, failures are tried again."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from typing import Final

import structlog

from windlass.contracts.objects import SeenStatus
from windlass.domain.backoff import delay
from windlass.domain.errors import Category
from windlass.domain.faults import text_of
from windlass.domain.ids import PackageKey
from windlass.observers.metrics import Metrics
from windlass.runtime.packages import PackageLifecycles

SENDERS: Final = 32
"""Signals in flight at a time."""

AWAY_CAP: Final = 2.0
"""Seconds at most until Temporal is tried again. Temporal is away, not one package's signal wrong: all senders share
the back-off, so a try costs little, and nobody waits long once it is back."""

_log = structlog.stdlib.get_logger(__name__)


class SignalQueue:
    """Keyed by package: a burst of changes to one object becomes one signal."""

    def __init__(self, lifecycles: PackageLifecycles, metrics: Metrics) -> None:
        self._lifecycles = lifecycles
        self._metrics = metrics
        self._since: dict[PackageKey, float] = {}
        self._waiting: OrderedDict[PackageKey, SeenStatus] = OrderedDict()
        self._sent: dict[PackageKey, SeenStatus] = {}
        self._filled = asyncio.Semaphore(0)
        self._failures = 0
        self._again_at = 0.0

    def put(self, key: PackageKey, seen: SeenStatus, *, force: bool = False) -> bool:
        """Queue a signal unless this very state was signalled already; return whether it was queued."""
        if not force and self._sent.get(key) == seen:
            return False
        self._sent[key] = seen
        if key not in self._waiting:
            self._filled.release()
        self._waiting[key] = seen
        self._since.setdefault(key, time.monotonic())
        self._metrics.signals_waiting.set(len(self._waiting))
        return True

    def forget(self) -> None:
        """Forget what was signalled: the next comparison signals every difference again."""
        self._sent.clear()

    def drop(self, key: PackageKey) -> None:
        """Forget a package that is gone; a signal that waits for it finds nothing to send."""
        self._sent.pop(key, None)
        self._waiting.pop(key, None)
        self._since.pop(key, None)

    async def run(self) -> None:
        """Send until cancelled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(SENDERS):
                group.create_task(self._send())

    async def _send(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._filled.acquire()
            await asyncio.sleep(max(0.0, self._again_at - loop.time()))
            if not self._waiting:
                continue  # dropped meanwhile
            key, seen = self._waiting.popitem(last=False)
            since = self._since.pop(key, time.monotonic())
            self._metrics.signals_waiting.set(len(self._waiting))
            try:
                await self._lifecycles.desired_changed(key, seen)
                self._failures = 0
                self._metrics.signals.labels("sent").inc()
                self._metrics.signal_delay.observe(time.monotonic() - since)
            except Exception as error:  # noqa: BLE001 - whatever it is, the others' signals go on
                self._metrics.signals.labels("failed").inc()
                self._since.setdefault(key, since)
                _log.warning("signal not taken", package=key.package_id, error=text_of(error))
                if self._again_at <= loop.time():  # one failure for all who tried at the same time
                    self._failures += 1
                    pause = min(delay(Category.TRANSIENT, self._failures, chance=0.5), AWAY_CAP)
                    self._again_at = loop.time() + pause
                if key not in self._waiting and self._sent.get(key) == seen:
                    self._waiting[key] = seen
                    self._filled.release()
