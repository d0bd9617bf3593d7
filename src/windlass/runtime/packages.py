"""Package lifecycles as their users see them: signal, act, ask. CLI, web and watcher speak through this."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any, Final

from temporalio.api.workflowservice.v1 import ListWorkflowExecutionsRequest
from temporalio.client import (
    Client,
    WorkflowHandle,
    WorkflowUpdateFailedError,
    WorkflowUpdateRPCTimeoutOrCancelledError,
)
from temporalio.common import SearchAttributePair, TypedSearchAttributes
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode

from windlass.contracts.lifecycle import (
    DESIRED_CHANGED,
    Action,
    ActionResult,
    AdoptAction,
    DesiredChanged,
    DumpView,
    HookEvents,
    LifecycleInput,
    Limits,
    Pool,
    Quarantined,
    QueuesView,
    ReleaseDrifted,
    RollbackAction,
    StatusView,
)
from windlass.contracts.objects import SeenStatus
from windlass.domain.errors import Actor, PermanentError, Reason, TransientError
from windlass.domain.ids import (
    PackageKey,
    package_workflow_id,
    package_workflow_prefix,
    shard_of,
    task_queue,
)
from windlass.temporal import search_attributes
from windlass.workflows.package import PackageLifecycleWorkflow

RPC_TIMEOUT: Final = timedelta(seconds=10)
_PAGE: Final = 1000
"""Workflows in one answer of a listing; the most that Temporal gives."""

TASK_TIMEOUT: Final = timedelta(seconds=5)
"""Workflow task timeout: how long a task of a killed worker stays lost (design section 7)."""


class PackageLifecycles:
    """The package lifecycles of one installation.

    Args:
        client: a connected Temporal client with the installation's data converter.
        installation: the installation id.
        shards: how many shards packages hash onto; the same in every process of an installation.
        limits: when a run hands over to the next.
        pools: kinds of work that pools of workers do.
    """

    def __init__(
        self,
        client: Client,
        *,
        installation: str,
        shards: int = 1,
        limits: Limits | None = None,
        pools: tuple[Pool, ...] = (),
    ) -> None:
        self._pools = pools
        self._client = client
        self._installation = installation
        self._shards = shards
        self._limits = limits or Limits()

    async def desired_changed(self, key: PackageKey, seen: SeenStatus) -> None:
        """Tell the package's lifecycle that something is new; start the lifecycle if there is none.

        Raises:
            TransientError: API_UNAVAILABLE, Temporal does not take the signal now.
        """
        attributes = TypedSearchAttributes(
            [
                SearchAttributePair(search_attributes.INSTALLATION, self._installation),
                SearchAttributePair(search_attributes.PACKAGE, key.package_id),
                SearchAttributePair(search_attributes.KIND, key.kind.value),
            ]
        )
        where = f" in {key.namespace}" if key.namespace else ""
        try:
            await self._client.start_workflow(
                PackageLifecycleWorkflow.run,
                LifecycleInput(key=key, limits=self._limits),
                id=package_workflow_id(key),
                task_queue=task_queue(self._installation, shard_of(key, self._shards)),
                start_signal=DESIRED_CHANGED,
                start_signal_args=[DesiredChanged(seen=seen, pools=self._pools)],
                task_timeout=TASK_TIMEOUT,
                search_attributes=attributes,
                static_summary=f"{key.kind.value} {key.name}{where}",
                rpc_timeout=RPC_TIMEOUT,
            )
        except RPCError as error:
            raise _unavailable(key, error) from error

    async def notify(self, key: PackageKey) -> bool:
        """Tell a running lifecycle that something is new; never start one. False if none runs."""
        try:
            await self._handle(key).signal(
                PackageLifecycleWorkflow.desired_changed, DesiredChanged(), rpc_timeout=RPC_TIMEOUT
            )
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                return False
            raise _unavailable(key, error) from error
        return True

    async def hook_events(self, key: PackageKey, events: HookEvents) -> bool:
        """Tell a running lifecycle that news wait for its hooks; never start one. False if none runs.

        Raises:
            TransientError: API_UNAVAILABLE, Temporal or the worker does not take it now.
        """
        try:
            handle: Any = self._handle(key)  # the SDK's overloads leave the type of an update without result unknown
            await handle.execute_update(PackageLifecycleWorkflow.hook_events, events, rpc_timeout=RPC_TIMEOUT)
        except (WorkflowUpdateFailedError, WorkflowUpdateRPCTimeoutOrCancelledError) as error:
            if isinstance(error.__cause__, asyncio.CancelledError):
                raise error.__cause__ from None  # the SDK makes an error of it, and the caller would go on
            raise _no_worker(key, "hook_events") from error
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                return False
            raise _unavailable(key, error) from error
        return True

    async def release_drifted(self, key: PackageKey, message: ReleaseDrifted) -> bool:
        """Tell a running lifecycle that objects of its release are gone or changed; never start one.

        Returns:
            False if none runs.

        Raises:
            TransientError: API_UNAVAILABLE, Temporal does not take the signal now.
        """
        try:
            await self._handle(key).signal(PackageLifecycleWorkflow.release_drifted, message, rpc_timeout=RPC_TIMEOUT)
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                return False
            raise _unavailable(key, error) from error
        return True

    async def quarantined(self, key: PackageKey, message: Quarantined) -> bool:
        """Tell a running lifecycle which parts of its package are broken in this process; never start one.

        Returns:
            False if none runs.

        Raises:
            TransientError: API_UNAVAILABLE, Temporal does not take the signal now.
        """
        try:
            await self._handle(key).signal(PackageLifecycleWorkflow.quarantined, message, rpc_timeout=RPC_TIMEOUT)
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                return False
            raise _unavailable(key, error) from error
        return True

    async def running(self) -> set[str]:
        """Return the workflow ids of all running package lifecycles of this installation (as visibility has them).

        Raises:
            TransientError: API_UNAVAILABLE, Temporal does not answer.
        """
        found: set[str] = set()
        token = b""
        while True:
            # The SDK's own listing decodes every search attribute of every workflow, which costs twenty times as much.
            request = ListWorkflowExecutionsRequest(
                namespace=self._client.namespace, query=self._query, page_size=_PAGE, next_page_token=token
            )
            try:
                page = await self._client.workflow_service.list_workflow_executions(request, timeout=RPC_TIMEOUT)
            except RPCError as error:
                raise self._not_listed() from error
            found.update(one.execution.workflow_id for one in page.executions)
            token = page.next_page_token
            if not token:
                return found

    async def count(self) -> int:
        """Return how many package lifecycles of this installation run (as visibility has them).

        Raises:
            TransientError: as `running`.
        """
        try:
            return (await self._client.count_workflows(self._query, rpc_timeout=RPC_TIMEOUT)).count
        except RPCError as error:
            raise self._not_listed() from error

    @property
    def _query(self) -> str:
        return (
            f"WorkflowType = 'PackageLifecycle' AND ExecutionStatus = 'Running' "
            f"AND {search_attributes.INSTALLATION.name} = '{self._installation}'"
        )

    def _not_listed(self) -> TransientError:
        return TransientError(
            Reason.API_UNAVAILABLE,
            f"Temporal does not list the lifecycles below {package_workflow_prefix(self._installation)}",
            hint="it may still be starting; look at its log",
        )

    async def retry(self, key: PackageKey, action: Action) -> ActionResult:
        """Try the failed step again now, or the version that was rejected."""
        return await self._action(key, "retry", action)

    async def pause(self, key: PackageKey, action: Action) -> ActionResult:
        """Begin no further step, or with a `PauseAction` that names steps, none of those."""
        return await self._action(key, "pause", action)

    async def resume(self, key: PackageKey, action: Action) -> ActionResult:
        """Go on after a pause, a cancellation, or past a breakpoint; a `ResumeAction` can drop all of them."""
        return await self._action(key, "resume", action)

    async def cancel(self, key: PackageKey, action: Action) -> ActionResult:
        """Stop the running step and hold there."""
        return await self._action(key, "cancel", action)

    async def skip(self, key: PackageKey, action: Action) -> ActionResult:
        """Pass over the failed step."""
        return await self._action(key, "skip", action)

    async def adopt(self, key: PackageKey, action: AdoptAction) -> ActionResult:
        """Take over a release, or records of it, that somebody else wrote."""
        return await self._action(key, "adopt", action)

    async def rollback(self, key: PackageKey, action: RollbackAction) -> ActionResult:
        """Go back to a good release and stay there."""
        return await self._action(key, "rollback", action)

    async def carry_out(self, key: PackageKey, name: str, action: Action) -> ActionResult:
        """Pass on an action by its name; one with a uid has its effect once, however often it is sent.

        Raises:
            PermanentError: PACKAGE_NOT_FOUND, no lifecycle is running; VALIDATION_FAILED, it was not understood.
            TransientError: API_UNAVAILABLE, Temporal, a worker or the cluster does not answer now.
        """
        return await self._action(key, name, action)

    async def status(self, key: PackageKey) -> StatusView:
        """Ask for phase, step, failure, conditions and actions; needs a worker."""
        return await self._ask(key, "status", StatusView)

    async def queues(self, key: PackageKey) -> QueuesView:
        """Ask what is left to do; needs a worker."""
        return await self._ask(key, "queues", QueuesView)

    async def dump(self, key: PackageKey) -> DumpView:
        """Ask for the whole carried state; needs a worker."""
        return await self._ask(key, "dump", DumpView)

    def _handle(self, key: PackageKey) -> WorkflowHandle[PackageLifecycleWorkflow, None]:
        return self._client.get_workflow_handle_for(PackageLifecycleWorkflow.run, package_workflow_id(key))

    async def _action(self, key: PackageKey, name: str, action: Action) -> ActionResult:
        handle: Any = self._handle(key)  # the SDK types updates by their method, here the name is what varies
        try:
            return await handle.execute_update(name, action, result_type=ActionResult, rpc_timeout=RPC_TIMEOUT)
        except WorkflowUpdateFailedError as error:
            cause = error.cause
            if isinstance(cause, ApplicationError) and cause.type == Reason.API_UNAVAILABLE.value:
                raise TransientError(Reason.API_UNAVAILABLE, cause.message) from error
            raise PermanentError(
                Reason.VALIDATION_FAILED, f"the action {name} for {key.package_id} was refused", actor=Actor.USER
            ) from error
        except WorkflowUpdateRPCTimeoutOrCancelledError as error:
            raise _no_worker(key, name) from error
        except RPCError as error:
            raise _unavailable(key, error) from error

    async def _ask[V](self, key: PackageKey, name: str, view: type[V]) -> V:
        try:
            return await self._handle(key).query(name, result_type=view, rpc_timeout=RPC_TIMEOUT)
        except RPCError as error:
            if error.status in {RPCStatusCode.DEADLINE_EXCEEDED, RPCStatusCode.CANCELLED}:
                raise _no_worker(key, name) from error
            raise _unavailable(key, error) from error


def _no_worker(key: PackageKey, what: str) -> TransientError:
    return TransientError(
        Reason.API_UNAVAILABLE,
        f"no worker answered {what} for {key.package_id} within {RPC_TIMEOUT.total_seconds():.0f} s",
        hint="if Temporal or a worker has just been started, try again in a few seconds; "
        "if no worker is running, start one: `windlass worker`",
    )


def _unavailable(key: PackageKey, error: RPCError) -> TransientError | PermanentError:
    if error.status is RPCStatusCode.NOT_FOUND:
        return PermanentError(
            Reason.PACKAGE_NOT_FOUND,
            f"there is no running lifecycle for {key.package_id}",
            hint="see `windlass get`; a lifecycle is started by the watcher when the object exists",
            actor=Actor.USER,
        )
    return TransientError(
        Reason.API_UNAVAILABLE,
        f"Temporal answers {error.status.name} for {key.package_id}",
        hint="it may be starting or overloaded; look at its log",
    )
