"""How many shards an installation has and who serves each of them: one ConfigMap, changed under its resourceVersion.

One object instead of a Lease for each shard: an idle process renews its own Lease only, whatever the number of shards,
and whoever takes a shard does so against the very state of the table that it has seen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final, cast

from windlass.adapters.kube.coordination.leases import API_VERSION as LEASE_API
from windlass.adapters.kube.following.reflector import Listed, list_and_watch
from windlass.domain.errors import Actor, PermanentError, Reason, TransientError
from windlass.domain.ids import INSTALLATION_LABEL, lease_name, shards_name
from windlass.domain.shards import MAX_SHARDS
from windlass.ports.kube import Kube, Object, ObjectRef

COUNT: Final = "count"
_SHARD: Final = "shard-"
_ONE_QUEUE: Final = "worker"
"""Role of the Lease that guarded the only shard before there was a table."""


@dataclass(frozen=True, kw_only=True)
class Table:
    """One state of the table: the number of shards, and the term that serves each shard that is served."""

    count: int
    owners: Mapping[int, str]
    source: Object


class ShardTable:
    """The table of one installation.

    Args:
        kube: a client.
        namespace: of the ConfigMap; it must exist.
        installation: the installation id.
    """

    def __init__(self, kube: Kube, namespace: str, installation: str) -> None:
        self._kube = kube
        self._installation = installation
        self._ref = ObjectRef(api_version="v1", kind="ConfigMap", namespace=namespace, name=shards_name(installation))
        self.current: Table | None = None
        """As seen last; None before the first look."""

    async def open(self, count: int, *, fixed: bool) -> Table:
        """Read the table; make it with ``count`` shards if there is none.

        An installation from before there was a table has one shard, and keeps it.

        Args:
            count: of a new installation.
            fixed: somebody has asked for ``count``: another number is an error.

        Raises:
            PermanentError: VALIDATION_FAILED, the table holds no number, or another one than was asked for.
            TransientError: API_UNAVAILABLE.
        """
        found = await self._kube.get(self._ref)
        if found is None:
            found = await self._create(count)
        table = self._see(found)
        if fixed and table.count != count:
            raise PermanentError(
                Reason.VALIDATION_FAILED,
                f"installation {self._installation} has {table.count} shards, {count} are asked for",
                hint="leave WINDLASS_SHARDS unset; docs/operations.md says how to change the number",
                actor=Actor.ADMIN,
            )
        return table

    async def follow(self, changed: Callable[[], object]) -> None:
        """Keep `current` up to date until cancelled; call ``changed`` after each change."""
        stream = list_and_watch(
            self._kube,
            "v1",
            "ConfigMap",
            namespace=self._ref.namespace,
            field_selector=f"metadata.name={self._ref.name}",
        )
        async with aclosing(stream) as events:
            async for event in events:
                if isinstance(event, Listed):
                    for item in event.items:
                        self._see(item)
                elif event.type in {"ADDED", "MODIFIED"}:
                    self._see(event.object)
                else:
                    continue
                changed()

    async def write(self, owners: Mapping[int, str]) -> bool:
        """Put ``owners`` in the place of those of `current`; False if the table has changed since or is unreachable.

        Raises:
            PermanentError: FORBIDDEN.
        """
        if self.current is None:
            return False
        data = {COUNT: str(self.current.count)}
        data |= {f"{_SHARD}{shard}": owner for shard, owner in sorted(owners.items())}
        try:
            self._see(await self._kube.replace({**self.current.source, "data": data}))
        except TransientError as error:
            if error.reason is Reason.API_CONFLICT:
                found = await self._kube.get(self._ref)
                if found is not None:
                    self._see(found)
            return False
        return True

    async def _create(self, count: int) -> Object:
        before = await self._kube.get(
            ObjectRef(
                api_version=LEASE_API,
                kind="Lease",
                namespace=self._ref.namespace,
                name=lease_name(self._installation, _ONE_QUEUE),
            )
        )
        metadata = {
            "namespace": self._ref.namespace,
            "name": self._ref.name,
            "labels": {INSTALLATION_LABEL: self._installation},
        }
        data = {COUNT: str(count if before is None else 1)}
        try:
            return await self._kube.create(
                {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
            )
        except TransientError as error:
            found = await self._kube.get(self._ref) if error.reason is Reason.API_CONFLICT else None
            if found is None:
                raise
            return found  # another process was quicker

    def _see(self, found: Object) -> Table:
        found = {"apiVersion": "v1", "kind": "ConfigMap", **found}
        data = cast("dict[str, str]", found.get("data") or {})
        text = data.get(COUNT, "")
        if not text.isdecimal() or not 1 <= int(text) <= MAX_SHARDS:
            raise PermanentError(
                Reason.VALIDATION_FAILED,
                f"{self._ref} says {text!r} where the number of shards stands (key {COUNT})",
                hint=f"write the number that the installation was made with, 1 to {MAX_SHARDS}",
                actor=Actor.ADMIN,
            )
        owners = {
            int(key.removeprefix(_SHARD)): owner
            for key, owner in data.items()
            if owner and key.startswith(_SHARD) and key.removeprefix(_SHARD).isdecimal()
        }
        owners = {shard: owner for shard, owner in owners.items() if shard < int(text)}
        table = Table(count=int(text), owners=owners, source=found)
        self.current = table
        return table
