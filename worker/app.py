"""Serves shards: for each of them a Temporal worker and what lives beside it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from datetime import timedelta
from functools import partial
from typing import Any, Final

import structlog
from temporalio import workflow
from temporalio.client import Client
from temporalio.worker import Interceptor, PollerBehaviorSimpleMaximum, Worker

from windlass import __version__
from windlass.domain.errors import Reason, TransientError
from windlass.domain.ids import package_workflow_prefix
from windlass.observers.border import Border
from windlass.observers.metrics import Metrics, StepMetrics
from windlass.observers.quarantine import WORKER, Quarantine
from windlass.observers.shard import Shard
from windlass.runtime.packages import PackageLifecycles
from windlass.temporal.interceptors import FailureInterceptor, LogContextInterceptor
from windlass.worker.adapters import Adapters
from windlass.worker.fence import Fence
from windlass.worker.registration import WORKFLOWS, activities
from windlass.worker.sandbox import workflow_runner
from windlass.worker.services import Beside, hook_watches, services
from windlass.worker.settings import Settings
from windlass.worker.shards import Notice
from windlass.worker.slots import helm_tuner
from windlass.worker.waiting import entered, explained

GRACE: Final = timedelta(seconds=5)
"""How long running activities may go on after a stop; then they are cancelled and taken up by the next worker."""

PATIENCE: Final = 30.0
"""Seconds for which a shard that is to move waits until none of its activities runs; then they get `GRACE`."""

LAST_WAIT: Final = 8.0
"""Seconds for a worker whose shard is lost to end, after everything that it ran was cancelled."""

BEAT: Final = timedelta(seconds=1)
"""Heartbeats reach the server this often, so that a cancellation is noticed within about a second."""


_log = structlog.stdlib.get_logger(__name__)


class ShardServer:
    """Serves shards of one installation with the adapters of this process."""

    def __init__(
        self, client: Client, settings: Settings, digest_key: bytes, adapters: Adapters, metrics: Metrics
    ) -> None:
        self._metrics = metrics
        self._client = client
        self._settings = settings
        # It tells lifecycles that run, and starts none: the number of shards does not matter.
        quarantine = Quarantine(PackageLifecycles(client, installation=settings.installation), WORKER)
        border = Border(quarantine, metrics.fault, adapters.suspects)
        self._watches = hook_watches(adapters, client, settings, border)
        self._activities = activities(adapters, self._watches, settings, digest_key)
        # The first is left last: what ends with the others is still noted.
        beside = services(adapters, client, settings, Beside(border=border, quarantine=quarantine))
        self._services = (quarantine, *beside, self._watches)
        workflow.logger.workflow_info_on_message = False  # the log's own fields say it already

    async def __call__(self, shard: int, count: int, notice: Notice) -> None:
        """Serve one shard until told to end; see `shards.Serve`.

        Raises:
            TransientError: API_UNAVAILABLE, Temporal does not let us work.
        """
        served = Shard(installation=self._settings.installation, number=shard, count=count)
        fence = Fence()
        async with AsyncExitStack() as stack:
            for service in self._services:
                what = f"{type(service).__name__} of shard {shard}"
                await entered(stack, what, service.serving(served))
            workers = (self._worker(served, fence), self._helm_worker(served, fence))
            await run_fenced(workers, fence, notice, lost=partial(self._watches.lost, served))

    def _worker(self, shard: Shard, fence: Fence) -> Worker:
        settings = self._settings
        return Worker(
            self._client,
            task_queue=shard.queue,
            workflows=WORKFLOWS,
            activities=self._activities.all,
            workflow_runner=workflow_runner(),
            interceptors=self._interceptors(fence),
            build_id=f"windlass-{__version__}",
            max_concurrent_activities=settings.activities,
            max_concurrent_local_activities=settings.activities,
            max_concurrent_workflow_tasks=settings.workflow_tasks,
            max_cached_workflows=settings.cache_share(shard.count),
            sticky_queue_schedule_to_start_timeout=timedelta(seconds=2),
            max_heartbeat_throttle_interval=BEAT,
            default_heartbeat_throttle_interval=BEAT,
            graceful_shutdown_timeout=GRACE,
        )

    def _helm_worker(self, shard: Shard, fence: Fence) -> Worker:
        return Worker(
            self._client,
            task_queue=shard.helm_queue,
            activities=self._activities.helm,
            interceptors=self._interceptors(fence),
            build_id=f"windlass-{__version__}",
            tuner=helm_tuner(self._activities.turns, self._settings.activities),
            activity_task_poller_behavior=PollerBehaviorSimpleMaximum(1),
            max_heartbeat_throttle_interval=BEAT,
            default_heartbeat_throttle_interval=BEAT,
            graceful_shutdown_timeout=GRACE,
        )

    def _interceptors(self, fence: Fence) -> list[Interceptor]:
        return [
            fence,
            StepMetrics(self._metrics),
            FailureInterceptor(),
            LogContextInterceptor(package_workflow_prefix(self._settings.installation)),
        ]


async def run_fenced(
    workers: Sequence[Worker], fence: Fence, notice: Notice, *, lost: Callable[[], None] = lambda: None
) -> None:
    """Run the workers of a shard until told to end, or until one of them ends by itself.

    A cancellation means that the shard is lost: what runs inside the fence is cancelled first, and given back to
    Temporal, before the workers shut down.

    Args:
        workers: of the shard.
        fence: around their activities.
        notice: tells to end.
        lost: called when the shard is lost, once nothing more can begin.

    Raises:
        TransientError: API_UNAVAILABLE, Temporal does not let us work.
    """
    running = [asyncio.create_task(_run(worker)) for worker in workers]
    try:
        await _told(notice, running, fence)
    except asyncio.CancelledError:
        fence.close()
        lost()
        raise
    finally:
        what = f"the workers of {', '.join(worker.task_queue for worker in workers)} to end"
        async with explained(what, fence.running):
            await _ended(workers, running)


async def _run(worker: Worker) -> None:
    try:
        await worker.run()
    except RuntimeError as error:  # the bridge reports every fault of its connection like that
        raise TransientError(
            Reason.API_UNAVAILABLE,
            f"the worker of {worker.task_queue} ended: {error}",
            hint="look whether Temporal is there; it is tried again",
        ) from error


async def _told(notice: Notice, running: Sequence[asyncio.Task[None]], fence: Fence) -> None:
    """Wait until the shard is to be ended, or a worker of it has ended by itself."""
    stop, leave = (asyncio.create_task(event.wait()) for event in (notice.stop, notice.leave))
    waiting: list[asyncio.Task[Any]] = [stop, leave]
    try:
        await asyncio.wait({*running, stop, leave}, return_when=asyncio.FIRST_COMPLETED)
        if leave.done() and not stop.done() and not any(task.done() for task in running):
            quiet = asyncio.create_task(fence.quiet())
            waiting.append(quiet)
            async with explained("the activities of a shard that moves", fence.running):
                await asyncio.wait({*running, stop, quiet}, timeout=PATIENCE, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in waiting:
            task.cancel()


async def _ended(workers: Sequence[Worker], running: Sequence[asyncio.Task[None]]) -> None:
    """Shut workers down and await their end; when that is cancelled, for a last while: two of one queue are refused.

    The fence is closed before it is cancelled, so nothing has effects any more; Temporal gives what is in flight to the
    next worker.
    """
    stopping = [asyncio.create_task(worker.shutdown()) for worker in workers]
    try:
        await asyncio.wait(running)
        await asyncio.gather(*running)  # raises the first failure, and has looked at the others
    except asyncio.CancelledError:
        _, going = await asyncio.wait(running, timeout=LAST_WAIT)
        if going:
            _log.warning("worker ended with work in flight, which the next one takes up", seconds=LAST_WAIT)
        raise
    finally:
        for task in stopping:
            task.cancel()
