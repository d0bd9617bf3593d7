"""How a controller starts, runs and stops (frameworks.md section 2.6)."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any, Final

import structlog

from windlass.controllerruntime.cache import Notice
from windlass.controllerruntime.controller import IController
from windlass.controllerruntime.informer import Informer
from windlass.controllerruntime.recorder import Recorder
from windlass.controllerruntime.workers import Workers
from windlass.domain.entities import Operation
from windlass.domain.errors import Reason, TransientError, WindlassError
from windlass.ports.entities import EntityClient, ExternalClient

FLUSH_SECONDS: Final = 5.0
"""Seconds that a stop waits for Events to be sent."""

_log: Final = structlog.stdlib.get_logger(__name__)


@dataclass(frozen=True, kw_only=True)
class Parts:
    """What a controller is made of.

    Attributes:
        primary: the client of the primaries and their picture.
        kube: pictures of Kubernetes objects.
        entities: clients of secondary and tertiary entities and their pictures.
        watched: the pictures of secondaries, whose changes the controller is told of.
        external: clients to be opened and closed.
        resync: seconds.
        sync_timeout: seconds.
        stop_timeout: seconds.
    """

    primary: tuple[EntityClient, Informer]
    kube: tuple[Informer, ...]
    entities: tuple[tuple[EntityClient, Informer], ...]
    watched: tuple[Informer, ...]
    external: tuple[ExternalClient, ...]
    resync: float
    sync_timeout: float
    stop_timeout: float


class Running:
    """One run of a controller."""

    def __init__(
        self, parts: Parts, controller: IController, workers: Workers, recorder: Recorder, *, name: str
    ) -> None:
        self._parts = parts
        self._controller = controller
        self._workers = workers
        self._recorder = recorder
        self._name = name
        self._log = _log.bind(controller=name)
        self._endless: list[asyncio.Task[None]] = []
        self._failure: asyncio.Future[None] | None = None

    async def run(self, threadiness: int, stop: asyncio.Event) -> None:
        """Start, go on until ``stop`` is set or something fails for good, stop in order."""
        self._failure = asyncio.get_running_loop().create_future()
        stopping = asyncio.create_task(_until(stop))
        try:
            async with AsyncExitStack() as exits:
                for client in self._parts.external:
                    exits.push_async_callback(client.close)
                    await client.open()
                # The last that is pushed comes first.
                exits.push_async_callback(self._end)
                exits.push_async_callback(self._controller.clean)
                exits.callback(self._workers.shut_down)
                self._begin(self._recorder.run(), "events")
                if await self._guarded(self._start(), stopping):
                    await self._work(threadiness, stopping)
        finally:
            stopping.cancel()
            self._failure.cancel()

    async def _start(self) -> None:
        for informer in self._parts.watched:
            informer.add_handler(self._secondary_changed)
        self._parts.primary[1].add_handler(self._primary_changed)
        await self._sync(self._parts.kube)
        await self._sync([informer for _, informer in self._parts.entities])
        await self._sync([self._parts.primary[1]])
        await self._collect_garbage()
        self._log.info("started", primaries=len(self._parts.primary[1]))

    async def _sync(self, informers: Sequence[Informer]) -> None:
        """Run what nobody runs yet and wait until every picture has been complete once."""
        for informer in dict.fromkeys(informers):
            if not informer.running:
                self._begin(informer.run(), f"informer of {informer.name}")
        try:
            async with asyncio.timeout(self._parts.sync_timeout):
                for informer in informers:
                    await informer.wait_synced()
        except TimeoutError:
            late = [f"{one.name} ({one.last_error or 'no answer yet'})" for one in informers if not one.synced]
            raise TransientError(
                Reason.API_UNAVAILABLE,
                f"{self._name}: not complete within {self._parts.sync_timeout:g} s: {', '.join(late)}",
                hint="start it again when these can be reached",
            ) from None

    async def _work(self, threadiness: int, stopping: asyncio.Task[None]) -> None:
        workers = asyncio.create_task(self._workers.run(threadiness), name=f"{self._name}/workers")
        try:
            self._begin(self._resync_for_ever(), "resync")
            await self._guarded(_wait(workers), stopping)
        except asyncio.CancelledError:
            workers.cancel()  # whoever cancels has no time for keys that are being worked on
            raise
        finally:
            self._workers.shut_down()
            _, late = await asyncio.wait([workers], timeout=self._parts.stop_timeout)
            if late:
                self._log.warning("keys were not done in time and are cancelled", seconds=self._parts.stop_timeout)
                workers.cancel()
                await asyncio.wait([workers])

    async def _resync_for_ever(self) -> None:
        while True:
            await asyncio.sleep(self._parts.resync)
            for client, informer in (*self._parts.entities, self._parts.primary):
                try:
                    await informer.refresh(client)
                except WindlassError as error:
                    self._log.warning("cannot list, tried again with the next resync", error=str(error))
            for item in self._parts.primary[1]:
                self._workers.add(item.key, Operation.PUT)
            await self._collect_garbage()

    async def _collect_garbage(self) -> None:
        try:
            await self._controller.garbage_secondaries()
        except Exception as error:  # noqa: BLE001 - anybody's code; what is not swept now is swept with the next resync
            trace = {} if isinstance(error, WindlassError) else {"exc_info": error}
            self._log.warning("garbage sweep failed", error=str(error), **trace)

    async def _primary_changed(self, notice: Notice) -> None:
        self._workers.add(notice.item.key, notice.operation)

    async def _secondary_changed(self, notice: Notice) -> None:
        for document in notice.documents:
            await self._controller.handle_secondary(document)

    def _begin(self, endless: Coroutine[Any, Any, None], name: str) -> None:
        task = asyncio.create_task(endless, name=f"{self._name}/{name}")
        task.add_done_callback(self._ended)
        self._endless.append(task)

    def _ended(self, endless: asyncio.Task[None]) -> None:
        """Note what should have gone on for ever; the first failure ends the run."""
        error = None if endless.cancelled() else endless.exception()
        if error is not None and self._failure is not None and not self._failure.done():
            self._failure.set_exception(error)

    async def _guarded(self, work: Coroutine[Any, Any, None], stopping: asyncio.Task[None]) -> bool:
        """Await ``work``, but not beyond a stop or the failure of what should go on for ever; say whether it ended.

        Raises:
            WindlassError: what failed.
        """
        failure = self._failure
        task = asyncio.create_task(work)
        try:
            waited = [one for one in (task, stopping, failure) if one is not None]
            await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
            if failure is not None and failure.done():
                failure.result()
            if task.done():
                task.result()
            return task.done()
        finally:
            task.cancel()
            await asyncio.wait([task])

    async def _end(self) -> None:
        for informer in self._parts.watched:
            informer.remove_handler(self._secondary_changed)
        self._parts.primary[1].remove_handler(self._primary_changed)
        try:
            async with asyncio.timeout(FLUSH_SECONDS):
                await self._recorder.flush()
        except TimeoutError:
            self._log.warning("some Events were not sent")
        for task in self._endless:
            task.cancel()
        await asyncio.wait(self._endless)


async def _until(stop: asyncio.Event) -> None:
    await stop.wait()


async def _wait(task: asyncio.Task[None]) -> None:
    await asyncio.shield(task)
