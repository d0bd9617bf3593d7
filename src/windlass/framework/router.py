"""Finds the one resource set that handles an object."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from windlass.framework.errors import ExecutionFailedError, InvalidConfigError, NoResourceSetError
from windlass.framework.objects import self_link
from windlass.framework.resource import Logger
from windlass.framework.resource_set import ResourceSet


class ResourceRouter:
    """Asks every set whether it handles an object. There is no order of precedence.

    (contract: ResourceRouter, NewResourceRouter, ResourceRouterConfig; frameworks.md section 1.6)

    Args:
        logger: for what the router has to tell.
        resource_sets: at least one.

    Raises:
        InvalidConfigError: ``logger`` is None or there are no sets; checked in this order.
    """

    def __init__(self, *, logger: Logger | None, resource_sets: Sequence[ResourceSet]) -> None:
        if logger is None:
            raise InvalidConfigError("a resource router needs a logger")
        if not resource_sets:
            raise InvalidConfigError("a resource router needs resource sets")
        self._logger = logger
        self._sets = tuple(resource_sets)

    def resource_set(self, obj: Any) -> ResourceSet:
        """Return the set that handles ``obj`` (contract: ResourceSet).

        Raises:
            NoResourceSetError: none does, which is normal where several frameworks share a kind.
            ExecutionFailedError: more than one does.
            Exception: what a set's ``handles`` raised.
        """
        found = [one for one in self._sets if one.handles(obj)]
        link = self_link(obj)
        if not found:
            if link:
                self._logger.debug("no resource set handles the object", object=link)
            else:
                self._logger.warning("no resource set handles an object without metadata", type=type(obj).__name__)
            raise NoResourceSetError(f"no resource set handles {link or 'an object without metadata'}")
        if len(found) > 1:
            raise ExecutionFailedError(
                f"{len(found)} resource sets handle {link or 'an object without metadata'}, only one may"
            )
        return found[0]
