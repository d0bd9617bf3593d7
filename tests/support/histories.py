"""What a lifecycle cost, counted from its history."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent

_LOCAL_ACTIVITY: Final = "core_local_activity"
HOOK: Final = "hook.run"
STATUS: Final = "status.write"


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Commands, events and bytes of one stretch of history.

    Attributes:
        remote: remote activities by type, hooks among them.
        local: local activities by type, status writes among them.
        upserts: search attribute upserts.
        failed_tasks: workflow tasks that failed or timed out.
        events: how many.
        size: bytes of the events as they are stored.
    """

    remote: Counter[str]
    local: Counter[str]
    upserts: int
    failed_tasks: int
    events: int
    size: int

    @property
    def beside_hooks(self) -> int:
        """Remote activities that are not hooks."""
        return self.remote.total() - self.remote[HOOK]

    @property
    def status_writes(self) -> int:
        """How often status was written."""
        return self.local[STATUS]

    @property
    def local_steps(self) -> int:
        """Local activities that are not status writes."""
        return self.local.total() - self.status_writes


def cost(events: Sequence[HistoryEvent]) -> Cost:
    """Count what ``events`` hold."""
    return Cost(
        remote=Counter(
            event.activity_task_scheduled_event_attributes.activity_type.name
            for event in events
            if event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED
        ),
        local=Counter(_local_activity(event) for event in events if _is_local_activity(event)),
        upserts=sum(event.event_type == EventType.EVENT_TYPE_UPSERT_WORKFLOW_SEARCH_ATTRIBUTES for event in events),
        failed_tasks=sum(
            event.event_type
            in {EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED, EventType.EVENT_TYPE_WORKFLOW_TASK_TIMED_OUT}
            for event in events
        ),
        events=len(events),
        size=sum(event.ByteSize() for event in events),
    )


def _is_local_activity(event: HistoryEvent) -> bool:
    return (
        event.event_type == EventType.EVENT_TYPE_MARKER_RECORDED
        and event.marker_recorded_event_attributes.marker_name == _LOCAL_ACTIVITY
    )


def _local_activity(event: HistoryEvent) -> str:
    # The marker's data is the SDK core's own and not under the codec.
    data = event.marker_recorded_event_attributes.details["data"].payloads[0].data
    return str(json.loads(data)["activity_type"])
