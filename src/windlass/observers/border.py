"""One package is one fault domain: whatever its work beside the workflows raises stays behind this border.

Everything that a worker or watcher does for one package outside of activities (comparisons, informers, filters, signals
about events, restored watches) runs through `Border`. A fault is logged with its text and trace, counted, and shown in
the package's condition `Quarantined`; the work is tried again with back-off. Other parts of the package, and other
packages, do not notice. Work for all packages of a process (`Border.shared`) is restarted in the same way, but no
package is blamed for it.
"""

from __future__ import annotations

import asyncio
import secrets
import traceback
from collections.abc import Awaitable, Callable, Coroutine
from typing import Final, Protocol

import structlog

from windlass.domain.backoff import delay
from windlass.domain.errors import Actor, Category, PermanentError, Reason, TransientError
from windlass.domain.faults import Fault, fault_of, text_of
from windlass.domain.ids import PackageKey
from windlass.domain.lifecycle.losses import LOSSES
from windlass.ports.suspects import Suspects

STEADY: Final = 60.0
"""Seconds that restarted work must go on without a fault to count as working again. Not below the longest back-off, or
work that fails slowly would be reported as broken and working in turns."""

_log = structlog.stdlib.get_logger(__name__)

type Make = Callable[[], Awaitable[object]]
"""Makes the work; called anew for every try."""


class Faults(Protocol):
    """Is told which work of a package is broken (`windlass.observers.quarantine`).

    ``run`` identifies one piece of work.
    """

    def failed(self, key: PackageKey, run: object, fault: Fault) -> None:
        """Note that this work has failed and is tried again."""
        ...

    def works(self, key: PackageKey, run: object) -> None:
        """Note that this work works again, or is done."""
        ...

    def ended(self, key: PackageKey, run: object) -> None:
        """Note that this work was cancelled, whether it worked or not."""
        ...


class Count(Protocol):
    """Counts faults by part."""

    def __call__(self, part: str) -> None:
        """Count one fault."""
        ...


class Border:
    """Runs work of packages so that its failures stay with the package.

    Args:
        faults: is told of faults and recoveries.
        count: counts faults.
        suspects: notes single pieces of work (`once`), and knows which ones have ended too many processes.
    """

    def __init__(self, faults: Faults, count: Count, suspects: Suspects | None = None) -> None:
        self._suspects = suspects
        self._faults = faults
        self._count = count
        self._spawned: set[asyncio.Task[None]] = set()

    async def run(self, key: PackageKey, part: str, make: Make) -> None:
        """Run ``make()`` until it returns; after a failure again, with back-off, for ever.

        Returns only when the work has returned. Raises nothing but the cancellation of the calling task; a
        `CancelledError` that nobody asked for is a failure like any other.

        Args:
            key: the package.
            part: what kind of work this is, one lower-case word; a label of the metric and shown to people.
            make: makes the work; called anew for every try.
        """
        run = object()
        try:
            await self._kept(part, make, key, run)
        except asyncio.CancelledError:
            self._faults.ended(key, run)
            raise
        self._faults.works(key, run)

    def spawn(self, key: PackageKey, part: str, make: Make) -> asyncio.Task[None]:
        """Begin `run` in a task of its own; cancel the task to end the work."""
        return self._task(self.run(key, part, make), f"{part} of {key.package_id}")

    async def once(self, key: PackageKey, part: str, make: Make) -> bool:
        """Run ``make()`` a single time; return whether it succeeded.

        For work with a schedule of its own: the fault is over with the next success of the same part.
        """
        error = await self._tried_once(key, part, make)
        if error is None:
            self._faults.works(key, part)
            return True
        self._note(part, error, 1, key, part)
        return False

    async def _tried_once(self, key: PackageKey, part: str, make: Make) -> BaseException | None:
        """Run ``make()`` with a note of it, so that the next process knows if this one does not survive it."""
        suspects = self._suspects
        if suspects is None:
            return await _failure(make)
        if await suspects.quarantined(key, part):
            return PermanentError(
                Reason.WORKER_LOST,
                f"{LOSSES} workers in a row have ended during this work; it is not done any more",
                hint="see why they ended (their logs), and give the package another version",
                actor=Actor.ADMIN,
            )
        with suspects.opening(key, part):
            error = await _failure(make)
        if error is None:
            await suspects.worked(key, part)
        return error

    async def shared_once(self, part: str, make: Make) -> bool:
        """Run work that belongs to no single package as `once` does."""
        error = await _failure(make)
        if error is not None:
            self._note(part, error, 1, None, None)
        return error is None

    async def shared(self, part: str, make: Make) -> None:
        """Run work that belongs to no single package as `run` does."""
        await self._kept(part, make, None, None)

    def spawn_shared(self, part: str, make: Make) -> asyncio.Task[None]:
        """Begin `shared` in a task of its own."""
        return self._task(self.shared(part, make), part)

    def _task(self, work: Coroutine[None, None, None], name: str) -> asyncio.Task[None]:
        task = asyncio.create_task(work, name=name)
        self._spawned.add(task)  # the loop itself keeps weak references only
        task.add_done_callback(self._spawned.discard)
        return task

    async def _kept(self, part: str, make: Make, key: PackageKey | None, run: object) -> None:
        loop = asyncio.get_running_loop()
        failures = 0
        while True:
            began = loop.time()
            steady = None
            if failures and key is not None:
                steady = loop.call_later(STEADY, self._faults.works, key, run)
            try:
                error = await _failure(make)
            finally:
                if steady is not None:
                    steady.cancel()
            if error is None:
                return
            failures = 1 if loop.time() - began >= STEADY else failures + 1
            self._note(part, error, failures, key, run)
            await asyncio.sleep(delay(Category.TRANSIENT, failures, chance=secrets.randbelow(1000) / 1000))

    def _note(self, part: str, error: BaseException, failures: int, key: PackageKey | None, run: object) -> None:
        where = {"part": part, "failures": failures, **({"package": key.package_id} if key else {})}
        if isinstance(error, TransientError):
            # The API server or Temporal is away: nobody's fault, and over by itself.
            _log.warning("interrupted", reason=error.reason.value, error=str(error), **where)
            return
        # Code only: texts of foreign exceptions may quote values.
        trace = "".join(traceback.format_tb(error.__traceback__))
        _log.error("part failed", error=text_of(error), stack=trace, **where)
        self._count(part)
        if key is not None:
            self._faults.failed(key, run, fault_of(part, error))


async def _failure(make: Make) -> BaseException | None:
    """Run the work once; return what it failed of, None if it returned.

    Raises:
        CancelledError: the calling task is being cancelled.
    """
    try:
        await make()
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        return error
    except Exception as error:  # noqa: BLE001 - this is the border
        return error
    return None
