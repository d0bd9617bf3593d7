"""Runs the Temporal workers of this process: one for each shard that it serves."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from datetime import timedelta
from typing import Final

import structlog
from temporalio import workflow
from temporalio.client import Client
from temporalio.worker import Worker

from windlass import __version__
from windlass.domain.ids import package_workflow_prefix
from windlass.temporal.interceptors import FailureInterceptor, LogContextInterceptor
from windlass.temporal.keyring import Keyring
from windlass.worker.adapters import built
from windlass.worker.registration import WORKFLOWS, Activities, activities
from windlass.worker.sandbox import workflow_runner
from windlass.worker.services import Shard, services
from windlass.worker.settings import Settings
from windlass.worker.sweep import sweep

GRACE: Final = timedelta(seconds=5)
"""How long running activities may go on after a stop; then they are cancelled and taken up by the next worker."""

STOP_LIMIT: Final = 12.0
"""Seconds after which a stop ends with work still in flight, well before a kubelet's 30 s: an API server that does not
answer keeps local activities, and with them their workflow tasks, going. Temporal gives them to the next worker."""

BEAT: Final = timedelta(seconds=1)
"""Heartbeats reach the server this often, so that a cancellation is noticed within about a second."""

_log = structlog.stdlib.get_logger(__name__)


async def run_worker(client: Client, settings: Settings, keyring: Keyring, stop: asyncio.Event) -> None:
    """Serve all shards until ``stop`` is set; then finish or hand back what runs, in order."""
    workflow.logger.workflow_info_on_message = False  # the log's own fields say it already
    limit = asyncio.timeout(None)
    try:
        async with limit, AsyncExitStack() as stack:
            adapters = await stack.enter_async_context(built(settings, keyring))
            await sweep(adapters.kube, adapters.packages)
            methods = activities(adapters, settings, keyring)
            beside = services(adapters, client, settings, keyring)
            for number in range(settings.shards):
                shard = Shard(installation=settings.installation, number=number, count=settings.shards)
                for service in beside:
                    await stack.enter_async_context(service.serving(shard))
                await stack.enter_async_context(_worker(client, settings, shard, methods))
            _log.info("worker started", installation=settings.installation, shards=settings.shards)
            await stop.wait()
            _log.info("worker stopping")
            limit.reschedule(asyncio.get_running_loop().time() + STOP_LIMIT)
    except TimeoutError:
        if not limit.expired():
            raise
        _log.warning("worker stopped with work in flight, which the next one takes up", seconds=STOP_LIMIT)
    else:
        _log.info("worker stopped")


def _worker(client: Client, settings: Settings, shard: Shard, methods: Activities) -> Worker:
    return Worker(
        client,
        task_queue=shard.queue,
        workflows=WORKFLOWS,
        activities=methods.all,
        workflow_runner=workflow_runner(),
        interceptors=[
            FailureInterceptor(),
            LogContextInterceptor(package_workflow_prefix(settings.installation)),
        ],
        build_id=f"windlass-{__version__}",
        max_concurrent_activities=settings.activities,
        max_concurrent_local_activities=settings.activities,
        max_concurrent_workflow_tasks=settings.workflow_tasks,
        sticky_queue_schedule_to_start_timeout=timedelta(seconds=2),
        max_heartbeat_throttle_interval=BEAT,
        default_heartbeat_throttle_interval=BEAT,
        graceful_shutdown_timeout=GRACE,
    )
