"""What Temporal still knows of a package's life: steps, signals, actions, over all runs that retention has left."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest
from temporalio.service import RPCError, RPCStatusCode

from windlass.contracts.lifecycle import HOOK_EVENTS, Action, ActionResult
from windlass.contracts.steps import EventsResult
from windlass.domain.errors import PermanentError, Reason, TransientError
from windlass.domain.ids import PackageKey, package_workflow_id
from windlass.temporal.converter import converter_for
from windlass.temporal.failures import failure_of

if TYPE_CHECKING:
    from temporalio.api.common.v1 import Payload
    from temporalio.api.failure.v1 import Failure
    from temporalio.api.history.v1 import HistoryEvent, MarkerRecordedEventAttributes
    from temporalio.client import Client
    from temporalio.converter import DataConverter

STEPS: Final[Mapping[str, str]] = {
    "package.add_finalizer": "AddFinalizer",
    "package.download": "Download",
    "package.install": "Install",
    "package.place": "Place",
    "package.load": "Load",
    "package.apply_settings": "ApplySettings",
    "hook.watch": "Watch",
    "hook.unwatch": "Unwatch",
    "hook.run": "Hook",
    "hook.run_events": "EventHooks",
    "helm.upgrade_release": "UpgradeRelease",
    "helm.uninstall_release": "UninstallRelease",
    "drift.check": "CheckDrift",
    "package.clean_up": "CleanUp",
    "package.release_finalizer": "ReleaseFinalizer",
}
"""Activities of a package's lifecycle that are worth a line, and the step each performs."""

QUIET: Final = frozenset({"package.observe", "status.write", "hook.hold"})
"""The others: looks, status writes, and what the action pause brings with it."""

HOOK: Final = "hook.run"
EVENT_HOOKS: Final = "hook.run_events"


class MomentKind(StrEnum):
    """What sort of thing happened."""

    RUN = "run"
    """A run of the workflow began or ended."""
    STEP = "step"
    SIGNAL = "signal"
    ACTION = "action"


class Outcome(StrEnum):
    """What became of it."""

    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"
    LOST = "lost"
    """Whoever did it did not answer any more."""
    REFUSED = "refused"


_ENDS: Final[Mapping[str, tuple[str, Outcome]]] = {
    "workflow_execution_completed": ("the lifecycle ends", Outcome.DONE),
    "workflow_execution_canceled": ("the lifecycle is cancelled", Outcome.CANCELLED),
    "workflow_execution_timed_out": ("the lifecycle times out", Outcome.LOST),
}


@dataclass(frozen=True, kw_only=True)
class Moment:
    """One thing that happened.

    Attributes:
        at: when it began, by Temporal's clock.
        kind: see `MomentKind`.
        what: the step, signal or action; what the run did.
        outcome: None where nothing can become of it.
        took: seconds from schedule to end; None for local steps, which are not timed, and for what is no step.
        who: who requested it, or the process that did it.
        detail: the reason of an action, a step's subject, or what it failed of.
        attempts: how often the server had it tried.
        run_id: of the workflow.
    """

    at: datetime
    kind: MomentKind
    what: str
    outcome: Outcome | None = None
    took: float | None = None
    who: str = ""
    detail: str = ""
    attempts: int = 1
    run_id: str = ""


@dataclass(frozen=True, kw_only=True)
class Chronicle:
    """What Temporal knows.

    Attributes:
        moments: oldest first.
        complete: whether nothing is missing: the oldest run known is its life's first, or no older ones were
            asked for.
        since: when the oldest run that is known began; None if there is none.
        retention: how long Temporal keeps runs that have ended; None if it did not say.
    """

    moments: tuple[Moment, ...]
    complete: bool
    since: datetime | None = None
    retention: timedelta | None = None


async def chronicle(client: Client, key: PackageKey, *, oldest: datetime | None = None) -> Chronicle:
    """Read what Temporal knows of a package's lives.

    Args:
        client: its data converter decodes summaries, actions and failures.
        key: the package.
        oldest: runs that ended before it are not read.

    Raises:
        TransientError: API_UNAVAILABLE, Temporal does not answer.
    """
    try:
        return await _read(client, key, oldest)
    except RPCError as error:
        raise TransientError(
            Reason.API_UNAVAILABLE,
            f"Temporal answers {error.status.name} for the history of {key.package_id}",
            hint="it may be starting or overloaded; look at its log",
        ) from error


