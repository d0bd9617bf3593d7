"""Secondary resources as a garbage sweep sees them: Kubernetes objects and entities."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from windlass.controllerruntime.informer import Informer
from windlass.controllerruntime.ownership import owner_of
from windlass.domain.errors import Reason, TransientError
from windlass.ports.entities import EntityClient, Item, Owned
from windlass.ports.kube import Kube, ObjectRef


class KubeSecondaries:
    """The objects of a synced informer.

    Args:
        informer: their picture.
        kube: deletes them, with uid and resourceVersion as preconditions.
    """

    def __init__(self, informer: Informer, kube: Kube) -> None:
        self._informer = informer
        self._kube = kube

    @property
    def name(self) -> str:
        """As the informer's."""
        return self._informer.name

    async def owned(self, kind: str) -> Sequence[Owned]:
        """Return the objects whose owner is of ``kind``.

        Raises:
            TransientError: API_UNAVAILABLE, the picture has not been complete yet.
        """
        if not self._informer.synced:
            raise TransientError(Reason.API_UNAVAILABLE, f"{self.name} has not been listed yet")
        return _owned(list(self._informer), kind)

    async def remove(self, secondary: Owned) -> bool:
        """Delete one, only as it was read; False if it is gone or another object has its name by now."""
        document = secondary.document or {}
        metadata: dict[str, Any] = document.get("metadata") or {}
        ref = ObjectRef(
            api_version=str(document.get("apiVersion") or ""),
            kind=str(document.get("kind") or ""),
            namespace=str(metadata.get("namespace") or ""),
            name=str(metadata.get("name") or ""),
        )
        return await self._kube.delete(
            ref, uid=str(metadata.get("uid") or ""), resource_version=str(metadata.get("resourceVersion") or "")
        )


class EntitySecondaries:
    """The entities of one client."""

    def __init__(self, client: EntityClient) -> None:
        self._client = client

    @property
    def name(self) -> str:
        """As the client's."""
        return self._client.name

    async def owned(self, kind: str) -> Sequence[Owned]:
        """Return the entities whose owner is of ``kind``; raises what `EntityClient.list` raises."""
        return _owned(await self._client.list(), kind)

    async def remove(self, secondary: Owned) -> bool:
        """Delete one, only at the revision at which it was read; False if it is gone."""
        return await self._client.delete(secondary.name, version=secondary.version)


def _owned(items: Sequence[Item], kind: str) -> list[Owned]:
    found: list[Owned] = []
    for item in items:
        owner = owner_of(item.document) if item.document is not None else None
        if owner is not None and owner.kind == kind:
            found.append(
                Owned(
                    name=item.key,
                    version=item.version,
                    owner_kind=owner.kind,
                    owner_key=owner.key,
                    document=item.document,
                )
            )
    return found
