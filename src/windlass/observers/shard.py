"""What lives beside a shard's workflows for as long as this process serves the shard: informers, caches, reporters."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

from windlass.domain.ids import PackageKey, helm_queue, shard_of, task_queue


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


class ShardService(Protocol):
    """Something that lives as long as this process serves a shard; one object for all shards of the process."""

    def serving(self, shard: Shard) -> AbstractAsyncContextManager[object]:
        """Serve ``shard`` while the context is open.

        Entered when the shard is ours and before its worker takes tasks, so entering must not wait for the cluster;
        left when its worker has ended, by cancellation if the shard was lost. Whatever goes on beside the body runs
        behind the border (`windlass.observers.border`): nothing of it ends the body.
        """
        ...
