"""The custom controller: brings what a route wants to be."""

from __future__ import annotations

import asyncio
from typing import Any

from dns import DnsRecords
from model import Route

from windlass.controllerruntime import ControllerRuntime, Informer, Owner
from windlass.domain.errors import PermanentError
from windlass.ports.entities import Document, EntityClient
from windlass.ports.kube import Kube, ObjectRef

KIND = "Route"
MANAGER = "nats-routes"


class Routes:
    """An `IController`.

    Args:
        runtime: calls this controller back.
        kube: writes Services and ConfigMaps.
        primary: the routes.
        status: what became of each, under the same key.
        records: names in the DNS; None without one.
    """

    def __init__(
        self,
        runtime: ControllerRuntime,
        kube: Kube,
        *,
        primary: EntityClient,
        status: EntityClient,
        records: DnsRecords | None,
    ) -> None:
        self.runtime = runtime
        self.watched: tuple[Informer, ...] = ()
        self._kube = kube
        self._primary = primary
        self._status = status
        self._records = records
        runtime.set_custom_controller(self)

    async def run(self, threadiness: int, stop: asyncio.Event) -> None:
        """Start the loop."""
        await self.runtime.run(threadiness, stop)

    async def sync_handler(self, key: str) -> None:
        """Bring one route to what it wants; an absent one wants nothing."""
        found = await self._primary.get(key)
        if found is None or found.document is None:
            await self._remove(key, keep=set())
            return
        try:
            route = Route.from_document(key, found.document)
            for wanted in (route.service(), route.config_map()):
                await self._apply(key, wanted)
            await self._remove(key, keep={_ref(route.service()), _ref(route.config_map())})
            await self._name(route)
        except PermanentError as error:
            await self._report(key, {"ready": False, "revision": found.version, "message": str(error)})
            raise
        await self._report(key, {"ready": True, "revision": found.version, "host": route.host})

    async def handle_secondary(self, obj: Document) -> None:
        """Look at the route of a secondary that changed."""
        self.runtime.enqueue_owner(obj)

    async def garbage_secondaries(self) -> None:
        """Clear away what routes have left behind."""
        await self.runtime.sweep()

    async def clean(self) -> None:
        """Nothing is held beyond what the program closes."""

    async def _apply(self, key: str, wanted: Document) -> None:
        wanted = self.runtime.owned(wanted, key)
        there = await self._kube.get(_ref(wanted))
        if there is not None:
            self.runtime.require_owned(there, key)
        applied = await self._kube.apply(wanted, field_manager=MANAGER)
        if there is None:
            self.runtime.synced(applied, "created")
        elif there["metadata"]["resourceVersion"] != applied["metadata"]["resourceVersion"]:
            self.runtime.synced(applied, "updated")

    async def _remove(self, key: str, *, keep: set[ObjectRef]) -> None:
        """Delete objects of a route that it does not want (any more), such as those in a former namespace."""
        for informer in self.watched:
            for item in informer.owned_by(Owner(kind=KIND, key=key)):
                obj = item.document or {}
                if _ref(obj) not in keep and await self._kube.delete(_ref(obj), uid=obj["metadata"]["uid"]):
                    self.runtime.synced(obj, "deleted")
        if not keep:
            await self._status.delete(key)
            for record in await self._records.hosts_of(KIND, key) if self._records else []:
                await self._records.remove(record)

    async def _name(self, route: Route) -> None:
        if self._records is None:
            return
        target = f"{route.key}.{route.namespace}"
        await self._records.set(route.host, target, kind=KIND, key=route.key)
        for record in await self._records.hosts_of(KIND, route.key):
            if record.name != route.host:
                await self._records.remove(record)

    async def _report(self, key: str, status: dict[str, Any]) -> None:
        """Write the status if it says anything new: writing it anew each time would bring the route back for ever."""
        wanted = self.runtime.owned({"metadata": {"name": key}, "status": status}, key)
        there = await self._status.get(key)
        if there is None:
            await self._status.create(key, wanted)
        elif there.document != wanted:
            await self._status.update(key, wanted, version=there.version)


def _ref(obj: Document) -> ObjectRef:
    metadata = obj["metadata"]
    return ObjectRef(
        api_version=obj["apiVersion"], kind=obj["kind"], namespace=metadata["namespace"], name=metadata["name"]
    )
