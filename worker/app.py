"""The composition root: adapters meet ports, activities and workflows are registered, and the worker runs."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from typing import Any, Final

import structlog
from temporalio import workflow
from temporalio.client import Client
from temporalio.worker import Worker

from windlass import __version__
from windlass.activities.content import Contents
from windlass.activities.helm import HelmActivities
from windlass.activities.hooks import HookActivities
from windlass.activities.observe import ObserveActivities
from windlass.activities.packages import PackageActivities
from windlass.activities.status import StatusActivities
from windlass.adapters.helm.client import HelmClient
from windlass.adapters.hooks.runner import HookRunner
from windlass.adapters.kube.access import KubeHookAccess
from windlass.adapters.kube.client import KubeClient
from windlass.adapters.kube.events import KubeEventLog
from windlass.adapters.kube.patcher import KubeHookPatchers
from windlass.adapters.kube.readiness import KubeReadiness
from windlass.adapters.kube.records import RecordStore
from windlass.adapters.packages.store import PackageStore
from windlass.domain.errors import WindlassError
from windlass.domain.ids import API_VERSION, package_workflow_prefix, task_queue
from windlass.ports.kube import Kube
from windlass.ports.packages import Packages
from windlass.temporal.interceptors import FailureInterceptor, LogContextInterceptor
from windlass.temporal.keyring import Keyring
from windlass.worker.sandbox import workflow_runner
from windlass.worker.settings import Settings
from windlass.workflows.package import PackageLifecycleWorkflow

GRACE: Final = timedelta(seconds=5)
"""How long running activities may go on after a stop; then they are cancelled and taken up by the next worker."""

STOP_LIMIT: Final = 12.0
"""Seconds after which a stop ends with work still in flight, well before a kubelet's 30 s: an API server that does not
answer keeps local activities, and with them their workflow tasks, going. Temporal gives them to the next worker."""

BEAT: Final = timedelta(seconds=1)
"""Heartbeats reach the server this often, so that a cancellation is noticed within about a second."""

_log = structlog.stdlib.get_logger(__name__)


class SystemClock:
    """`ports.Clock` over the machine's clock."""

    def now(self) -> float:
        """Return seconds since the epoch."""
        return time.time()


@asynccontextmanager
async def activities(settings: Settings, keyring: Keyring) -> AsyncGenerator[list[Any]]:
    """Build every adapter and yield the activity methods to register.

    Each integration has a client and a rate limit of its own, so that a busy one never starves another.
    """
    async with AsyncExitStack() as stack:

        async def client(role: str, qps: float) -> KubeClient:
            kube = KubeClient.from_kubeconfig(
                settings.kubeconfig, qps=qps, burst=int(qps * 2), user_agent=f"windlass-{role}/{__version__}"
            )
            return await stack.enter_async_context(kube)

        kube = await client("lifecycle", 1000)
        releases = await client("helm", 500)
        objects = await client("hooks", 50)
        awaited = await client("readiness", 500)
        helm = await stack.enter_async_context(
            HelmClient(
                kube=releases,
                kubeconfig=settings.kubeconfig,
                helm=settings.helm,
                scratch=settings.data_dir / "helm",
                pool_size=settings.helm_children,
            )
        )
        hooks = await stack.enter_async_context(HookRunner(settings.data_dir / "hooks", environment=os.environ))
        packages = PackageStore(settings.data_dir / "packages")
        await _sweep(kube, packages)
        records = RecordStore(kube, keyring.digest_key)
        access = KubeHookAccess(objects, role=settings.hook_role)
        contents = Contents(kube, packages, records, keyring.digest_key)
        clock = SystemClock()
        observe = ObserveActivities(kube, records, keyring.digest_key)
        package = PackageActivities(
            kube=kube,
            packages=packages,
            records=records,
            hooks=hooks,
            access=access,
            contents=contents,
            digest_key=keyring.digest_key,
        )
        release = HelmActivities(
            kube=kube,
            helm=helm,
            readiness=KubeReadiness(awaited),
            contents=contents,
            clock=clock,
            digest_key=keyring.digest_key,
        )
        hook = HookActivities(hooks=hooks, access=access, patchers=KubeHookPatchers(), contents=contents)
        status = StatusActivities(kube, KubeEventLog(kube), settings.ui)
        yield [
            observe.observe,
            package.add_finalizer,
            package.release_finalizer,
            package.download,
            package.install,
            package.load,
            package.apply_settings,
            package.clean_up,
            release.upgrade_release,
            release.uninstall_release,
            hook.run,
            status.write,
        ]


async def _sweep(kube: Kube, packages: Packages) -> None:
    """Drop cached content that no Application uses or was last released with; what is missed is fetched again.

    At start, when no step is under way here. A cluster that does not answer now costs nothing but disk.
    """
    try:
        found = await kube.list(API_VERSION, "Application")
    except WindlassError as error:
        _log.warning("package cache not swept", reason=error.reason.value, error=str(error))
        return
    keep: set[str] = set()
    for item in found.items:
        status: dict[str, Any] = item.get("status") or {}
        keep |= {str(status.get("digest") or ""), str(status.get("completed") or "").partition("/")[0]}
    dropped = await packages.sweep(sorted(keep))
    if dropped:
        _log.info("package cache swept", dropped=len(dropped))


async def run_worker(client: Client, settings: Settings, keyring: Keyring, stop: asyncio.Event) -> None:
    """Serve all shards until ``stop`` is set; then finish or hand back what runs, in order."""
    workflow.logger.workflow_info_on_message = False  # the log's own fields say it already
    limit = asyncio.timeout(None)
    try:
        async with limit, AsyncExitStack() as stack:
            methods = await stack.enter_async_context(activities(settings, keyring))
            for shard in range(settings.shards):
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


def _worker(client: Client, settings: Settings, shard: int, methods: list[Any]) -> Worker:
    return Worker(
        client,
        task_queue=task_queue(settings.installation, shard),
        workflows=[PackageLifecycleWorkflow],
        activities=methods,
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
