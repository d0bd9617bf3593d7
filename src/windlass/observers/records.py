"""Deletes state Secrets whose packages are gone, as when somebody took the finalizer off while Temporal was lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

import structlog

from windlass.domain.errors import WindlassError
from windlass.domain.ids import API_VERSION, Kind, PackageKey, package_workflow_id
from windlass.observers.border import Border
from windlass.observers.shard import Shard
from windlass.ports.kube import Kube
from windlass.ports.records import Records
from windlass.runtime.packages import PackageLifecycles

INTERVAL: Final = 600.0
"""Seconds between two looks. A record is deleted by the second look that finds its object gone."""

type _Name = tuple[str, str, str]
"""Kind, namespace and name of a package's object."""

_log = structlog.stdlib.get_logger(__name__)


class RecordSweep:
    """A shard service: one sweep for all shards that are being served.

    Args:
        kube: lists the objects of packages.
        records: the state Secrets.
        lifecycles: say which packages are still being worked on.
        border: keeps the sweep running.
    """

    def __init__(self, *, kube: Kube, records: Records, lifecycles: PackageLifecycles, border: Border) -> None:
        self._kube = kube
        self._records = records
        self._lifecycles = lifecycles
        self._border = border
        self._shards: set[Shard] = set()
        self._task: asyncio.Task[None] | None = None
        self._absent: set[PackageKey] = set()

    @asynccontextmanager
    async def serving(self, shard: Shard) -> AsyncGenerator[None]:
        """Sweep the records of ``shard`` while the context is open; see `ShardService`."""
        self._shards.add(shard)
        if self._task is None:
            self._task = self._border.spawn_shared("records", self._run)
        try:
            yield
        finally:
            self._shards.discard(shard)
            if not self._shards:
                await self._end()

    async def _end(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(INTERVAL)
            for installation in {shard.installation for shard in self._shards}:
                await self._border.shared_once("records", partial(self.look, installation))

    async def look(self, installation: str) -> None:
        """Delete the records whose object was gone the last time too and whose lifecycle does not run.

        Raises:
            WindlassError: records, objects or lifecycles cannot be listed.
        """
        # The records first: an object is always older than its record.
        stored = await self._records.stored(installation)
        present = await self._objects()
        absent = {key for key in stored if self._serves(key) and _name(key) not in present}
        due, self._absent = absent & self._absent, absent
        if not due:
            return
        running = await self._lifecycles.running()
        for key in sorted(due, key=lambda key: key.package_id):
            if package_workflow_id(key) not in running:
                await self._delete(key, stored[key])

    async def _delete(self, key: PackageKey, resource_version: str) -> None:
        try:
            # A package that is back by now may have written it anew.
            await self._records.delete(key, resource_version=resource_version)
        except WindlassError as error:
            _log.warning("state not deleted", package=key.package_id, reason=error.reason.value, error=str(error))
        else:
            _log.info("state of a package that is gone deleted", package=key.package_id)

    def _serves(self, key: PackageKey) -> bool:
        return any(shard.serves(key) for shard in self._shards)

    async def _objects(self) -> set[_Name]:
        found: set[_Name] = set()
        for kind in Kind:
            listed = await self._kube.list(API_VERSION, kind.value, metadata_only=True)
            found |= {
                (kind.value, item["metadata"].get("namespace") or "", item["metadata"]["name"]) for item in listed.items
            }
        return found


def _name(key: PackageKey) -> _Name:
    return key.kind.value, key.namespace, key.name
