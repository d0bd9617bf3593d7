"""Resources one after the other: what an update and a delete event come down to."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

from structlog.contextvars import bound_contextvars

from windlass.framework.errors import ExecutionFailedError
from windlass.framework.flags import FlagState, reconciliation_canceled, resource_canceled
from windlass.framework.resource import Resource

_RUNNING: Final[ContextVar[FlagState | None]] = ContextVar("windlass.framework.running", default=None)
"""The reconciliation flag of the chain we are in: one that a resource starts for another object gets its own."""


async def process_update(obj: Any, resources: Sequence[Resource]) -> None:
    """Reconcile an object that was created or changed: `Resource.ensure_created` of each resource in order.

    (contract: ProcessUpdate; frameworks.md section 1.3)

    The first error ends it. After each resource the flag `reconciliation_canceled` is looked at; when it is set the
    rest is left out without an error. Each resource gets a fresh `resource_canceled`. Nothing is retried, rolled
    back or run side by side.

    Raises:
        ExecutionFailedError: there are no resources; nothing was called.
        Exception: what a resource raised, as it is.
    """
    await _process(obj, resources, lambda resource: resource.ensure_created)


async def process_delete(obj: Any, resources: Sequence[Resource]) -> None:
    """Reconcile an object that was deleted: `Resource.ensure_deleted` of each resource in order; else as above.

    (contract: ProcessDelete; frameworks.md section 1.3)

    Raises:
        ExecutionFailedError: there are no resources; nothing was called.
        Exception: what a resource raised, as it is.
    """
    await _process(obj, resources, lambda resource: resource.ensure_deleted)


async def _process(
    obj: Any, resources: Sequence[Resource], method: Callable[[Resource], Callable[[Any], Awaitable[None]]]
) -> None:
    if not resources:
        raise ExecutionFailedError("there are no resources to execute")
    with _reconciliation() as canceled:
        for resource in resources:
            with resource_canceled.installed(), bound_contextvars(resource=resource.name):
                await method(resource)(obj)
            if canceled.is_set:
                return


@contextmanager
def _reconciliation() -> Generator[FlagState]:
    """Install the flag unless `ResourceSet.init_ctx` or the caller did, for this chain and no other."""
    state = reconciliation_canceled.current()
    if state is None or state is _RUNNING.get():
        state = FlagState()
    running = _RUNNING.set(state)
    try:
        with reconciliation_canceled.installed(state):
            yield state
    finally:
        _RUNNING.reset(running)
