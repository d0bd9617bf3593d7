"""What runs of one shard, so that it can be waited for, and ended at once when the shard is lost."""

from __future__ import annotations

import asyncio
from typing import Any, Final, override

from temporalio import activity
from temporalio.exceptions import ApplicationError
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput, Interceptor

from windlass.temporal.failures import handed_over

_LOST: Final = "the worker has lost the Lease of the shard"


NAMED: Final = 5
"""Activities that the log names when somebody waits for them."""


class Fence(Interceptor):
    """Stands around the activities of one shard until it is closed.

    A closed fence cancels what runs and refuses what comes: hooks and Helm operations end as on any cancel (about 1 s),
    and the workflow learns at once that its worker has lost the Lease (reason `LeaseLost`); its next worker takes the
    step up. Must be the first of the interceptors.
    """

    def __init__(self) -> None:
        self._running: dict[asyncio.Task[Any], str] = {}
        self._quiet = asyncio.Event()
        self._quiet.set()
        self._closed = False

    @override
    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:
        return _Fenced(next, self)

    def close(self) -> None:
        """Cancel what runs and let nothing more begin."""
        self._closed = True
        for task in self._running:
            task.cancel()

    def running(self) -> str:
        """Say what runs now, for the log."""
        names = sorted(self._running.values())
        more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
        return ", ".join(names[:NAMED]) + more

    async def quiet(self) -> None:
        """Wait for a moment in which no activity runs."""
        await self._quiet.wait()

    async def run(self, following: ActivityInboundInterceptor, work: ExecuteActivityInput) -> Any:
        """Run one activity inside the fence.

        Raises:
            ApplicationError: LeaseLost, the fence is closed. Not a cancellation: the server accepts one only where
                one was requested, and the step would be waited for until its heartbeat is overdue. Not to be retried
                as it is: a local activity that this worker's core tries again outlives the worker, and the core
                panics when its time is up.
        """
        if self._closed:
            raise handed_over(_LOST)
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("activities run in tasks")
        info = activity.info()
        self._running[task] = f"{info.activity_type} of {info.workflow_id}"
        self._quiet.clear()
        try:
            return await following.execute_activity(work)
        except (asyncio.CancelledError, ApplicationError):
            if not self._closed or _requested():
                raise
            task.uncancel()
            raise handed_over(_LOST) from None
        finally:
            self._running.pop(task, None)
            if not self._running:
                self._quiet.set()


def _requested() -> bool:
    """Say whether the workflow itself has asked for the cancellation of this activity."""
    details = activity.cancellation_details()
    return details is not None and details.cancel_requested


class _Fenced(ActivityInboundInterceptor):
    def __init__(self, following: ActivityInboundInterceptor, fence: Fence) -> None:
        super().__init__(following)
        self._fence = fence

    @override
    async def execute_activity(self, input: ExecuteActivityInput) -> Any:
        return await self._fence.run(self.next, input)