async def _read(client: Client, key: PackageKey, oldest: datetime | None) -> Chronicle:
    workflow_id = package_workflow_id(key)
    found = {run.run_id: run async for run in client.list_workflows(f"WorkflowId = '{workflow_id}'")}
    kept = [run for run in found.values() if oldest is None or run.close_time is None or run.close_time >= oldest]
    moments: list[Moment] = []
    before = ""  # the run that the oldest one took over from
    since: datetime | None = None
    for run in sorted(kept, key=lambda one: one.start_time, reverse=True):
        reader = RunReader(converter_for(client, workflow_id), run.run_id)
        try:
            async for event in client.get_workflow_handle(workflow_id, run_id=run.run_id).fetch_history_events():
                await reader.take(event)
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise
            continue  # visibility still lists a run whose retention has ended
        moments += reader.moments
        before, since = reader.before, run.start_time
    ordered = tuple(sorted(moments, key=lambda one: one.at))
    asked = len(kept) < len(found) or (oldest is not None and since is not None and since <= oldest)
    complete = asked or (bool(ordered) and not before)
    return Chronicle(moments=ordered, complete=complete, since=since, retention=await _retention(client))


async def _retention(client: Client) -> timedelta | None:
    request = DescribeNamespaceRequest(namespace=client.namespace)
    answer = await client.workflow_service.describe_namespace(request)
    ttl = answer.config.workflow_execution_retention_ttl
    return ttl.ToTimedelta() if answer.config.HasField("workflow_execution_retention_ttl") else None


