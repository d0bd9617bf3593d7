"""Builds the adapters of one worker process: every port meets its implementation here."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from windlass import __version__
from windlass.activities.content import Contents
from windlass.activities.references import References
from windlass.adapters.helm.client import HelmClient
from windlass.adapters.hooks.runner import HookRunner, RunnerSettings
from windlass.adapters.jq.client import JqClient
from windlass.adapters.kube.client import KubeClient
from windlass.adapters.kube.events import KubeEventLog
from windlass.adapters.kube.patcher import KubeHookPatchers
from windlass.adapters.kube.readiness import KubeReadiness
from windlass.adapters.kube.records import RecordStore
from windlass.adapters.metrics.hooks import HookMetricsCollector
from windlass.adapters.packages.cache.store import PackageStore
from windlass.adapters.processes.journal import Journal
from windlass.adapters.targets.pool import TargetPool
from windlass.observers.suspects import PackageSuspects
from windlass.ports.clock import Clock
from windlass.ports.events import EventLog
from windlass.ports.helm import Helm, Renderer
from windlass.ports.hooks import EnabledScripts, HookPatchers, Hooks
from windlass.ports.jq import SharedJq
from windlass.ports.kube import Kube, Readiness
from windlass.ports.packages import Packages
from windlass.ports.records import Records
from windlass.ports.targets import Targets
from windlass.worker.rates import Rate
from windlass.worker.settings import Settings


@dataclass(frozen=True, kw_only=True)
class Adapters:
    """What activities and shard services are made of.

    Attributes:
        kube: for objects, status and state Secrets.
        events: records Kubernetes Events.
        helm: Helm operations in warm child processes.
        renderer: renders charts.
        inspection: asks the API server who may inspect packages.
        drift: watches the objects of releases.
        readiness: waits for the objects of a release.
        hooks: runs hook processes.
        scripts: asks modules whether they are enabled.
        targets: access to the clusters of packages, as their identities.
        references: what objects refer to by name.
        jq: runs the filters of hooks.
        hook_metrics: what hooks measure; a collector for Prometheus.
        patchers: carry out what hooks ask of the cluster, as that identity.
        packages: the cache of package contents.
        records: state Secrets.
        contents: settings, values and packages of one lifecycle, resolved here.
        suspects: packages that may have ended the process before.
        clock: the machine's.
    """

    kube: Kube
    events: EventLog
    helm: Helm
    renderer: Renderer
    inspection: Kube
    drift: Kube
    readiness: Readiness
    hooks: Hooks
    scripts: EnabledScripts
    targets: Targets
    references: References
    jq: SharedJq
    hook_metrics: HookMetricsCollector
    patchers: HookPatchers
    packages: Packages
    records: Records
    contents: Contents
    suspects: PackageSuspects
    clock: Clock


class SystemClock:
    """`ports.Clock` over the machine's clock."""

    def now(self) -> float:
        """Return seconds since the epoch."""
        return time.time()


@asynccontextmanager
async def built(settings: Settings, digest_key: bytes, role: str) -> AsyncGenerator[Adapters]:
    """Build every adapter; close them in reverse order.

    Each integration has a client and a rate limit of its own, so that a busy one never starves another. ``role`` is
    what the process does with them: several roles of one process have a journal each.
    """
    async with AsyncExitStack() as stack:

        async def client(role: str, rate: Rate) -> KubeClient:
            kube = KubeClient.from_kubeconfig(
                settings.kubeconfig, qps=rate.qps, burst=rate.burst, user_agent=f"windlass-{role}/{__version__}"
            )
            return await stack.enter_async_context(kube)

        rates = settings.rates
        kube = await client("lifecycle", rates.lifecycle)
        tokens = await client("tokens", rates.tokens)
        awaited = await client("readiness", rates.readiness)
        watched = await client("drift", rates.drift)
        reviews = await client("inspect", rates.inspect)
        targets = await stack.enter_async_context(
            TargetPool(tokens, settings.data_dir / "targets" / role, allowed=settings.kubeconfigs)
        )
        helm = await stack.enter_async_context(
            HelmClient(
                targets=targets,
                helm=settings.helm,
                scratch=settings.data_dir / "helm",
                pool_size=settings.helm_children,
                qps=rates.helm.qps,
                burst=rates.helm.burst,
            )
        )
        hooks = await stack.enter_async_context(HookRunner(_runner_settings(settings), environment=os.environ))
        jq = await stack.enter_async_context(JqClient())
        packages = PackageStore(settings.data_dir / "packages", settings.packages, settings.fetch)
        records = RecordStore(kube, digest_key)
        contents = Contents(kube, packages, records, digest_key)
        journal = Journal(settings.data_dir / "in-progress" / role)
        stack.callback(journal.close)
        yield Adapters(
            kube=kube,
            events=KubeEventLog(kube),
            helm=helm,
            renderer=helm,
            inspection=reviews,
            drift=watched,
            readiness=KubeReadiness(awaited, targets),
            hooks=hooks,
            scripts=hooks,
            targets=targets,
            references=References(targets, allow_defaults=settings.default_accounts),
            jq=jq,
            hook_metrics=HookMetricsCollector(),
            patchers=KubeHookPatchers(jq),
            packages=packages,
            records=records,
            contents=contents,
            suspects=PackageSuspects(journal, records=records, contents=contents, installation=settings.installation),
            clock=SystemClock(),
        )


def _runner_settings(settings: Settings) -> RunnerSettings:
    return RunnerSettings(
        runs=settings.data_dir / "hooks",
        packages=(settings.data_dir / "packages",),
        readable=settings.hook_readable,
        writable=settings.hook_writable,
        limits=settings.hook_limits,
        socket=settings.hooks_socket,
    )
