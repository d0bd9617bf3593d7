"""A worker that loses its Lease under load, and the one after it; prints what became of the steps that ran.

A program of its own: what the SDK's core has to say of it goes to stdout and stderr, some of it from other threads.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from contextlib import suppress
from datetime import timedelta
from uuid import uuid4

from temporalio import activity, workflow
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client, WorkflowHandle
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from support.waiting import eventually

with workflow.unsafe.imports_passed_through():
    from temporalio.exceptions import FailureError

    from windlass.activities.heartbeat import heartbeating
    from windlass.domain.errors import Reason, TransientError
    from windlass.temporal.failures import failure_of
    from windlass.temporal.interceptors import FailureInterceptor
    from windlass.worker.app import run_fenced
    from windlass.worker.fence import Fence
    from windlass.worker.shards import Notice
    from windlass.workflows._options import DRIFT_CHECK, QUICK

BUSY = 30
STEPS = 10


class Activities:
    """What one worker does; ``begun`` counts its remote steps, ``tried`` its local activities."""

    def __init__(self) -> None:
        self.begun = 0
        self.tried = 0
        self.release = asyncio.Event()

    @activity.defn
    async def quick(self) -> None:
        """Fail once, then take a moment."""
        self.tried += 1
        if activity.info().attempt == 1:
            raise TransientError(Reason.API_UNAVAILABLE, "a blip")
        await asyncio.sleep(0.2)

    @activity.defn
    async def step(self) -> None:
        """Wait until the test lets it go."""
        self.begun += 1
        async with heartbeating():
            await self.release.wait()


@workflow.defn
class Busy:
    """Local activities, one after the other."""

    @workflow.run
    async def run(self) -> None:
        """Go on until terminated."""
        while True:
            with suppress(FailureError):
                await workflow.execute_local_activity_method(Activities.quick, **QUICK)
            await workflow.sleep(0.1)


@workflow.defn
class Stepping:
    """One remote step, tried again until it ends well."""

    @workflow.run
    async def run(self) -> list[str]:
        """Return the reasons of its failures."""
        reasons: list[str] = []
        while True:
            try:
                await workflow.execute_activity_method(Activities.step, **DRIFT_CHECK)
            except FailureError as error:
                reasons.append(failure_of(error).reason.value)
            else:
                return reasons


def serve(client: Client, queue: str, doing: Activities) -> asyncio.Task[None]:
    """Serve ``queue`` as a shard is served; cancelling the task is losing the Lease."""
    fence = Fence()
    worker = Worker(
        client,
        task_queue=queue,
        workflows=[Busy, Stepping],
        activities=[doing.quick, doing.step],
        interceptors=[fence, FailureInterceptor()],
        workflow_runner=UnsandboxedWorkflowRunner(),
        max_heartbeat_throttle_interval=timedelta(seconds=1),
        default_heartbeat_throttle_interval=timedelta(seconds=1),
        graceful_shutdown_timeout=timedelta(seconds=5),
    )
    return asyncio.create_task(run_fenced((worker,), fence, Notice()))


async def main(address: str) -> None:
    """Lose a shard, serve it anew, and print how the steps have failed meanwhile."""
    client = await Client.connect(address, data_converter=pydantic_data_converter)
    queue = f"fence-{uuid4()}"
    first, second = Activities(), Activities()
    serving = serve(client, queue, first)
    handles: list[WorkflowHandle[Busy, None]] = [
        await client.start_workflow(Busy.run, id=f"{queue}/busy-{number}", task_queue=queue) for number in range(BUSY)
    ]
    steps = [
        await client.start_workflow(Stepping.run, id=f"{queue}/step-{number}", task_queue=queue)
        for number in range(STEPS)
    ]
    await eventually(lambda: first.begun == STEPS and first.tried > 2 * BUSY)
    serving.cancel()
    await asyncio.gather(serving, return_exceptions=True)
    # What the core still holds of the lost worker fires when the time of its local activities is up.
    ends = asyncio.get_running_loop().time() + QUICK["schedule_to_close_timeout"].total_seconds() + 1
    serving = serve(client, queue, second)
    await eventually(lambda: second.begun == STEPS)
    second.release.set()
    reasons = [await step.result() for step in steps]
    timed_out = 0
    for step in steps:
        async for event in step.fetch_history_events():
            timed_out += event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_TIMED_OUT
    await asyncio.sleep(ends - asyncio.get_running_loop().time())
    for handle in handles:
        await handle.terminate()
    sys.stdout.write(json.dumps({"reasons": reasons, "timed out": timed_out}) + "\n")
    sys.stdout.flush()
    os._exit(0)  # the end of the interpreter is another matter


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
