"""Helm's records of a release, read and repaired in the cluster without Helm."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from windlass.adapters.helm import record
from windlass.adapters.helm.record import Record
from windlass.domain.lifecycle.releases import Revision
from windlass.ports.helm import ReleaseRef
from windlass.ports.kube import Kube, Object, ObjectRef

SWEPT: Final = "windlass.dev/swept"
"""Label of an unfinished revision's record: what it left in the cluster has been looked for and deleted."""

_NUMBER: Final = re.compile(r"[1-9][0-9]{0,8}")


@dataclass(frozen=True, kw_only=True)
class Found:
    """A Secret that Helm takes for a record of the release, by its labels alone.

    ``revision`` is None if it does not have the name that Helm gives to the record with that number.
    """

    name: str
    uid: str
    resource_version: str
    revision: Revision | None


def secret_ref(ref: ReleaseRef, revision: int) -> ObjectRef:
    """Return the Secret of one revision; the name is Helm's."""
    name = f"sh.helm.release.v1.{ref.name}.v{revision}"
    return ObjectRef(api_version="v1", kind="Secret", namespace=ref.namespace, name=name)


class Storage:
    """Release records through the Kubernetes API."""

    def __init__(self, kube: Kube) -> None:
        self._kube = kube

    async def found(self, ref: ReleaseRef) -> tuple[Found, ...]:
        """Return every Secret that Helm takes for a record of the release; one request for metadata only.

        Helm goes by two labels, whatever the name and the type of the Secret (``pkg/storage/driver/secrets.go``).
        """
        listed = await self._kube.list(
            "v1",
            "Secret",
            namespace=ref.namespace,
            label_selector=f"owner=helm,name={ref.name}",
            metadata_only=True,
        )
        return tuple(_found(ref, item["metadata"]) for item in listed.items)

    async def history(self, ref: ReleaseRef) -> tuple[Revision, ...]:
        """Return all stored revisions, oldest first, whoever wrote them."""
        revisions = [one.revision for one in await self.found(ref) if one.revision is not None]
        return tuple(sorted(revisions, key=lambda revision: revision.number))

    async def secret(self, ref: ReleaseRef, revision: int) -> Object | None:
        """Return the Secret of one revision, or None if it is gone."""
        return await self._kube.get(secret_ref(ref, revision))

    async def read(self, ref: ReleaseRef, revision: int) -> Record | None:
        """Return one revision decoded, or None if it is gone."""
        secret = await self.secret(ref, revision)
        # Records of big charts take tens of milliseconds to unpack: keep the event loop free.
        return None if secret is None else await asyncio.to_thread(record.decode, secret)

    async def unlock(self, ref: ReleaseRef, revision: Revision) -> None:
        """Mark a pending revision as failed, unless it has changed or gone since it was seen."""
        secret = await self._kube.get(secret_ref(ref, revision.number))
        if secret is None or secret["metadata"]["labels"].get("status") != revision.status:
            return
        why = f"{revision.status} was interrupted; unlocked by Windlass"
        await self._kube.replace(await asyncio.to_thread(record.mark_failed, secret, why))

    async def drop(self, ref: ReleaseRef, revision: int) -> None:
        """Forget one revision; absent is fine."""
        await self._kube.delete(secret_ref(ref, revision))

    async def mark_swept(self, ref: ReleaseRef, revision: int) -> None:
        """Remember that nothing of an unfinished revision is left."""
        patch = {"metadata": {"labels": {SWEPT: "true"}}}
        await self._kube.patch(secret_ref(ref, revision), patch, kind="merge")


def _found(ref: ReleaseRef, metadata: Mapping[str, Any]) -> Found:
    labels: Mapping[str, Any] = metadata.get("labels") or {}
    number = str(labels.get("version", ""))
    revision = None
    if _NUMBER.fullmatch(number) and metadata["name"] == secret_ref(ref, int(number)).name:
        revision = Revision(
            number=int(number), status=str(labels.get("status", "unknown")), swept=labels.get(SWEPT) == "true"
        )
    return Found(
        name=metadata["name"],
        uid=metadata["uid"],
        resource_version=metadata["resourceVersion"],
        revision=revision,
    )
