"""What a worker and a watcher need to know, read once by whoever starts them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Final

from windlass.adapters.packages.format.entries import Limits as PackageLimits
from windlass.adapters.packages.sources.transport import FetchLimits
from windlass.adapters.runner.protocol import Limits as HookLimits
from windlass.adapters.targets.kubeconfig import Allowed
from windlass.contracts.lifecycle import Limits, Pool
from windlass.domain.ids import DEFAULT_INSTALLATION, SYSTEM_NAMESPACE
from windlass.worker.rates import Rates

KEEP_REQUESTS: Final = timedelta(days=7)

DEFAULT_SHARDS: Final = 8
"""Shards of a new installation: one process serves them without a difference, up to eight share them."""

WORKFLOW_CACHE: Final = 400
"""Lifecycles that a process keeps in memory. Each one takes about 0.3 MB (`make bench ONLY=idle_1000`), so this is
about 120 MB of the 1 GiB that ``deploy/`` grants a worker. Any other lifecycle is rebuilt from its history when
something happens to it, which takes tens of milliseconds."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings of one worker or watcher process.

    Attributes:
        installation: the installation id; every name outside starts with it.
        shards: how many shards packages hash onto, if somebody asks for a number: that of a new installation, and an
            error where the installation has another one. None takes what there is.
        namespace: where the installation's own objects live (Leases).
        kubeconfig: file with the cluster and the identity of workers.
        watcher_kubeconfig: the same of the watcher, whose account differs.
        data_dir: this process's folder: package cache, scratch files, locks.
        helm: the ``helm`` program, 4.2 or newer.
        ui: address of the Temporal UI's page for the namespace, empty if there is none.
        limits: when a lifecycle hands over to its next run.
        hooks_socket: where a runner of hooks in a container of its own listens; None starts one beside the worker.
        hook_limits: what one run of a hook may use; those of a runner in a container are its own, and these its text.
        hook_readable: files and folders that hooks may read and execute beside the system's.
        hook_writable: folders that hooks may write to beside those of their runs.
        default_accounts: whether packages that name no service account get the default one.
        kubeconfigs: what kubeconfigs of other clusters may hold.
        pools: kinds of work that workers of their own do.
        helm_children: warm Helm processes, each with about 40 MB of its own.
        activities: activities at a time; hooks and Helm operations among them.
        workflow_tasks: workflow tasks at a time.
        workflow_cache: lifecycles kept in memory by the whole process; see `cache_share`.
        rates: how fast each client of the API server may send requests.
        metrics_address: ``HOST:PORT`` of metrics and health; port 0 takes a free one.
        packages: what a package may at most be.
        fetch: what a package repository may take.
        accept_plain_payloads: whether what is not encoded is accepted from Temporal.
        keep_requests: how long answered ActionRequests stay before the watcher deletes them.
        resync: seconds between comparisons of all objects with what their lifecycles have seen.
    """

    installation: str = DEFAULT_INSTALLATION
    shards: int | None = None
    namespace: str = SYSTEM_NAMESPACE
    kubeconfig: Path
    watcher_kubeconfig: Path
    data_dir: Path
    helm: Path
    ui: str = ""
    limits: Limits = field(default_factory=Limits)
    hooks_socket: Path | None = None
    hook_limits: HookLimits = field(default_factory=HookLimits)
    hook_readable: tuple[Path, ...] = ()
    hook_writable: tuple[Path, ...] = ()
    default_accounts: bool = True
    kubeconfigs: Allowed = field(default_factory=Allowed)
    pools: tuple[Pool, ...] = ()
    helm_children: int = 4
    activities: int = 100
    workflow_tasks: int = 10
    workflow_cache: int = WORKFLOW_CACHE
    rates: Rates = field(default_factory=Rates)
    metrics_address: str = "127.0.0.1:0"
    packages: PackageLimits = field(default_factory=PackageLimits)
    fetch: FetchLimits = field(default_factory=FetchLimits)
    accept_plain_payloads: bool = False
    keep_requests: timedelta = KEEP_REQUESTS
    resync: float = 600.0

    def cache_share(self, shards: int) -> int:
        """Return how many lifecycles each of ``shards`` task queues may keep in memory; at least 1.

        The SDK fixes the size of a worker's cache when the worker is made, and a process may have to serve every shard
        of the installation. So each shard gets an equal part of the bound, and a process that serves only some shards
        uses only their part of it.
        """
        return max(1, math.ceil(self.workflow_cache / shards))