class RunReader:
    """Translates the events of one run, in order.

    Args:
        converter: decodes what is encrypted; for the workflow whose run it is.
        run_id: of the run.
    """

    def __init__(self, converter: DataConverter, run_id: str) -> None:
        self.before = ""
        """Id of the run that this one took over from; empty if it is the first of its life."""
        self._converter = converter
        self._run_id = run_id
        self._moments: dict[int, Moment] = {}

    @property
    def moments(self) -> Sequence[Moment]:
        """What was told so far, in the order in which it began."""
        return list(self._moments.values())

    async def take(self, event: HistoryEvent) -> None:
        """Take one event in; what is not worth a line changes nothing."""
        kind = event.WhichOneof("attributes") or ""
        fields: Any = getattr(event, kind, None)
        match kind := kind.removesuffix("_event_attributes"):
            case "workflow_execution_started":
                self.before = fields.continued_execution_run_id
                what = "a new run goes on" if self.before else "the lifecycle begins"
                self._add(event, MomentKind.RUN, what, who=fields.identity)
            case "workflow_execution_terminated":
                text = fields.reason or "no reason given"
                self._add(event, MomentKind.RUN, "terminated", Outcome.LOST, who=fields.identity, detail=text)
            case "workflow_execution_failed":
                detail = await self._why(fields.failure)
                self._add(event, MomentKind.RUN, "the lifecycle fails", Outcome.FAILED, detail=detail)
            case "workflow_execution_signaled":
                self._add(event, MomentKind.SIGNAL, fields.signal_name, who=fields.identity)
            case "workflow_execution_update_accepted":
                await self._ordered(event, fields.accepted_request.input)
            case "workflow_execution_update_completed":
                await self._answered(fields)
            case "activity_task_scheduled":
                await self._scheduled(event)
            case "activity_task_started":
                self._change(fields.scheduled_event_id, attempts=max(fields.attempt, 1), who=fields.identity)
            case "activity_task_completed":
                self._end(event, fields.scheduled_event_id, Outcome.DONE)
            case "activity_task_failed":
                self._end(event, fields.scheduled_event_id, Outcome.FAILED, await self._why(fields.failure))
            case "activity_task_timed_out":
                self._end(event, fields.scheduled_event_id, Outcome.LOST, "its worker did not answer in time")
            case "activity_task_canceled":
                self._end(event, fields.scheduled_event_id, Outcome.CANCELLED)
            case "marker_recorded":
                await self._local(event)
            case _ if kind in _ENDS:
                self._add(event, MomentKind.RUN, *_ENDS[kind])
            case _:
                pass

    def _add(
        self,
        event: HistoryEvent,
        kind: MomentKind,
        what: str,
        outcome: Outcome | None = None,
        *,
        at: datetime | None = None,
        who: str = "",
        detail: str = "",
    ) -> None:
        at = at or event.event_time.ToDatetime(tzinfo=UTC)
        made = Moment(at=at, kind=kind, what=what, outcome=outcome, who=who, detail=detail, run_id=self._run_id)
        self._moments[event.event_id] = made

    def _change(self, event_id: int, **changes: Any) -> None:
        if event_id in self._moments:
            self._moments[event_id] = replace(self._moments[event_id], **changes)

    def _end(self, event: HistoryEvent, scheduled: int, outcome: Outcome, why: str = "") -> None:
        began = self._moments.get(scheduled)
        if began is not None:
            took = (event.event_time.ToDatetime(tzinfo=UTC) - began.at).total_seconds()
            self._change(scheduled, outcome=outcome, took=took, detail=why or began.detail)

    async def _scheduled(self, event: HistoryEvent) -> None:
        type_ = event.activity_task_scheduled_event_attributes.activity_type.name
        if type_ not in STEPS:
            return
        step, detail = STEPS[type_], ""
        if event.user_metadata.HasField("summary"):
            detail = (await self._decoded(event.user_metadata.summary, str)) or ""
        if type_ == HOOK:
            step, _, detail = detail.partition(": ")
        self._add(event, MomentKind.STEP, step, Outcome.RUNNING, detail=detail)

    async def _local(self, event: HistoryEvent) -> None:
        """Take in a local activity's marker: the SDK writes its facts as plain JSON, without values."""
        marker = event.marker_recorded_event_attributes
        facts: dict[str, Any] = json.loads(marker.details["data"].payloads[0].data) if "data" in marker.details else {}
        type_ = str(facts.get("activity_type", ""))
        step = STEPS.get(type_)
        if step is None or (type_ == EVENT_HOOKS and await self._goes_on(marker)):
            return
        failed = marker.HasField("failure")
        # The event is written with the next workflow task, which after a failure may be seconds later.
        ended: dict[str, int] = facts.get("complete_time") or {}
        at = datetime.fromtimestamp(ended["seconds"] + ended["nanos"] / 1e9, UTC) if ended else None
        outcome = Outcome.FAILED if failed else Outcome.DONE
        detail = await self._why(marker.failure) if failed else ""
        if not failed and event.user_metadata.HasField("summary"):
            detail = (await self._decoded(event.user_metadata.summary, str)) or ""
        self._add(event, MomentKind.STEP, step, outcome, at=at, detail=detail)

    async def _goes_on(self, marker: MarkerRecordedEventAttributes) -> bool:
        """Say whether a run only began in this local activity: the remote one tells of it."""
        if "result" not in marker.details:
            return False
        result = await self._decoded(marker.details["result"].payloads[0], EventsResult)
        return isinstance(result, EventsResult) and result.pending

    async def _ordered(self, event: HistoryEvent, request: Any) -> None:
        if request.name == HOOK_EVENTS:  # an update, and nobody's action
            self._add(event, MomentKind.SIGNAL, request.name)
            return
        action = await self._decoded(request.args.payloads[0], Action) if request.args.payloads else None
        who, why = (action.who, action.why) if isinstance(action, Action) else ("", "")
        self._add(event, MomentKind.ACTION, request.name, Outcome.DONE, who=who, detail=why)

    async def _answered(self, fields: Any) -> None:
        asked = self._moments.get(fields.accepted_event_id)
        if asked is None or asked.kind is not MomentKind.ACTION:
            return
        result = fields.outcome.success.payloads
        answer = await self._decoded(result[0], ActionResult) if result else None
        refused = isinstance(answer, ActionResult) and not answer.accepted
        if refused or fields.outcome.HasField("failure"):
            self._change(fields.accepted_event_id, outcome=Outcome.REFUSED)

    async def _decoded[V](self, payload: Payload, type_: type[V]) -> V | None:
        """Return what ``payload`` holds; None for what somebody else has written into this history."""
        try:
            [value] = await self._converter.decode([payload], [type_])
        except PermanentError:
            return None
        return value

    async def _why(self, failure: Failure) -> str:
        try:
            details = failure_of(await self._converter.decode_failure(failure))
        except PermanentError as error:
            return f"{error.reason.value}: {error.message}"
        return f"{details.reason.value}: {details.message}"
