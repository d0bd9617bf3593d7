"""Which resources reconcile which objects: one set for each version or kind of object."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from structlog.contextvars import bind_contextvars

from windlass.framework.errors import InvalidConfigError
from windlass.framework.flags import reconciliation_canceled, resource_canceled, update_allowed, update_necessary
from windlass.framework.objects import self_link
from windlass.framework.resource import Logger, Resource

type InitCtx = Callable[[Any], Awaitable[None]]
"""Prepares the context variables of one reconciliation of an object."""


class ResourceSet:
    """Resources for the objects it says it handles.

    (contract: ResourceSet, NewResourceSet, ResourceSetConfig; frameworks.md section 1.6)

    Args:
        handles: whether the set reconciles this object.
        logger: for what the set has to tell.
        resources: in the order they run; at least one.
        init_ctx: installs what the resources want to find in their context (`Flag.install`, `ContextVar.set`).

    Raises:
        InvalidConfigError: ``handles`` or ``logger`` is None or there are no resources; checked in this order.
    """

    def __init__(
        self,
        *,
        handles: Callable[[Any], bool] | None,
        logger: Logger | None,
        resources: Sequence[Resource],
        init_ctx: InitCtx | None = None,
    ) -> None:
        if handles is None:
            raise InvalidConfigError("a resource set needs a function that says what it handles")
        if logger is None:
            raise InvalidConfigError("a resource set needs a logger")
        if not resources:
            raise InvalidConfigError("a resource set needs resources")
        self._handles = handles
        self._logger = logger
        self._resources = tuple(resources)
        self._init_ctx = init_ctx

    def handles(self, obj: Any) -> bool:
        """Say whether this set reconciles ``obj`` (contract: Handles)."""
        return self._handles(obj)

    @property
    def resources(self) -> tuple[Resource, ...]:
        """The resources in the order they run."""
        return self._resources

    async def init_ctx(self, obj: Any) -> None:
        """Prepare the current context for one reconciliation of ``obj``.

        (contract: InitCtx; frameworks.md sections 1.6 and 1.8)

        Installs fresh flags `reconciliation_canceled`, `resource_canceled`, `update_allowed` and `update_necessary`,
        then calls the set's own function, which may install others in their place, then binds the log field
        ``object``. `deletion_allowed` is not installed. Whatever is installed lasts until the context ends: the
        framework gives each event a context of its own, other callers see to that themselves.

        Raises:
            Exception: what the set's own function raised.
        """
        for flag in (reconciliation_canceled, resource_canceled, update_allowed, update_necessary):
            flag.install()
        if self._init_ctx is not None:
            await self._init_ctx(obj)
        if link := self_link(obj):
            bind_contextvars(object=link)
        else:
            self._logger.warning("the object has no metadata to name it by", type=type(obj).__name__)
