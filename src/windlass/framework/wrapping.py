"""Putting something around the operations of resources, and looking below what was put there."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from enum import StrEnum
from typing import Any, Final, Protocol, runtime_checkable

from windlass.framework.crud import CRUDResource, CRUDResourceOps
from windlass.framework.errors import LoopDetectedError
from windlass.framework.patch import Patch
from windlass.framework.resource import Resource

MAX_HOPS: Final = 1000
"""Wrappers around each other before `unwrapped` calls it a circle."""


class Operation(StrEnum):
    """What can be put something around."""

    GET_CURRENT_STATE = "get_current_state"
    GET_DESIRED_STATE = "get_desired_state"
    NEW_UPDATE_PATCH = "new_update_patch"
    NEW_DELETE_PATCH = "new_delete_patch"
    APPLY_CREATE_CHANGE = "apply_create_change"
    APPLY_DELETE_CHANGE = "apply_delete_change"
    APPLY_UPDATE_CHANGE = "apply_update_change"
    ENSURE_CREATED = "ensure_created"
    ENSURE_DELETED = "ensure_deleted"


class Around(Protocol):
    """What happens around one call of an operation."""

    async def __call__[T](self, operation: Operation, call: Callable[[], Awaitable[T]]) -> T:
        """Make the call, once, several times or never, and return its value."""
        ...


@runtime_checkable
class Wrapper(Protocol):
    """A resource around another one."""

    @property
    def wrapped(self) -> Resource:
        """The resource inside."""
        ...


class AroundOps:
    """`CRUDResourceOps` with something around each of the seven operations."""

    def __init__(self, ops: CRUDResourceOps, around: Around) -> None:
        self._ops = ops
        self._around = around

    @property
    def name(self) -> str:
        """The name of what is inside."""
        return self._ops.name

    async def get_current_state(self, obj: Any) -> Any:
        """See `CRUDResourceOps`."""
        return await self._around(Operation.GET_CURRENT_STATE, lambda: self._ops.get_current_state(obj))

    async def get_desired_state(self, obj: Any) -> Any:
        """See `CRUDResourceOps`."""
        return await self._around(Operation.GET_DESIRED_STATE, lambda: self._ops.get_desired_state(obj))

    async def new_update_patch(self, obj: Any, current_state: Any, desired_state: Any) -> Patch | None:
        """See `CRUDResourceOps`."""
        return await self._around(
            Operation.NEW_UPDATE_PATCH, lambda: self._ops.new_update_patch(obj, current_state, desired_state)
        )

    async def new_delete_patch(self, obj: Any, current_state: Any, desired_state: Any) -> Patch | None:
        """See `CRUDResourceOps`."""
        return await self._around(
            Operation.NEW_DELETE_PATCH, lambda: self._ops.new_delete_patch(obj, current_state, desired_state)
        )

    async def apply_create_change(self, obj: Any, create_change: Any) -> None:
        """See `CRUDResourceOps`."""
        await self._around(Operation.APPLY_CREATE_CHANGE, lambda: self._ops.apply_create_change(obj, create_change))

    async def apply_delete_change(self, obj: Any, delete_change: Any) -> None:
        """See `CRUDResourceOps`."""
        await self._around(Operation.APPLY_DELETE_CHANGE, lambda: self._ops.apply_delete_change(obj, delete_change))

    async def apply_update_change(self, obj: Any, update_change: Any) -> None:
        """See `CRUDResourceOps`."""
        await self._around(Operation.APPLY_UPDATE_CHANGE, lambda: self._ops.apply_update_change(obj, update_change))


class AroundResource:
    """A plain `Resource` with something around its two methods."""

    def __init__(self, resource: Resource, around: Around) -> None:
        self._resource = resource
        self._around = around

    @property
    def name(self) -> str:
        """The name of what is inside."""
        return self._resource.name

    @property
    def wrapped(self) -> Resource:
        """The resource inside."""
        return self._resource

    async def ensure_created(self, obj: Any) -> None:
        """See `Resource`."""
        await self._around(Operation.ENSURE_CREATED, lambda: self._resource.ensure_created(obj))

    async def ensure_deleted(self, obj: Any) -> None:
        """See `Resource`."""
        await self._around(Operation.ENSURE_DELETED, lambda: self._resource.ensure_deleted(obj))


def unwrapped(resource: Resource) -> Resource:
    """Return the resource below all wrappers.

    Raises:
        LoopDetectedError: after 1,000 wrappers there is still one.
    """
    for _ in range(MAX_HOPS + 1):
        if not isinstance(resource, Wrapper):
            return resource
        resource = resource.wrapped
    raise LoopDetectedError(f"resource {resource.name!r} is wrapped more than {MAX_HOPS} times")


def wrap(resources: Sequence[Resource], around: Callable[[Resource], Around]) -> list[Resource]:
    """Put something around each resource; return them in their order.

    The steps of a CRUD resource are replaced in place, also below other wrappers, and the resource itself is
    returned; a plain resource is returned inside a wrapper. What is put around last is outermost, and what is put
    around twice happens twice.

    Args:
        resources: of one set.
        around: makes what is put around one resource.

    Raises:
        LoopDetectedError: as `unwrapped`.
    """
    made: list[Resource] = []
    for resource in resources:
        inner = unwrapped(resource)
        if isinstance(inner, CRUDResource):
            inner.ops = AroundOps(inner.ops, around(inner))
            made.append(resource)
        else:
            made.append(AroundResource(resource, around(resource)))
    return made
