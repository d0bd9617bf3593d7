"""A package's lifecycle under a virtual clock: no server, no waiting.

    life = VirtualLife()
    life.changed()          # as the watcher says it
    life.advance(3600)      # an hour passes; timers fire at their times
    life.spent              # what it cost: workflow tasks, activities, timers

The workflow is the real one, in the SDK's own workflow instance; what the SDK's core and the server do between two
workflow tasks is done here: timers fire in their order, activities of `FakeWorld` are called, time-outs are told. The
embedded Temporal server cannot skip time (its server version does not know how), and Java's test server is one more
runtime.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import temporalio.common
import temporalio.workflow
from temporalio.api.common.v1 import Payload, Payloads
from temporalio.api.enums.v1 import TimeoutType
from temporalio.api.failure.v1 import Failure
from temporalio.bridge.proto.workflow_activation import WorkflowActivation, WorkflowActivationJob
from temporalio.bridge.proto.workflow_commands import WorkflowCommand
from temporalio.contrib.pydantic import PydanticPayloadConverter
from temporalio.converter import DefaultFailureConverter
from temporalio.testing import ActivityEnvironment
from temporalio.worker import UnsandboxedWorkflowRunner, WorkflowInstance, WorkflowInstanceDetails
from workflows.world import FakeWorld

from windlass.contracts.lifecycle import (
    DESIRED_CHANGED,
    HOOK_EVENTS,
    RELEASE_DRIFTED,
    Action,
    ActionResult,
    DesiredChanged,
    DumpView,
    HookEvents,
    LifecycleInput,
    LifecycleState,
    Limits,
    ReleaseDrifted,
)
from windlass.domain.ids import PackageKey, package_workflow_id
from windlass.temporal.failures import failure_of, to_application_error, to_error
from windlass.workflows.package import PackageLifecycleWorkflow

BEGIN: Final = 1_800_000_000.0
HEARTBEAT: Final = 4.0
"""Virtual seconds until the loss of a worker is noticed."""

LATENCY: Final = 0.002
"""Virtual seconds from a timer's time to the workflow task that tells of it."""

CONVERTER: Final = PydanticPayloadConverter()
KEY: Final = PackageKey(installation="virtual", namespace="prod", name="web")


class LoopError(AssertionError):
    """The lifecycle goes on and on at one moment of virtual time."""


