"""A workflow that begins many activities of Helm's kind at once."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from temporalio import workflow


@workflow.defn
class Releases:
    """Waits for so many releases on a task queue."""

    @workflow.run
    async def run(self, queue: str, count: int) -> None:
        await asyncio.gather(
            *(
                workflow.execute_activity(
                    "release", task_queue=queue, start_to_close_timeout=timedelta(seconds=60), summary=str(number)
                )
                for number in range(count)
            )
        )
