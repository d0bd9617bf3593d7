"""Reads a lifecycle's history as it is written: which steps were begun, done, lost."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from datetime import UTC
from typing import TYPE_CHECKING, Any, Final

from windlass.cli.demo.model import Fact, Mark
from windlass.runtime.history import HOOK, STEPS

if TYPE_CHECKING:
    from temporalio.api.history.v1 import HistoryEvent
    from temporalio.client import Client
    from temporalio.converter import DataConverter

END: Final = "Completed"
"""The step of the fact that ends a life."""

_POLL: Final = 0.1  # seconds between looks for a workflow that does not run yet


class Reader:
    """Translates the events of one run, in order.

    Args:
        converter: decodes summaries; for the workflow whose run it is.
    """

    def __init__(self, converter: DataConverter) -> None:
        self._converter = converter
        self._steps: dict[int, str] = {}

    async def fact(self, event: HistoryEvent) -> Fact | None:
        """Return what an event tells, None if it is not worth a line."""
        if event.HasField("activity_task_scheduled_event_attributes"):
            return await self._scheduled(event)
        if event.HasField("activity_task_completed_event_attributes"):
            done = event.activity_task_completed_event_attributes
            return self._ended(event, done.scheduled_event_id, Mark.DONE, done.identity)
        if event.HasField("activity_task_failed_event_attributes"):
            failed = event.activity_task_failed_event_attributes
            return self._ended(event, failed.scheduled_event_id, Mark.FAILED, failed.identity)
        if event.HasField("activity_task_timed_out_event_attributes"):
            return self._ended(event, event.activity_task_timed_out_event_attributes.scheduled_event_id, Mark.LOST)
        if event.HasField("activity_task_canceled_event_attributes"):
            canceled = event.activity_task_canceled_event_attributes
            return self._ended(event, canceled.scheduled_event_id, Mark.FAILED, canceled.identity)
        if event.HasField("marker_recorded_event_attributes"):
            return self._local(event)
        if event.HasField("workflow_execution_completed_event_attributes"):
            return Fact(
                event=event.event_id,
                scheduled=event.event_id,
                step=END,
                mark=Mark.DONE,
                at=_at(event),
            )
        return None

    async def _scheduled(self, event: HistoryEvent) -> Fact | None:
        scheduled = event.activity_task_scheduled_event_attributes
        step = STEPS.get(scheduled.activity_type.name)
        if step is None:
            return None
        summary = ""
        if event.user_metadata.HasField("summary"):
            [summary] = await self._converter.decode([event.user_metadata.summary], [str])
        if scheduled.activity_type.name == HOOK:
            step, _, summary = summary.partition(": ")
        self._steps[event.event_id] = step
        return Fact(
            event=event.event_id,
            scheduled=event.event_id,
            step=step,
            mark=Mark.RUNNING,
            detail=summary,
            at=_at(event),
        )

    def _ended(self, event: HistoryEvent, scheduled: int, mark: Mark, worker: str = "") -> Fact | None:
        step = self._steps.get(scheduled)
        if step is None:
            return None
        return Fact(event=event.event_id, scheduled=scheduled, step=step, mark=mark, at=_at(event), worker=worker)

    def _local(self, event: HistoryEvent) -> Fact | None:
        """Return what a local activity's marker tells: the SDK writes its facts as plain JSON, without values."""
        marker = event.marker_recorded_event_attributes
        facts: dict[str, Any] = json.loads(marker.details["data"].payloads[0].data) if "data" in marker.details else {}
        step = STEPS.get(str(facts.get("activity_type", "")))
        if step is None:
            return None
        mark = Mark.FAILED if marker.HasField("failure") else Mark.DONE
        # The event is written with the next workflow task, which after a failure may be seconds later.
        ended: dict[str, int] = facts.get("complete_time") or {}
        at = ended["seconds"] + ended["nanos"] / 1e9 if ended else _at(event)
        return Fact(event=event.event_id, scheduled=event.event_id, step=step, mark=mark, at=at)


async def facts(client: Client, workflow_id: str, run_id: str) -> AsyncGenerator[Fact]:
    """Yield the facts of one run until it ends.

    A server that does not answer for a while is asked again, and the events that were
    told already are not told twice.
    """
    from temporalio.service import RPCError

    from windlass.temporal.converter import converter_for

    handle = client.get_workflow_handle(workflow_id, run_id=run_id)
    reader, told = Reader(converter_for(client, workflow_id)), 0
    while True:
        try:
            async for event in handle.fetch_history_events(wait_new_event=True):
                if event.event_id <= told:
                    continue
                told = event.event_id
                fact = await reader.fact(event)
                if fact is not None:
                    yield fact
        except RPCError:
            await asyncio.sleep(_POLL)
        else:
            return


async def is_running(client: Client, workflow_id: str) -> bool:
    """Say whether a workflow of this id runs.

    Raises:
        RPCError: Temporal does not answer.
    """
    from temporalio.client import WorkflowExecutionStatus
    from temporalio.service import RPCError, RPCStatusCode

    try:
        found = await client.get_workflow_handle(workflow_id).describe()
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            return False
        raise
    return found.status is WorkflowExecutionStatus.RUNNING


async def begun(client: Client, workflow_id: str, after: float) -> str:
    """Wait until a life begins after ``after`` (seconds since the epoch) and return its run id."""
    from temporalio.service import RPCError

    while True:
        try:
            found = await client.get_workflow_handle(workflow_id).describe()
        except RPCError:
            found = None  # there never was one, or the server is busy: the caller's deadlines bound both
        if found is not None and found.start_time.timestamp() >= after and found.run_id:
            return found.run_id
        await asyncio.sleep(_POLL)


def _at(event: HistoryEvent) -> float:
    return event.event_time.ToDatetime(tzinfo=UTC).timestamp()
