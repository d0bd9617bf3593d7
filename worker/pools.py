"""Workers that do one kind of work for all shards, where Helm needs machines or rights of its own."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Sequence
from functools import partial
from typing import Any, override

from temporalio import activity
from temporalio.client import Client
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput, Interceptor, Worker

from windlass import __version__
from windlass.activities.heartbeat import heartbeating
from windlass.adapters.kube.coordination.leases import held
from windlass.adapters.processes.watchdog import Watchdog
from windlass.contracts.lifecycle import Pool
from windlass.domain.errors import Reason, TransientError
from windlass.domain.ids import operation_name, package_of, package_workflow_prefix, pool_queue
from windlass.ports.kube import Kube
from windlass.temporal.interceptors import FailureInterceptor, LogContextInterceptor
from windlass.worker.app import BEAT, GRACE
from windlass.worker.registration import Activities
from windlass.worker.settings import Settings
from windlass.worker.slots import helm_tuner

OPERATION_SECONDS: float = 10.0
"""Seconds until an operation of a lost process may be begun anew; the process has given up by then."""


class OperationGuard(Interceptor):
    """Holds a Lease for the package while an activity works on it.

    Shards keep two operations of one package apart by themselves: one process serves the package. In a pool, Temporal
    may give the next attempt to another process while the first one, which it has lost sight of, still works.
    """

    def __init__(self, kube: Kube, namespace: str, installation: str, identity: str, watchdog: Watchdog) -> None:
        self._watchdog = watchdog
        self._kube = kube
        self._namespace = namespace
        self._installation = installation
        self._identity = identity

    @override
    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:
        return _Guarded(next, self)

    async def run(self, following: ActivityInboundInterceptor, work: ExecuteActivityInput) -> Any:
        """Run one activity while holding its package's Lease.

        Raises:
            LeaseLostError: the Lease could not be renewed; the activity was cancelled.
        """
        key = package_of(self._installation, activity.info().workflow_id or "")
        if key is None:
            return await following.execute_activity(work)
        attempt = f"{secrets.token_hex(4)}-{self._identity}"
        name, promise = operation_name(key), partial(self._watchdog.promise, attempt)
        lease = held(self._kube, self._namespace, name, attempt, OPERATION_SECONDS, fleeting=True, promise=promise)
        async with heartbeating(), lease:
            return await following.execute_activity(work)


class _Guarded(ActivityInboundInterceptor):
    def __init__(self, following: ActivityInboundInterceptor, guard: OperationGuard) -> None:
        super().__init__(following)
        self._guard = guard

    @override
    async def execute_activity(self, input: ExecuteActivityInput) -> Any:
        return await self._guard.run(self.next, input)


def pool_worker(
    client: Client, settings: Settings, pool: Pool, methods: Activities, around: Sequence[Interceptor]
) -> Worker:
    """Make the worker of one pool; ``around`` is metrics, then the guard."""
    measured, *guards = around
    return Worker(
        client,
        task_queue=pool_queue(settings.installation, pool),
        activities=methods.helm,
        interceptors=[
            measured,
            FailureInterceptor(),
            LogContextInterceptor(package_workflow_prefix(settings.installation)),
            *guards,
        ],
        build_id=f"windlass-{__version__}",
        tuner=helm_tuner(methods.turns, settings.activities),
        max_heartbeat_throttle_interval=BEAT,
        default_heartbeat_throttle_interval=BEAT,
        graceful_shutdown_timeout=GRACE,
    )


async def run_until(worker: Worker, stop: asyncio.Event) -> None:
    """Run ``worker`` until ``stop`` is set.

    Raises:
        TransientError: API_UNAVAILABLE, Temporal does not let us work.
    """
    running = asyncio.create_task(worker.run())
    stopping = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({running, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if not running.done():
            await worker.shutdown()
        await running
    except RuntimeError as error:  # the bridge reports every fault of its connection like that
        raise TransientError(
            Reason.API_UNAVAILABLE,
            f"the worker of {worker.task_queue} ended: {error}",
            hint="look whether Temporal is there; it is tried again",
        ) from error
    finally:
        stopping.cancel()
