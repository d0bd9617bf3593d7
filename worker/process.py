"""The parts of a process, each run under its Lease until it ends or the Lease is lost."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncGenerator, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import structlog
from temporalio.client import Client

from windlass import __version__
from windlass.activities.references import References
from windlass.adapters.kube.client import KubeClient
from windlass.adapters.kube.coordination.leases import held
from windlass.adapters.kube.coordination.members import Members
from windlass.adapters.kube.coordination.shard_table import ShardTable
from windlass.adapters.processes.watchdog import Watchdog
from windlass.adapters.targets.pool import TargetPool
from windlass.contracts.lifecycle import Pool
from windlass.domain.ids import lease_name, member_name
from windlass.observers.border import Border
from windlass.observers.metrics import CacheCollector, Metrics, PackagesCollector, StepMetrics
from windlass.observers.quarantine import Quarantine
from windlass.observers.watcher.packages import Watcher
from windlass.observers.watcher.repositories import RepositoryWatcher
from windlass.observers.watcher.requests import RequestWatcher
from windlass.ports.kube import ObjectRef
from windlass.runtime.packages import PackageLifecycles
from windlass.runtime.repositories import RepositoryCatalogs
from windlass.worker.adapters import built
from windlass.worker.app import ShardServer
from windlass.worker.definitions import wait_for_definitions
from windlass.worker.monitoring import Health
from windlass.worker.pools import OperationGuard, pool_worker, run_until
from windlass.worker.registration import activities
from windlass.worker.services import hook_watches
from windlass.worker.settings import DEFAULT_SHARDS, Settings
from windlass.worker.shards import ShardKeeper
from windlass.worker.sweep import sweep
from windlass.worker.waiting import entered, explained

WORKER: Final = "worker"
WATCHER: Final = "watcher"
POOLS: Final[tuple[Pool, ...]] = ("helm",)

STOP_LIMIT: Final = 12.0
"""Seconds after which an orderly stop ends with work still in flight, well before a kubelet's 30 s: an API server that
does not answer keeps activities going. What runs is cancelled then and taken up by the next worker."""

WATCH_CHECK: Final = 0.5
"""Seconds between two looks whether the watcher has listed everything; until then the process is not ready."""

_log = structlog.stdlib.get_logger(__name__)


@dataclass(frozen=True, kw_only=True)
class Process:
    """What the parts of one process share.

    Attributes:
        settings: of the process.
        client: connected to Temporal.
        digest_key: of the installation; 32 bytes.
        identity: of the process; the same after a restart.
        metrics: of the process.
        health: of the process; parts report to it.
    """

    settings: Settings
    client: Client
    digest_key: bytes = field(repr=False)
    identity: str
    metrics: Metrics
    health: Health

    async def work(self, stop: asyncio.Event, serving: asyncio.Event) -> None:
        """Run the lifecycles of this process's share of the shards while holding its Lease."""
        settings = self.settings
        async with AsyncExitStack() as stack:
            self.health.waits(WORKER, "its Lease")
            stack.callback(self.health.waits, WORKER, "its Lease")
            kube = await entered(stack, "the client for shards", self._kube("shards"))
            await stack.enter_async_context(_beside(wait_for_definitions(kube, self.health)))
            table = ShardTable(kube, settings.namespace, settings.installation)
            async with explained("the cluster: namespace and shard table"):
                await _ensure_namespace(kube, settings.namespace)
                await _opened(table, settings)
            members = Members(kube, settings.namespace, settings.installation)
            member = member_name(settings.installation, self.identity)
            term = f"{member}/{secrets.token_hex(4)}"
            watchdog = await entered(stack, "the watchdog", Watchdog())
            joining = members.joined(term, partial(watchdog.promise, member))
            await entered(stack, f"the Lease of {member}", joining)
            serving.set()
            adapters = await entered(
                stack, "clients, Helm processes and hooks", built(settings, self.digest_key, WORKER)
            )
            async with explained("the sweep of the package cache"):
                await sweep(adapters.kube, adapters.packages)
            async with explained("the count of what the process before had under way"):
                await adapters.suspects.settle()
            for collector in (CacheCollector(settings.data_dir / "packages"), adapters.hook_metrics):
                self.metrics.registry.register(collector)
                stack.callback(self.metrics.registry.unregister, collector)
            server = ShardServer(self.client, settings, self.digest_key, adapters, self.metrics)
            keeper = ShardKeeper(
                term=term,
                table=table,
                members=members,
                serve=server,
                metrics=self.metrics,
                settled=lambda: self.health.ready(WORKER),
            )
            _log.info(
                "worker started", installation=settings.installation, member=member, data_dir=str(settings.data_dir)
            )
            await _limited(keeper.run(stop), stop)

    async def serve_pool(self, pool: Pool, stop: asyncio.Event, serving: asyncio.Event) -> None:
        """Do one kind of work for all shards; no Lease is needed, since each operation holds one of its own."""
        settings = self.settings
        self.health.waits(pool, "the cluster")
        async with AsyncExitStack() as stack:
            kube = await entered(stack, f"the client for {pool}", self._kube(pool))
            async with explained("the cluster: namespace"):
                await _ensure_namespace(kube, settings.namespace)
            adapters = await entered(stack, "clients, Helm processes and hooks", built(settings, self.digest_key, pool))
            serving.set()
            self.metrics.registry.register(adapters.hook_metrics)
            stack.callback(self.metrics.registry.unregister, adapters.hook_metrics)
            quarantine = Quarantine(PackageLifecycles(self.client, installation=settings.installation), pool)
            border = Border(quarantine, self.metrics.fault)
            methods = activities(
                adapters, hook_watches(adapters, self.client, settings, border), settings, self.digest_key
            )
            watchdog = await stack.enter_async_context(Watchdog())
            guard = OperationGuard(kube, settings.namespace, settings.installation, self.identity, watchdog)
            worker = pool_worker(self.client, settings, pool, methods, [StepMetrics(self.metrics), guard])
            self.health.ready(pool)
            _log.info("pool started", installation=settings.installation, pool=pool)
            await run_until(worker, stop)

    async def watch(self, serving: asyncio.Event) -> None:
        """Watch while holding the watcher's Lease; who waits for it stands by."""
        del serving  # a watcher is cancelled when it is to stop: it has nothing to finish
        settings = self.settings
        self.health.waits(WATCHER, "the cluster")
        async with self._kube(WATCHER) as kube:
            async with explained("the cluster: namespace"):
                await _ensure_namespace(kube, settings.namespace)
            shards = await _opened(ShardTable(kube, settings.namespace, settings.installation), settings)
            self.health.ready(WATCHER)
            lease = held(kube, settings.namespace, lease_name(settings.installation, WATCHER), self.identity)
            folder = settings.data_dir / "targets" / WATCHER
            pool = TargetPool(kube, folder, allowed=settings.kubeconfigs, makes_accounts=False)
            async with lease, pool as targets:
                quarantine = Quarantine(PackageLifecycles(self.client, installation=settings.installation), WATCHER)
                border = Border(quarantine, self.metrics.fault)
                lifecycles = PackageLifecycles(
                    self.client,
                    installation=settings.installation,
                    shards=shards,
                    limits=settings.limits,
                    pools=settings.pools,
                )
                watcher = Watcher(
                    kube=kube,
                    references=References(targets, allow_defaults=settings.default_accounts),
                    lifecycles=lifecycles,
                    installation=settings.installation,
                    digest_key=self.digest_key,
                    resync=lambda: settings.resync * _jitter(),
                    metrics=self.metrics,
                    border=border,
                )
                repositories = RepositoryWatcher(
                    kube=kube,
                    catalogs=RepositoryCatalogs(
                        self.client, installation=settings.installation, shards=shards, limits=settings.limits
                    ),
                    installation=settings.installation,
                    digest_key=self.digest_key,
                    jitter=_jitter,
                    border=border,
                )
                requests = RequestWatcher(
                    kube=kube,
                    lifecycles=lifecycles,
                    installation=settings.installation,
                    keep=settings.keep_requests,
                    border=border,
                )
                _log.info("watcher started", installation=settings.installation)
                try:
                    await self._watching(watcher, repositories, requests)
                finally:
                    await quarantine.leave(lambda _: True)

    async def _watching(self, watcher: Watcher, repositories: RepositoryWatcher, requests: RequestWatcher) -> None:
        """Run the watcher, and say whether it is synced."""
        packages = PackagesCollector(watcher.packages)
        self.metrics.registry.register(packages)
        self.metrics.watching.set(1)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(watcher.run())
                group.create_task(repositories.run())
                group.create_task(requests.run())
                while watcher.missing:
                    self.health.waits(WATCHER, f"the list of {watcher.missing}")
                    await asyncio.sleep(WATCH_CHECK)
                self.health.ready(WATCHER)
        finally:
            self.metrics.watching.set(0)
            self.metrics.registry.unregister(packages)

    def _kube(self, role: str) -> KubeClient:
        settings = self.settings
        watches = role == WATCHER
        rate = settings.rates.watcher if watches else settings.rates.shards
        kubeconfig = settings.watcher_kubeconfig if watches else settings.kubeconfig
        return KubeClient.from_kubeconfig(
            kubeconfig, qps=rate.qps, burst=rate.burst, user_agent=f"windlass-{role}/{__version__}"
        )


