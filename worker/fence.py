"""What runs of one shard, so that it can be waited for, and ended at once when the shard is lost."""

from __future__ import annotations

import asyncio
from typing import Any, Final, override

from temporalio import activity
from temporalio.exceptions import ApplicationError, CancelledError
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput, Interceptor

from windlass.domain.errors import Reason, TransientError
from windlass.temporal.failures import to_application_error

_LOST: Final = "this worker has lost the shard"


class Fence(Interceptor):
    """Stands around the activities of one shard until it is closed.

    A closed fence cancels what runs and refuses what comes: hooks and Helm operations end as on any cancel (about 1 s),
    and the workflow sees a cancelled step, which its next worker takes up. Must be the first of the interceptors.
    """

    def __init__(self) -> None:
        self._running: set[asyncio.Task[Any]] = set()
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

    async def quiet(self) -> None:
        """Wait for a moment in which no activity runs."""
        await self._quiet.wait()

    async def run(self, following: ActivityInboundInterceptor, work: ExecuteActivityInput) -> Any:
        """Run one activity inside the fence.

        Raises:
            CancelledError: Temporal's; the fence was closed meanwhile.
            ApplicationError: the same for a local activity: its workflow must not think itself cancelled.
        """
        if self._closed:
            raise _lost()
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("activities run in tasks")
        self._running.add(task)
        self._quiet.clear()
        try:
            return await following.execute_activity(work)
        except (asyncio.CancelledError, ApplicationError):
            if not self._closed:
                raise
            task.uncancel()
            raise _lost() from None
        finally:
            self._running.discard(task)
            if not self._running:
                self._quiet.set()


def _lost() -> CancelledError | ApplicationError:
    if activity.info().is_local:
        return to_application_error(TransientError(Reason.API_UNAVAILABLE, _LOST, hint="another one goes on"))
    return CancelledError(_LOST)


class _Fenced(ActivityInboundInterceptor):
    def __init__(self, following: ActivityInboundInterceptor, fence: Fence) -> None:
        super().__init__(following)
        self._fence = fence

    @override
    async def execute_activity(self, input: ExecuteActivityInput) -> Any:
        return await self._fence.run(self.next, input)
