"""One package under test: its lifecycle on the embedded Temporal server, over a world in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from uuid import uuid4

from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client, WorkflowExecutionStatus, WorkflowHandle
from temporalio.worker import Worker, WorkflowRunner
from workflows.world import FakeWorld

from support.waiting import PATIENCE, eventually
from windlass.contracts.lifecycle import Action, Limits, StatusView
from windlass.contracts.objects import SeenStatus
from windlass.domain.ids import PackageKey, helm_queue, package_workflow_id, package_workflow_prefix, task_queue
from windlass.runtime.packages import PackageLifecycles
from windlass.temporal.interceptors import FailureInterceptor, LogContextInterceptor
from windlass.worker.sandbox import workflow_runner
from windlass.workflows.package import PackageLifecycleWorkflow

ACTION = Action(who="ada", why="a test")


@dataclass
class Life:
    """One package of an installation of its own; its lifecycle is started by the first `changed`."""

    client: Client
    world: FakeWorld
    limits: Limits = field(default_factory=Limits)
    installation: str = field(default_factory=lambda: f"t-{uuid4().hex[:8]}")

    @property
    def key(self) -> PackageKey:
        return PackageKey(installation=self.installation, namespace="prod", name="web")

    @property
    def lifecycles(self) -> PackageLifecycles:
        return PackageLifecycles(self.client, installation=self.installation, limits=self.limits)

    @property
    def handle(self) -> WorkflowHandle[PackageLifecycleWorkflow, None]:
        return self.client.get_workflow_handle_for(PackageLifecycleWorkflow.run, package_workflow_id(self.key))

    @asynccontextmanager
    async def worker(self, runner: WorkflowRunner | None = None) -> AsyncGenerator[None]:
        """Workers as the composition root makes them, over the fake activities; ``runner`` instead of the sandbox."""
        shard = task_queue(self.installation, 0)
        async with self._worker(shard, [PackageLifecycleWorkflow], runner), self._worker(helm_queue(shard), [], runner):
            yield

    def _worker(self, queue: str, workflows: list[type], runner: WorkflowRunner | None) -> Worker:
        return Worker(
            self.client,
            task_queue=queue,
            workflows=workflows,
            activities=self.world.activities,
            workflow_runner=runner or workflow_runner(),
            interceptors=[FailureInterceptor(), LogContextInterceptor(package_workflow_prefix(self.installation))],
            max_heartbeat_throttle_interval=timedelta(milliseconds=100),
            default_heartbeat_throttle_interval=timedelta(milliseconds=100),
            sticky_queue_schedule_to_start_timeout=timedelta(seconds=2),
            # A call that fell silent is not waited for.
            graceful_shutdown_timeout=timedelta(0),
        )

    async def changed(self) -> None:
        """Tell the lifecycle that the object is new or has changed, as the watcher does."""
        await self.lifecycles.desired_changed(self.key, SeenStatus())

    async def change(self, **fields: object) -> None:
        """Change the object, and tell."""
        self.world.change(**fields)
        await self.changed()

    async def status(self) -> StatusView:
        return await self.lifecycles.status(self.key)

    async def rests(self, hold: str = "Idle", *, deadline: float = PATIENCE) -> StatusView:
        """Wait until the lifecycle waits for ``hold``, having taken notice of the newest object, and has said so."""

        def told() -> bool:
            newest = self.world.statuses[-1].status if self.world.statuses else None
            generation = self.world.desired.generation
            return newest is not None and (newest.step, newest.observed_generation) == (hold, generation)

        async def resting() -> StatusView | None:
            # A question to a run that has not begun yet may never be answered: the next one is.
            async with asyncio.timeout(2):
                status = await self.status()
            return status if status.hold == hold else None

        await eventually(told, deadline, what=f"status says {hold}")
        return await eventually(resting, deadline, what=f"the lifecycle rests: {hold}")

    async def ended(self, *, deadline: float = PATIENCE) -> WorkflowExecutionStatus:
        """Wait until the lifecycle has come to its end; say which."""

        async def closed() -> WorkflowExecutionStatus | None:
            status = (await self.handle.describe()).status
            return status if status is not WorkflowExecutionStatus.RUNNING else None

        return await eventually(closed, deadline, what="the lifecycle ends")

    async def events(self) -> list[HistoryEvent]:
        return list((await self.handle.fetch_history()).events)