@dataclass
class VirtualLife:
    """One package and its lifecycle; `spent` counts what would be in its history."""

    world: FakeWorld = field(default_factory=FakeWorld)
    state: LifecycleState | None = None
    limits: Limits = field(default_factory=Limits)
    losing: set[str] = field(default_factory=set[str])
    """Remote activities of these types lose their worker."""
    waiting: bool = False
    """Whether the lost ones had said that they waited for their turn."""
    now: float = BEGIN
    spent: Counter[str] = field(default_factory=Counter[str])
    runs: int = 0
    ended: bool = False

    def __post_init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._timers: dict[int, float] = {}
        self._resolutions: list[tuple[float, WorkflowActivationJob]] = []
        self._updates: dict[str, Any] = {}
        self._instance: WorkflowInstance | None = None
        self._before = 0

    def close(self) -> None:
        """Let go of the loop that activities run in."""
        self._loop.close()

    # -- what tests do -------------------------------------------------------------------------------------------------

    def changed(self) -> None:
        """Tell that the object is new or has changed; begins the lifecycle."""
        if self._instance is None:
            self._begin(LifecycleInput(key=KEY, limits=self.limits, state=self.state))
        self._signal(DESIRED_CHANGED, DesiredChanged())

    def drifted(self, message: ReleaseDrifted) -> None:
        """Tell of drift."""
        self._signal(RELEASE_DRIFTED, message)

    def tell_hooks(self, events: HookEvents) -> None:
        """Tell that something waits for event hooks."""
        job = WorkflowActivationJob()
        job.do_update.id = job.do_update.protocol_instance_id = f"events-{self.spent.total()}"
        job.do_update.name = HOOK_EVENTS
        job.do_update.input.append(_payload(events))
        job.do_update.run_validator = True
        job.do_update.meta.update_id = job.do_update.id
        self._activate(job)
        self.settle()

    def action(self, name: str, action: Action) -> ActionResult:
        """Request an action; return its answer."""
        job = WorkflowActivationJob()
        job.do_update.id = job.do_update.protocol_instance_id = f"{name}-{self.spent.total()}"
        job.do_update.name = name
        job.do_update.input.append(_payload(action))
        job.do_update.run_validator = True
        job.do_update.meta.update_id = job.do_update.id
        self._activate(job)
        self.settle()
        return self._updates[job.do_update.id]

    def dump(self) -> DumpView:
        """Ask for the carried state; costs nothing."""
        job = WorkflowActivationJob()
        job.query_workflow.query_id = "q"
        job.query_workflow.query_type = "dump"
        (command,) = self._completed(job)
        return CONVERTER.from_payloads([command.respond_to_query.succeeded.response], [DumpView])[0]

    def hold(self) -> str:
        """Return why nothing is done, as the last write of status has it."""
        return self.world.statuses[-1].status.step or ""

    def advance(self, seconds: float) -> Counter[str]:
        """Let virtual time pass; return what it cost."""
        before, end = Counter(self.spent), self.now + seconds
        self.settle()
        while True:
            times = [*self._timers.values(), *(at for at, _ in self._resolutions)]
            if not times or min(times) > end:
                break
            self.now = max(self.now, min(times)) + LATENCY
            self.settle()
        self.now = end
        return self.spent - before

    def settle(self) -> None:
        """Do all that is due now."""
        for _ in range(500):
            due = [job for at, job in self._resolutions if at <= self.now]
            self._resolutions = [(at, job) for at, job in self._resolutions if at > self.now]
            for seq in [seq for seq, at in self._timers.items() if at <= self.now]:
                del self._timers[seq]
                job = WorkflowActivationJob()
                job.fire_timer.seq = seq
                due.append(job)
            if not due or self.ended:
                return
            self._activate(*due)
        raise LoopError(f"no rest at {self.now}: {self.spent}")

    # -- what the server and the SDK's core do -------------------------------------------------------------------------

    def _begin(self, start: LifecycleInput) -> None:
        self.runs += 1
        self._before = self.spent.total()
        self._timers, self._resolutions = {}, []
        self._instance = self._loop.run_until_complete(_instance(_details(self._at(), self.runs)))
        job = WorkflowActivationJob()
        job.initialize_workflow.workflow_type = "PackageLifecycle"
        job.initialize_workflow.workflow_id = package_workflow_id(KEY)
        job.initialize_workflow.arguments.append(_payload(start))
        job.initialize_workflow.randomness_seed = self.runs
        self._activate(job)

    def _signal(self, name: str, message: object) -> None:
        job = WorkflowActivationJob()
        job.signal_workflow.signal_name = name
        job.signal_workflow.input.append(_payload(message))
        self._activate(job)
        self.settle()

    def _activate(self, *jobs: WorkflowActivationJob) -> None:
        self.spent["tasks"] += 1
        for command in self._completed(*jobs):
            self._obey(command)

    def _completed(self, *jobs: WorkflowActivationJob) -> list[WorkflowCommand]:
        assert self._instance is not None
        activation = WorkflowActivation(
            run_id=f"run-{self.runs}", jobs=jobs, history_length=self.spent.total() - self._before, is_replaying=False
        )
        activation.timestamp.FromDatetime(self._at())
        completion = self._instance.activate(activation)
        assert not completion.HasField("failed"), completion.failed
        return list(completion.successful.commands)

    def _obey(self, command: WorkflowCommand) -> None:
        kind = command.WhichOneof("variant")
        match kind:
            case "start_timer":
                wait = command.start_timer.start_to_fire_timeout.ToTimedelta()
                self._timers[command.start_timer.seq] = self.now + wait.total_seconds()
                self.spent["timers"] += 1
            case "cancel_timer":
                self._timers.pop(command.cancel_timer.seq, None)
            case "schedule_activity":
                scheduled = command.schedule_activity
                self.spent[scheduled.activity_type] += 1
                self._perform(scheduled.seq, scheduled.activity_type, list(scheduled.arguments), local=False)
            case "schedule_local_activity":
                local = command.schedule_local_activity
                self.spent[local.activity_type] += 1
                self._perform(local.seq, local.activity_type, list(local.arguments), local=True)
            case "update_response":
                response = command.update_response
                if response.HasField("completed") and not response.protocol_instance_id.startswith("events-"):
                    (answer,) = CONVERTER.from_payloads([response.completed], [ActionResult])
                    self._updates[response.protocol_instance_id] = answer
            case "continue_as_new_workflow_execution":
                (start,) = CONVERTER.from_payloads(
                    list(command.continue_as_new_workflow_execution.arguments), [LifecycleInput]
                )
                self._begin(start)
            case "complete_workflow_execution":
                self.ended = True
            case _:
                assert kind != "fail_workflow_execution", command
                self.spent[str(kind)] += 1

    def _perform(self, seq: int, name: str, arguments: list[Payload], *, local: bool) -> None:
        job = WorkflowActivationJob()
        job.resolve_activity.seq, job.resolve_activity.is_local = seq, local
        result = job.resolve_activity.result
        if name in self.losing and not local:
            failure = Failure(message="activity Heartbeat timeout")
            failure.timeout_failure_info.timeout_type = TimeoutType.TIMEOUT_TYPE_HEARTBEAT
            if self.waiting:
                details = Payloads(payloads=[_payload("applying"), _payload("waits for its turn")])
                failure.timeout_failure_info.last_heartbeat_details.CopyFrom(details)
            result.failed.failure.CopyFrom(_of_activity(name, failure))
            self._resolutions.append((self.now + HEARTBEAT, job))
            return
        method = next(one for one in self.world.activities if _name(one) == name)
        request = CONVERTER.from_payloads(arguments, [_request(method)])
        environment = ActivityEnvironment()
        environment.info = replace(environment.info, activity_type=name, is_local=local)
        try:
            answer = self._loop.run_until_complete(environment.run(method, *request))
        except Exception as error:  # noqa: BLE001 - as the production interceptor does it
            raised = to_application_error(to_error(failure_of(error, step=name)))
            failure = Failure()
            DefaultFailureConverter().to_failure(raised, CONVERTER, failure)
            result.failed.failure.CopyFrom(failure if local else _of_activity(name, failure))
        else:
            result.completed.result.CopyFrom(_payload(answer))
        self._resolutions.append((self.now, job))

    def _at(self) -> datetime:
        return datetime.fromtimestamp(self.now, UTC)


