"""What lives beside a shard's workflows for as long as this process serves the shard: informers, caches, reporters."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

from temporalio.client import Client

from windlass.domain.ids import PackageKey, helm_queue, shard_of, task_queue
from windlass.observers.border import Border
from windlass.observers.drift.monitor import DriftService
from windlass.observers.quarantine import Quarantine
from windlass.runtime.packages import PackageLifecycles
from windlass.worker.adapters import Adapters
from windlass.worker.settings import Settings


@dataclass(frozen=True, kw_only=True)
class Shard:
    """One shard of an installation.

    Attributes:
        installation: the installation id.
        number: 0 to ``count`` - 1.
        count: how many shards the installation has.
    """

    installation: str
    number: int
    count: int

    @property
    def queue(self) -> str:
        """Its task queue."""
        return task_queue(self.installation, self.number)

    @property
    def helm_queue(self) -> str:
        """The task queue in which its releases wait for Helm."""
        return helm_queue(self.queue)

    def serves(self, key: PackageKey) -> bool:
        """Say whether the package belongs to this shard."""
        return key.installation == self.installation and shard_of(key, self.count) == self.number


@dataclass(frozen=True, kw_only=True)
class Beside:
    """What keeps the packages of one process apart.

    Attributes:
        border: runs whatever a service does for one package.
        quarantine: is told of conditions `Quarantined` by whoever sees the objects' status (`Quarantine.observed`).
    """

    border: Border
    quarantine: Quarantine


class ShardService(Protocol):
    """Something that lives as long as this process serves a shard; one object for all shards of the process."""

    def serving(self, shard: Shard) -> AbstractAsyncContextManager[object]:
        """Serve ``shard`` while the context is open.

        Entered when the shard is ours and before its worker takes tasks, so entering must not wait for the cluster;
        left when its worker has ended, by cancellation if the shard was lost. Whatever goes on beside the body runs
        behind the border (`windlass.observers.border`): nothing of it ends the body.
        """
        ...


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
    )
    return (drift,)
