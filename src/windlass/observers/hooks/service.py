"""The event path of one process: who is watched here, and the bell that says so."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final
from weakref import WeakValueDictionary

import structlog

from windlass.contracts.lifecycle import HookEvents
from windlass.contracts.record import BindingRecord, WatchedRecord
from windlass.domain.backoff import delay
from windlass.domain.errors import Category, WindlassError
from windlass.domain.hooks.bindings import binding_id
from windlass.domain.ids import PackageKey
from windlass.domain.packages.model import Hook
from windlass.domain.target import Placement
from windlass.observers.border import Border
from windlass.observers.hooks.watch import OpenWatch
from windlass.observers.shard import Shard
from windlass.ports.jq import SharedJq
from windlass.ports.records import Records
from windlass.ports.targets import Role, Targets
from windlass.ports.watches import BeginAhead
from windlass.runtime.packages import PackageLifecycles

RESTORING: Final = 8
"""Packages whose watches are opened at a time after a start."""

_log = structlog.stdlib.get_logger(__name__)


class Bell:
    """Sends `hook_events`, each until it is taken: what waits is in memory here, nobody else knows of it."""

    def __init__(self, lifecycles: PackageLifecycles, border: Border) -> None:
        self._lifecycles = lifecycles
        self._border = border
        self._sending: dict[PackageKey, set[asyncio.Task[None]]] = {}

    def ring(self, key: PackageKey, events: HookEvents) -> None:
        """Begin to send once."""
        task = self._border.spawn(key, "events", partial(self._send, key, events))
        self._sending.setdefault(key, set()).add(task)
        task.add_done_callback(partial(self._sent, key))

    async def silence(self, key: PackageKey) -> None:
        """Send nothing more to ``key``."""
        tasks = self._sending.pop(key, set())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _sent(self, key: PackageKey, task: asyncio.Task[None]) -> None:
        tasks = self._sending.get(key)
        if tasks is not None:
            tasks.discard(task)
            if not tasks:
                del self._sending[key]

    async def _send(self, key: PackageKey, events: HookEvents) -> None:
        failures = 0
        while True:
            try:
                # A lifecycle that was lost is started again by the watcher's patrol, and opens its watches anew.
                if await self._lifecycles.hook_events(key, events):
                    return
            except WindlassError as error:
                _log.warning("events not taken", package=key.package_id, reason=error.reason.value, error=str(error))
            failures += 1
            await asyncio.sleep(delay(Category.TRANSIENT, failures, chance=0.5))


@dataclass
class _Opened:
    """An open watch, where it looks, and the identity that it holds."""

    watch: OpenWatch
    placement: Placement
    identity: AsyncExitStack

    def serves(self, placement: Placement, watched: WatchedRecord) -> bool:
        """Say whether this is the watch of these bindings in this place."""
        return self.watch.digest == watched.digest and self.placement == placement

    async def close(self) -> None:
        """End the watches, then give the identity back."""
        await self.watch.close()
        await self.identity.aclose()


class HookWatchService:
    """`ports.HookWatches`: the watches of the packages this process serves.

    A worker that takes a shard over finds in the records whose hooks follow objects; in between, lifecycles open and
    close watches as steps of theirs.

    Args:
        targets: objects are listed and watched as the package.
        jq: runs filters.
        records: say who is watched.
        bell: sends signals.
        border: keeps what fails for one package from the others.
    """

    def __init__(self, *, targets: Targets, jq: SharedJq, records: Records, bell: Bell, border: Border) -> None:
        self._border = border
        self._targets = targets
        self._jq = jq
        self._records = records
        self._bell = bell
        self._open: dict[PackageKey, _Opened] = {}
        self._locks: WeakValueDictionary[PackageKey, asyncio.Lock] = WeakValueDictionary()

    @property
    def remembered(self) -> int:
        """How many packages something is kept of in memory."""
        return len(self._open.keys() | self._locks.keys())

    async def open(self, key: PackageKey, placement: Placement, watched: WatchedRecord) -> OpenWatch:
        """Return the watch of ``key``; see `ports.HookWatches`."""
        opened = self._open.get(key)
        if opened is not None and opened.serves(placement, watched):
            return opened.watch
        lock = self._locks.setdefault(key, asyncio.Lock())
        async with lock:
            opened = self._open.get(key)
            if opened is not None and opened.serves(placement, watched):
                return opened.watch
            await self._close(key)
            opened = await self._opened(key, placement, watched)
            self._open[key] = opened
            return opened.watch

    async def close(self, key: PackageKey) -> None:
        """End the watches of ``key``; see `ports.HookWatches`."""
        lock = self._locks.setdefault(key, asyncio.Lock())
        async with lock:
            await self._close(key)

    def has_news(self, key: PackageKey, queue: str) -> bool:
        """Say whether something waits in ``queue``; see `ports.HookWatches`."""
        opened = self._open.get(key)
        return opened is not None and opened.watch.waits(queue)

    def allow(self, key: PackageKey, queue: str, begin: BeginAhead, *, since: float) -> None:
        """Let the next run of ``queue`` begin ahead; see `ports.HookWatches`."""
        opened = self._open.get(key)
        if opened is not None:
            opened.watch.allow(queue, begin, since=since)

    def hold(self, key: PackageKey, *, since: float) -> None:
        """Take back what was allowed; see `ports.HookWatches`."""
        opened = self._open.get(key)
        if opened is not None:
            opened.watch.hold(since=since)

    async def snapshots(
        self, key: PackageKey, placement: Placement, hook: Hook
    ) -> Mapping[str, Sequence[Mapping[str, Any]]]:
        """Return the objects of every binding of ``hook``; see `ports.HookWatches`."""
        if not hook.kubernetes:
            return {}
        opened = self._open.get(key)
        if opened is not None and opened.watch.follows(hook):
            return opened.watch.snapshots(hook.path)
        # Known as told and told of nothing: these watches look once and are closed.
        known = {
            binding_id(hook.path, index): BindingRecord(synchronized=True, known=None)
            for index in range(len(hook.kubernetes))
        }
        opened = await self._opened(key, placement, WatchedRecord(digest="", hooks=(hook,), bindings=known))
        try:
            return opened.watch.snapshots(hook.path)
        finally:
            await opened.close()

    @asynccontextmanager
    async def serving(self, shard: Shard) -> AsyncGenerator[None]:
        """Watch what the packages of ``shard`` want watched; see `ShardService`."""
        restoring = self._border.spawn_shared("restore", partial(self._restore_all, shard))
        try:
            yield
        finally:
            restoring.cancel()
            await asyncio.gather(restoring, return_exceptions=True)
            await asyncio.gather(*(self.close(key) for key in list(self._open) if shard.serves(key)))

    def lost(self, shard: Shard) -> None:
        """Leave the hooks of ``shard`` alone from now on: its Lease is lost, and `serving` ends later."""
        for key, opened in self._open.items():
            if shard.serves(key):
                opened.watch.abandon()

    async def _restore_all(self, shard: Shard) -> None:
        """Open the watches that stand in the records; those that cannot be opened are tried again.

        A package whose lifecycle opens or closes its watches meanwhile is left alone.
        """
        failures = 0
        while True:
            try:
                keys = [key for key in await self._records.watched(shard.installation) if shard.serves(key)]
                break
            except WindlassError as error:
                failures += 1
                _log.warning("watches not restored", reason=error.reason.value, error=str(error))
                await asyncio.sleep(delay(Category.TRANSIENT, failures, chance=0.5))
        turns = asyncio.Semaphore(RESTORING)
        async with asyncio.TaskGroup() as group:
            for key in keys:
                group.create_task(self._border.run(key, "restore", partial(self._restore, key, turns)))
        if keys:
            _log.info("watches restored", shard=shard.number, packages=len(keys))

    async def _restore(self, key: PackageKey, turns: asyncio.Semaphore) -> None:
        """Open the watch that stands in the record; what fails for good is told by the border, which tries again."""
        async with turns:
            stored = await self._records.load(key)
            record = stored[0] if stored else None
            if record and record.watched and record.placement and key not in self._open:
                (await self.open(key, record.placement, record.watched)).announce()

    async def _opened(self, key: PackageKey, placement: Placement, watched: WatchedRecord) -> _Opened:
        async with AsyncExitStack() as stack:
            acting = await stack.enter_async_context(self._targets.acting(placement.target))
            kube = await acting.kube(Role.WATCHES)
            watch = OpenWatch(
                key,
                watched,
                kube=kube,
                jq=self._jq.on_behalf_of(key.package_id),
                ring=self._bell.ring,
                namespace=placement.target.namespace,
                border=self._border,
            )
            try:
                await watch.open(kube.resource)
            except BaseException:  # a cancel too: a watch that is not handed over must not stay open
                await watch.close()
                raise
            return _Opened(watch=watch, placement=placement, identity=stack.pop_all())

    async def _close(self, key: PackageKey) -> None:
        opened = self._open.pop(key, None)
        await self._bell.silence(key)
        if opened is not None:
            await opened.close()