@asynccontextmanager
async def _beside(work: Coroutine[None, None, None]) -> AsyncGenerator[None]:
    """Run ``work`` beside the body, no longer than that."""
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def _jitter() -> float:
    return 0.9 + secrets.randbelow(200) / 1000


async def _limited(work: Coroutine[None, None, None], stop: asyncio.Event) -> None:
    """Await ``work``; cancel it when it has not ended `STOP_LIMIT` after ``stop``."""
    limit = asyncio.timeout(None)

    async def limited() -> None:
        await stop.wait()
        _log.info("worker stopping")
        limit.reschedule(asyncio.get_running_loop().time() + STOP_LIMIT)

    stopping = asyncio.create_task(limited())
    try:
        async with limit:
            await work
    except TimeoutError:
        if not limit.expired():
            raise
        _log.warning("worker stopped with work in flight, which the next one takes up", seconds=STOP_LIMIT)
    else:
        _log.info("worker stopped")
    finally:
        stopping.cancel()


async def _opened(table: ShardTable, settings: Settings) -> int:
    """Return the number of shards; a new installation gets the one that is asked for, or the usual one."""
    opened = await table.open(settings.shards or DEFAULT_SHARDS, fixed=settings.shards is not None)
    return opened.count


async def _ensure_namespace(kube: KubeClient, name: str) -> None:
    if await kube.get(ObjectRef(api_version="v1", kind="Namespace", name=name)) is None:
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        await kube.apply(namespace, field_manager="windlass")