async def _instance(details: WorkflowInstanceDetails) -> WorkflowInstance:
    # It wants a running loop while it is made, and brings its own for when it runs.
    return UnsandboxedWorkflowRunner().create_instance(details)


def _details(at: datetime, run: int) -> WorkflowInstanceDetails:
    info = temporalio.workflow.Info(
        attempt=1,
        continued_run_id=None,
        cron_schedule=None,
        execution_timeout=None,
        first_execution_run_id="run-1",
        headers={},
        namespace="default",
        original_execution_run_id=f"run-{run}",
        parent=None,
        root=None,
        raw_memo={},
        retry_policy=None,
        run_id=f"run-{run}",
        run_timeout=None,
        search_attributes={},
        start_time=at,
        workflow_start_time=at,
        task_queue="virtual",
        task_timeout=timedelta(seconds=5),
        typed_search_attributes=temporalio.common.TypedSearchAttributes.empty,
        workflow_id=package_workflow_id(KEY),
        workflow_type="PackageLifecycle",
        priority=temporalio.common.Priority.default,
    )
    return WorkflowInstanceDetails(
        payload_converter_factory=PydanticPayloadConverter,
        failure_converter_class=DefaultFailureConverter,
        interceptor_classes=[],
        defn=temporalio.workflow._Definition.must_from_class(PackageLifecycleWorkflow),
        info=info,
        randomness_seed=run,
        extern_functions={
            "__temporal_get_metric_meter": lambda: temporalio.common.MetricMeter.noop,
            "__temporal_assert_local_activity_valid": lambda _name: None,
        },
        disable_eager_activity_execution=False,
        worker_level_failure_exception_types=[],
        patch_activation_callback=None,
        last_completion_result=Payloads(),
        last_failure=None,
    )


def _payload(value: object) -> Payload:
    return CONVERTER.to_payloads([value])[0]


def _of_activity(name: str, cause: Failure) -> Failure:
    failure = Failure(message="activity error")
    failure.activity_failure_info.activity_type.name = name
    failure.cause.CopyFrom(cause)
    return failure


def _definition(method: Any) -> Any:
    return getattr(method, "__temporal_activity_definition")


def _name(method: Any) -> str:
    return _definition(method).name


def _request(method: Any) -> type:
    (request,) = _definition(method).arg_types
    return request
