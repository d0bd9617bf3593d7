"""What a tenant consists of: objects that are compared, created, deleted and updated, and the tenant's status."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from typing import Any, Protocol, cast

from windlass.framework import Patch
from windlass.ports.kube import Kube, Object, ObjectRef

MANAGER = "tenant-namespaces"
TENANT = "tenants.example.dev/tenant"
"""Label on everything that belongs to a tenant; its value is the tenant's name."""

DIGEST = "tenants.example.dev/digest"
"""Annotation by which a field that is no longer asked for is noticed."""

type Objects = dict[str, Object]
"""Objects by name."""


class StillThereError(Exception):
    """A deleted object takes its time to go; the retry wrapper looks again."""


class Desired(Protocol):
    """Makes the objects of one kind that a tenant asks for."""

    def __call__(self, tenant: Object) -> list[Object]:
        """Return them with names and namespaces."""
        ...


def namespace_of(tenant: Object) -> str:
    """Return the name of the tenant's namespace."""
    return f"tenant-{tenant['metadata']['name']}"


class ObjectOps:
    """CRUD steps for the objects of one kind.

    Args:
        kube: the client.
        name: of the resource.
        api_version: of the objects.
        kind: of the objects.
        desired: makes them.
        delete: whether they are deleted with the tenant; what lives in its namespace goes with that.
    """

    def __init__(
        self, kube: Kube, name: str, api_version: str, kind: str, *, desired: Desired, delete: bool = False
    ) -> None:
        self.name = name
        self._kube = kube
        self._api_version = api_version
        self._kind = kind
        self._desired = desired
        self._delete = delete

    async def get_current_state(self, obj: Object) -> Objects:
        """List the tenant's objects of this kind."""
        found = await self._kube.list(
            self._api_version, self._kind, label_selector=f"{TENANT}={obj['metadata']['name']}"
        )
        return {one["metadata"]["name"]: one for one in found.items}

    async def get_desired_state(self, obj: Object) -> Objects:
        """Make up the objects the tenant asks for, labelled as its own."""
        made: Objects = {}
        for one in self._desired(obj):
            metadata = one["metadata"]
            made[metadata["name"]] = {
                "apiVersion": self._api_version,
                "kind": self._kind,
                **one,
                "metadata": {
                    **metadata,
                    "labels": {**metadata.get("labels", {}), TENANT: obj["metadata"]["name"]},
                    "annotations": {DIGEST: _digest(one)},
                },
            }
        return made

    async def new_update_patch(self, obj: Object, current_state: Objects, desired_state: Objects) -> Patch:
        """Create what is missing, delete what is too much, update what differs."""
        del obj
        patch = Patch()
        if missing := [one for name, one in desired_state.items() if name not in current_state]:
            patch.set_create_change(missing)
        if extra := [one for name, one in current_state.items() if name not in desired_state]:
            patch.set_delete_change(extra)
        if changed := [
            one for name, one in desired_state.items() if name in current_state and not says(current_state[name], one)
        ]:
            patch.set_update_change(changed)
        return patch

    async def new_delete_patch(self, obj: Object, current_state: Objects, desired_state: Objects) -> Patch:
        """Delete everything, or nothing where the namespace takes it along."""
        del obj, desired_state
        patch = Patch()
        if self._delete and current_state:
            patch.set_delete_change(list(current_state.values()))
        return patch

    async def apply_create_change(self, obj: Object, create_change: list[Object]) -> None:
        """Apply what is missing."""
        del obj
        for one in create_change:
            await self._kube.apply(one, field_manager=MANAGER)

    async def apply_delete_change(self, obj: Object, delete_change: list[Object]) -> None:
        """Delete what is too much; called again until it is gone."""
        del obj
        for one in delete_change:
            if await self._kube.delete(reference(one), uid=one["metadata"]["uid"]):
                raise StillThereError(f"{one['kind']}/{one['metadata']['name']} is being deleted")

    async def apply_update_change(self, obj: Object, update_change: list[Object]) -> None:
        """Apply what differs."""
        await self.apply_create_change(obj, update_change)


class Status:
    """The last resource of a chain: all before it have done their part."""

    name = "status"

    def __init__(self, kube: Kube) -> None:
        self._kube = kube

    async def ensure_created(self, obj: Object) -> None:
        """Say that the tenant is ready, once for each generation."""
        status = {
            "namespace": namespace_of(obj),
            "ready": True,
            "bundle": obj["spec"]["bundle"],
            "observedGeneration": obj["metadata"]["generation"],
        }
        if obj.get("status") != status:
            await self._kube.patch(reference(obj), {"status": status}, kind="merge", subresource="status")

    async def ensure_deleted(self, obj: Object) -> None:
        """Nothing is left to say of an object that goes."""


def says(live: Any, wanted: Any) -> bool:
    """Say whether every field of ``wanted`` stands in ``live``; what the API server added does not matter."""
    if isinstance(wanted, Mapping):
        fields = cast("Mapping[str, Any]", wanted)
        return isinstance(live, Mapping) and all(
            says(cast("Mapping[str, Any]", live).get(key), value) for key, value in fields.items()
        )
    return bool(live == wanted)


def _digest(obj: Object) -> str:
    return hashlib.sha256(json.dumps(obj, sort_keys=True).encode()).hexdigest()[:16]


def reference(obj: Object) -> ObjectRef:
    """Return the name of an object."""
    metadata = obj["metadata"]
    return ObjectRef(
        api_version=obj["apiVersion"],
        kind=obj["kind"],
        namespace=metadata.get("namespace", ""),
        name=metadata["name"],
    )


def bundle(version: str) -> Callable[[Any], bool]:
    """Return a function that says whether a tenant is of this bundle."""
    return lambda tenant: tenant["spec"]["bundle"] == version
