"""A resource in steps: current state, desired state, patch, and the parts of the patch."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from structlog.contextvars import bound_contextvars

from windlass.framework.errors import InvalidConfigError
from windlass.framework.flags import reconciliation_canceled, resource_canceled
from windlass.framework.patch import Change, Patch
from windlass.framework.resource import Logger


class CRUDResourceOps(Protocol):
    """The steps that an operator writes. ``obj`` is the new object on updates, the last one seen on deletions.

    (contract: CRUDResourceOps; frameworks.md section 1.4)
    """

    @property
    def name(self) -> str:
        """What identifies the resource in logs and metrics; not empty."""
        ...

    async def get_current_state(self, obj: Any) -> Any:
        """Return what is there now: objects of the API server, or anything else that the resource manages.

        (contract: GetCurrentState)
        """
        ...

    async def get_desired_state(self, obj: Any) -> Any:
        """Return what should be there, made up of ``obj`` alone (contract: GetDesiredState)."""
        ...

    async def new_update_patch(self, obj: Any, current_state: Any, desired_state: Any) -> Patch | None:
        """Return what has to change for an object that was created or changed; None for nothing.

        (contract: NewUpdatePatch)
        """
        ...

    async def new_delete_patch(self, obj: Any, current_state: Any, desired_state: Any) -> Patch | None:
        """Return what has to change for an object that was deleted; None for nothing (contract: NewDeletePatch)."""
        ...

    async def apply_create_change(self, obj: Any, create_change: Any) -> None:
        """Create what the patch's create part says. Called only if that part is set; it may be None.

        (contract: ApplyCreateChange)
        """
        ...

    async def apply_delete_change(self, obj: Any, delete_change: Any) -> None:
        """Delete what the patch's delete part says. Called only if that part is set; it may be None.

        (contract: ApplyDeleteChange)
        """
        ...

    async def apply_update_change(self, obj: Any, update_change: Any) -> None:
        """Update what the patch's update part says. Called only if that part is set; it may be None.

        (contract: ApplyUpdateChange)
        """
        ...


class CRUDResource:
    """A `Resource` out of `CRUDResourceOps`.

    (contract: CRUDResource, NewCRUDResource, CRUDResourceConfig; frameworks.md section 1.4)

    Before each step the flags `reconciliation_canceled` and `resource_canceled` are looked at: when one is set the
    method returns without an error. A step that sets a flag always runs to its end, and its error wins over the flag.

    Args:
        logger: for what the resource has to tell.
        ops: the steps.

    Attributes:
        ops: the steps; the wrappers of `windlass.framework` replace them in place.

    Raises:
        InvalidConfigError: ``logger`` or ``ops`` is None, or the steps have no name; checked in this order.
    """

    def __init__(self, *, logger: Logger | None, ops: CRUDResourceOps | None) -> None:
        if logger is None:
            raise InvalidConfigError("a CRUD resource needs a logger")
        if ops is None:
            raise InvalidConfigError("a CRUD resource needs ops")
        if not ops.name:
            raise InvalidConfigError(f"the name of {type(ops).__name__} is empty")
        self._logger = logger
        self.ops = ops

    @property
    def name(self) -> str:
        """The name of its steps."""
        return self.ops.name

    async def ensure_created(self, obj: Any) -> None:
        """Run the steps with `CRUDResourceOps.new_update_patch`; raises what a step raises.

        (contract: EnsureCreated)
        """
        await self._run(obj, "new_update_patch", self.ops.new_update_patch)

    async def ensure_deleted(self, obj: Any) -> None:
        """Run the steps with `CRUDResourceOps.new_delete_patch`; raises what a step raises.

        (contract: EnsureDeleted)
        """
        await self._run(obj, "new_delete_patch", self.ops.new_delete_patch)

    async def _run(self, obj: Any, planning: str, plan: Callable[[Any, Any, Any], Awaitable[Patch | None]]) -> None:
        ops = self.ops
        if self._canceled("get_current_state"):
            return
        with bound_contextvars(function="get_current_state"):
            current = await ops.get_current_state(obj)
        if self._canceled("get_desired_state"):
            return
        with bound_contextvars(function="get_desired_state"):
            desired = await ops.get_desired_state(obj)
        if self._canceled(planning):
            return
        with bound_contextvars(function=planning):
            patch = await plan(obj, current, desired)
        if patch is None:
            return
        appliers = {
            Change.CREATE: ops.apply_create_change,
            Change.DELETE: ops.apply_delete_change,
            Change.UPDATE: ops.apply_update_change,
        }
        for part, change in patch.changes():
            function = f"apply_{part.value}_change"
            if self._canceled(function):
                return
            with bound_contextvars(function=function):
                await appliers[part](obj, change)

    def _canceled(self, before: str) -> bool:
        for flag in (reconciliation_canceled, resource_canceled):
            if flag.is_set():
                self._logger.debug("canceled", by=flag.name, before=before)
                return True
        return False
