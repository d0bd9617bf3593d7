"""Takes and gives up shards: this process's part of what `windlass.domain.shards` says is even.

Who owns a shard stands in the table (`adapters.kube.shard_table`), who lives in the members' Leases
(`adapters.kube.members`). A shard is taken when nobody owns it or when its owner's Lease has run out, and always
against the state of the table that was seen; a process whose own Lease is lost has stopped by then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Protocol

import structlog

from windlass.adapters.kube.coordination.members import Members
from windlass.adapters.kube.coordination.shard_table import ShardTable, Table
from windlass.domain.ids import member_of
from windlass.domain.shards import assign
from windlass.observers.metrics import Metrics
from windlass.worker.waiting import explained

LOOK_AGAIN: Final = 1.0
"""Seconds until a take-over that did not succeed is tried again."""

_log = structlog.stdlib.get_logger(__name__)


@dataclass(frozen=True, kw_only=True)
class Notice:
    """What the server of a shard is told.

    Attributes:
        leave: end when nothing runs, or after a while: another process is to have the shard.
        stop: end now, in order: this process stops.
    """

    leave: asyncio.Event = field(default_factory=asyncio.Event)
    stop: asyncio.Event = field(default_factory=asyncio.Event)


class Serve(Protocol):
    """Serves one shard until told to end. A cancel means that the shard is lost: every effect ends within a second."""

    async def __call__(self, shard: int, count: int, notice: Notice) -> None:
        """Serve ``shard`` of ``count``."""
        ...


@dataclass(frozen=True, kw_only=True)
class _Served:
    notice: Notice
    task: asyncio.Task[None]


class ShardKeeper:
    """Keeps this process's share of the shards.

    Args:
        term: who we are (`adapters.kube.members`); its Lease is held while `run` runs.
        table: opened.
        members: the other processes.
        serve: serves one shard.
        metrics: of this process.
        settled: called after every look at the table, once what is ours is being served.
    """

    def __init__(
        self,
        *,
        term: str,
        table: ShardTable,
        members: Members,
        serve: Serve,
        metrics: Metrics,
        settled: Callable[[], None],
    ) -> None:
        self._metrics = metrics
        self._settled = settled
        self._term = term
        self._table = table
        self._members = members
        self._serve = serve
        self._served: dict[int, _Served] = {}
        self._changed = asyncio.Event()

    @property
    def served(self) -> frozenset[int]:
        """The shards that this process serves now."""
        return frozenset(self._served)

    async def run(self, stop: asyncio.Event) -> None:
        """Take and give up shards until ``stop`` is set; then end all of them in order and leave the table.

        Raises:
            WindlassError: the cluster does not let us; everything served is lost.
        """
        async with asyncio.TaskGroup() as group:
            following = [
                group.create_task(self._members.follow(self._changed.set)),
                group.create_task(self._table.follow(self._changed.set)),
            ]
            stopping = group.create_task(stop.wait())
            while not stop.is_set():
                self._changed.clear()
                wait = await self._look(group)
                changing = asyncio.ensure_future(self._changed.wait())
                await asyncio.wait({changing, stopping}, timeout=wait, return_when=asyncio.FIRST_COMPLETED)
                changing.cancel()
            await self._leave()
            for task in following:
                task.cancel()

    async def _look(self, group: asyncio.TaskGroup) -> float | None:
        """Do what is due; return after how many seconds to look again if nothing changes."""
        table = self._table.current
        if table is None:
            return LOOK_AGAIN
        taken = await self._take(table)
        table = self._table.current or table
        mine = {shard for shard, owner in table.owners.items() if owner == self._term}
        for shard in self._served.keys() - mine:
            self._lose(shard)
        target = assign(table.count, self._alive(), table.owners)
        for shard in sorted(mine - self._served.keys()):
            if target[shard] == self._term:
                self._begin(group, shard, table.count)
        for shard in self.served & mine:
            if target[shard] != self._term and not self._served[shard].notice.leave.is_set():
                _log.info("shard moves", shard=shard, to=target[shard])
                self._served[shard].notice.leave.set()
        stale = [shard for shard in mine - self._served.keys() if target[shard] != self._term]
        given_up = not stale or await self._give_up(stale)
        self._settled()
        return self._members.next_expiry() if taken and given_up else LOOK_AGAIN

    def _alive(self) -> set[str]:
        return self._members.alive() | {self._term}

    async def _take(self, table: Table) -> bool:
        """Take what is ours to take; return whether nothing is left to be taken now."""
        alive = self._alive()
        target = assign(table.count, alive, table.owners)
        free = [shard for shard, owner in table.owners.items() if owner not in alive]
        free += [shard for shard in range(table.count) if shard not in table.owners]
        ours = [shard for shard in free if target[shard] == self._term]
        if not ours:
            return True
        lost = {table.owners[shard] for shard in ours if shard in table.owners}
        earlier = {term for term in lost if member_of(term) == member_of(self._term)}
        if not await self._members.gone(lost - earlier):
            return False
        if not await self._table.write({**table.owners, **dict.fromkeys(ours, self._term)}):
            return False
        _log.info("shards taken", shards=sorted(ours), **({"lost": sorted(lost)} if lost else {}))
        self._metrics.takeovers.inc(sum(table.owners.get(shard) in lost - earlier for shard in ours))
        # Whoever takes the last shard of a lost process buries it: without its Lease the others would wait anew.
        after = self._table.current
        await self._members.bury(lost - earlier - set(after.owners.values() if after else ()))
        return True

    def _begin(self, group: asyncio.TaskGroup, shard: int, count: int) -> None:
        notice = Notice()
        task = group.create_task(self._served_until_told(shard, count, notice))
        self._served[shard] = _Served(notice=notice, task=task)

    async def _served_until_told(self, shard: int, count: int, notice: Notice) -> None:
        self._metrics.shard.labels(str(shard)).set(1)
        try:
            await self._serve(shard, count, notice)
        finally:
            self._metrics.shard.labels(str(shard)).set(0)
            del self._served[shard]
            self._changed.set()

    def _lose(self, shard: int) -> None:
        """End what another process has taken in spite of us: somebody has edited the table."""
        served = self._served[shard]
        if not served.task.cancelling():
            _log.warning("shard lost", shard=shard)
            served.task.cancel()

    async def _give_up(self, shards: list[int]) -> bool:
        table = self._table.current
        if table is None:
            return False
        return await self._table.write({shard: owner for shard, owner in table.owners.items() if shard not in shards})

    async def _leave(self) -> None:
        """End all shards in order, then have no part in the table."""
        served = list(self._served.values())
        for one in served:
            one.notice.stop.set()
        if served:
            async with explained("all shards to end"):
                await asyncio.wait([one.task for one in served])
        for _ in range(3):  # others write too
            table = self._table.current
            mine = [shard for shard, owner in table.owners.items() if owner == self._term] if table else []
            if not mine or await self._give_up(mine):
                return
