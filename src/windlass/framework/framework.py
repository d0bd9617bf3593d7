"""The framework: takes events, finds the resources for each object, runs them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable
from typing import Any, Final

from windlass.framework.backoff import BackOffFactory, default_backoff_factory, retry
from windlass.framework.chain import process_delete, process_update
from windlass.framework.errors import InvalidConfigError, NoResourceSetError
from windlass.framework.events import Delete, Event, Failure, Informer, Update
from windlass.framework.finalizers import Finalizers
from windlass.framework.flags import finalizers_kept
from windlass.framework.lanes import Lanes, ObjectLocks
from windlass.framework.metrics import FrameworkMetrics, default_metrics
from windlass.framework.objects import object_key, self_link
from windlass.framework.resource import Logger
from windlass.framework.router import ResourceRouter
from windlass.ports.kube import Object
from windlass.ports.operators import DefinitionAccess

STOP_GRACE_SECONDS: Final = 10.0
"""How long a stopped framework lets running reconciliations come to their end: a third of what a pod is given."""


class Framework:
    """Reconciles the objects of an informer with the resources that a router finds for them.

    (contract: Framework, New, Config; frameworks.md sections 1.2 and 1.7)

    Events of one object are handled in order, one at a time; different objects side by side, so an object that is
    retried or slow keeps no other waiting. Errors of a reconciliation are logged: the object is tried again with its
    next event or resync, and meanwhile by the retry wrapper where resources are wrapped in it.

    Args:
        crd: the definition that `boot` ensures first; together with ``crd_client`` or not at all.
        crd_client: ensures it.
        informer: where events come from.
        logger: for what the framework has to tell.
        resource_router: finds the resource set of an object.
        backoff_factory: makes the back-offs of booting and of the event loop; `default_backoff_factory` if not given.
        finalizers: keep objects until their deletion was handled; without, a deletion that fails is not repeated.
        concurrency: objects that are reconciled at once, None for any number; 1 where resources of an operator
            that moves over count on operatorkit's one mutex.
        metrics: where events are timed; `default_metrics` if not given.

    Raises:
        InvalidConfigError: only one of ``crd`` and ``crd_client`` is given, or the informer, the logger or the
            router is None, or ``concurrency`` is less than 1; checked in this order.
    """

    def __init__(  # noqa: PLR0913 - all keyword; what a framework is put together from
        self,
        *,
        crd: Object | None = None,
        crd_client: DefinitionAccess | None = None,
        informer: Informer | None,
        logger: Logger | None,
        resource_router: ResourceRouter | None,
        backoff_factory: BackOffFactory | None = None,
        finalizers: Finalizers | None = None,
        concurrency: int | None = None,
        metrics: FrameworkMetrics | None = None,
    ) -> None:
        if (crd is None) is not (crd_client is None):
            raise InvalidConfigError("a definition and the client that ensures it are given together or not at all")
        if informer is None:
            raise InvalidConfigError("a framework needs an informer")
        if logger is None:
            raise InvalidConfigError("a framework needs a logger")
        if resource_router is None:
            raise InvalidConfigError("a framework needs a resource router")
        if concurrency is not None and concurrency < 1:
            raise InvalidConfigError("concurrency has to be at least 1")
        self._crd = crd
        self._crd_client = crd_client
        self._informer = informer
        self._logger = logger
        self._router = resource_router
        self._backoff_factory = backoff_factory or default_backoff_factory()
        self._finalizers = finalizers
        self._concurrency = concurrency
        self._metrics = metrics or default_metrics()
        self._locks = ObjectLocks()
        self._booting = asyncio.Lock()
        self._booted = False

    async def boot(self) -> None:
        """Ensure the definition, follow the informer, handle events until cancelled. Runs once per framework.

        (contract: Boot)

        A second call waits for the first one and returns. Errors while ensuring the definition are tried again with a
        back-off of the factory; those of the events are `process_events`'s.

        Raises:
            Exception: the definition could not be ensured within the back-off, or the loop's budget is spent. The
                process should end with exit code 1, as `windlass.operators.run` sees to.
        """
        async with self._booting:
            if self._booted:
                return
            self._booted = True
            await self._ensure_definition()
            await self.process_events(self._informer.watch())

    async def process_events(self, events: AsyncIterable[Event]) -> None:
        """Handle events until there are none left and all are done.

        (contract: ProcessEvents; frameworks.md section 1.7)

        A `Failure` lets the loop pause: a back-off of the factory gives the seconds, and it is not reset in the life
        of one call, so after the default's 7 pauses the 8th failure ends it. Objects that are being reconciled go on
        during a pause. When the loop ends early, cancelled too, they get 10 s to come to their end.

        Args:
            events: from an informer, or `windlass.framework.from_queues` of three queues. Closed at the end.

        Raises:
            Exception: the failure that spent the budget.
        """
        budget = self._backoff_factory()
        budget.reset()
        lanes = Lanes(self._timed, width=self._concurrency)
        stream = aiter(events)
        try:
            async for event in stream:
                if isinstance(event, Failure):
                    await self._pause(budget.next(), event.error)
                else:
                    lanes.put(event)
            await lanes.drain()
        finally:
            if isinstance(stream, AsyncGenerator):
                await stream.aclose()
            await lanes.stop(STOP_GRACE_SECONDS)

    async def update_func(self, old: Any, new: Any) -> None:
        """Reconcile an object that was created or changed. Only ``new`` is looked at. Errors are logged, not raised.

        (contract: UpdateFunc)
        """
        del old
        await self._handle(new, self._update)

    async def delete_func(self, obj: Any) -> None:
        """Reconcile an object that was deleted, in the last state it was seen in. Errors are logged, not raised.

        (contract: DeleteFunc)
        """
        await self._handle(obj, self._delete)

    async def _ensure_definition(self) -> None:
        crd, client = self._crd, self._crd_client
        if crd is None or client is None:
            return
        await retry(
            lambda: client.ensure_created(crd),
            self._backoff_factory(),
            notify=lambda error, wait: self._logger.warning(
                "the definition cannot be ensured, it is tried again", error=str(error), wait=round(wait, 3)
            ),
        )

    async def _pause(self, wait: float | None, error: Exception) -> None:
        if wait is None:
            self._logger.error("the event loop fails for good", error=str(error))
            raise error
        self._logger.warning("the event loop fails and goes on after a pause", error=str(error), wait=round(wait, 3))
        await asyncio.sleep(wait)

    async def _timed(self, event: Update | Delete) -> None:
        began = time.monotonic()
        if isinstance(event, Update):
            await self.update_func(None, event.object)
        else:
            await self.delete_func(event.object)
        name = "update" if isinstance(event, Update) else "delete"
        self._metrics.event_seconds.labels(name).observe(time.monotonic() - began)

    async def _handle(self, obj: Any, reconcile: Callable[[Any], Awaitable[None]]) -> None:
        async def logged() -> None:
            try:
                await reconcile(obj)
            except NoResourceSetError:
                return  # the router has told
            except Exception as error:  # any error of an operator's code ends this round and no more
                self._logger.exception("reconciling failed", object=self_link(obj), error=str(error))

        async with self._locks.hold(object_key(obj)):
            # A task has context variables of its own: what is installed for this object is gone with it.
            await asyncio.create_task(logged())

    async def _update(self, obj: Any) -> None:
        resource_set = self._router.resource_set(obj)
        # After the router: an object that nobody handles gets no finalizer that nobody would take away.
        if self._finalizers is not None and not await self._finalizers.hold(obj):
            return
        await resource_set.init_ctx(obj)
        await process_update(obj, resource_set.resources)

    async def _delete(self, obj: Any) -> None:
        finalizers = self._finalizers
        if finalizers is not None and not finalizers.held(obj):
            return  # nothing was made for it, or it was handled: this is the event of its going
        try:
            resource_set = self._router.resource_set(obj)
        except NoResourceSetError:
            if finalizers is not None:
                self._logger.warning(
                    "no resource set handles the deletion any more, the finalizer stays",
                    object=self_link(obj),
                    finalizer=finalizers.finalizer,
                )
            raise
        kept = finalizers_kept.install()
        await resource_set.init_ctx(obj)
        await process_delete(obj, resource_set.resources)
        if finalizers is not None and not kept.is_set:
            await finalizers.release(obj)
