"""What this process runs beside the workflows of its shards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from temporalio.client import Client

from windlass.observers.border import Border
from windlass.observers.drift.monitor import DriftService
from windlass.observers.hooks.service import Bell, HookWatchService
from windlass.observers.quarantine import Quarantine
from windlass.observers.records import RecordSweep
from windlass.observers.shard import ShardService
from windlass.runtime.packages import PackageLifecycles
from windlass.worker.adapters import Adapters
from windlass.worker.settings import Settings


@dataclass(frozen=True, kw_only=True)
class Beside:
    """What keeps the packages of one process apart.

    Attributes:
        border: runs whatever a service does for one package.
        quarantine: is told of conditions `Quarantined` by whoever sees the objects' status (`Quarantine.observed`).
    """

    border: Border
    quarantine: Quarantine


def services(adapters: Adapters, client: Client, settings: Settings, beside: Beside) -> Sequence[ShardService]:
    """Make the services of this process."""
    # It tells lifecycles that run, and starts none: the number of shards does not matter.
    lifecycles = PackageLifecycles(client, installation=settings.installation)
    drift = DriftService(
        kube=adapters.drift,
        targets=adapters.targets,
        helm=adapters.helm,
        lifecycles=lifecycles,
        border=beside.border,
        quarantine=beside.quarantine,
        limits=settings.drift,
    )
    records = RecordSweep(kube=adapters.kube, records=adapters.records, lifecycles=lifecycles, border=beside.border)
    return drift, records


def hook_watches(adapters: Adapters, client: Client, settings: Settings, border: Border) -> HookWatchService:
    """Make the watches of this process."""
    lifecycles = PackageLifecycles(client, installation=settings.installation)  # signals go by id
    return HookWatchService(
        targets=adapters.targets,
        jq=adapters.jq,
        records=adapters.records,
        bell=Bell(lifecycles, border),
        border=border,
    )
