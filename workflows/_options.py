"""Time-outs and retry policies of every command the workflows issue, as named presets (design sections 4, 5 and 7)."""

from __future__ import annotations

from datetime import timedelta
from typing import Final, NotRequired, TypedDict

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.workflow import ActivityCancellationType

with workflow.unsafe.imports_passed_through():
    from windlass.contracts.lifecycle import LifecycleState, Pool
    from windlass.domain.errors import Reason
    from windlass.domain.ids import PackageKey, helm_queue, pool_queue

HEARTBEAT: Final = timedelta(seconds=4)
STATUS_DELAY: Final = 1.0
"""Seconds a step may run before what it does is written to the object's status, unless an observation says more."""

HANDOVER_GRACE: Final = 30.0
"""Seconds a running step gets when the run is due to end; then it is cancelled and stays next."""

READINESS_SLACK: Final = timedelta(minutes=10)
"""What a release may take besides waiting for readiness: apply, heal, and the queue of the helm children."""

MAX_READINESS: Final = timedelta(hours=24)
"""The longest readiness time-out the object's schema admits."""

MAX_HOOK: Final = timedelta(hours=24)


class LocalOptions(TypedDict):
    """Options of a local activity.

    There is no start-to-close time-out: the SDK's core (1.35) keeps its timer when an attempt is tried again, and
    panics if the worker has ended when the timer fires.
    """

    schedule_to_close_timeout: timedelta
    retry_policy: RetryPolicy
    cancellation_type: NotRequired[ActivityCancellationType]


class RemoteOptions(TypedDict):
    """Options of a remote activity; without a task queue it goes to the worker that runs the workflow."""

    start_to_close_timeout: timedelta
    heartbeat_timeout: timedelta
    retry_policy: RetryPolicy
    cancellation_type: ActivityCancellationType
    task_queue: NotRequired[str]


_BLIPS = RetryPolicy(
    initial_interval=timedelta(milliseconds=200),
    backoff_coefficient=2.0,
    # About 1.5 s. Beyond, the SDK goes on with timers and past schedule-to-close: the failure would stay unseen.
    maximum_attempts=4,
    # The type of a failure is its reason; what somebody still has to create is no blip.
    non_retryable_error_types=[
        Reason.VALUES_SOURCE_NOT_FOUND.value,
        Reason.REPOSITORY_NOT_FOUND.value,
        Reason.SECRET_NOT_FOUND.value,
    ],
)
_ONCE = RetryPolicy(maximum_attempts=1)  # every failure comes back: the workflow writes it down and decides

QUICK: Final[LocalOptions] = {
    # Idempotent work of a few requests; blips are retried here, the rest comes back to the workflow.
    "schedule_to_close_timeout": timedelta(seconds=10),
    "retry_policy": _BLIPS,
}

OPENED: Final[LocalOptions] = {
    # It stays for a tenth of a second, over content that its worker has opened, and leaves the rest to OPENING.
    "schedule_to_close_timeout": timedelta(seconds=10),
    "retry_policy": _BLIPS,
    "cancellation_type": ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
}

OPENING: Final[RemoteOptions] = {
    # Reading a package takes milliseconds, asking its hooks for their bindings as long as they take (10 s each, side
    # by side); content that this worker lacks is fetched first.
    "start_to_close_timeout": timedelta(minutes=30),
    "heartbeat_timeout": HEARTBEAT,
    "retry_policy": _ONCE,
    "cancellation_type": ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
}

WATCHING: Final[RemoteOptions] = {
    # The first lists of what hooks follow; the worker gives up after 20 s.
    "start_to_close_timeout": timedelta(seconds=60),
    "heartbeat_timeout": HEARTBEAT,
    "retry_policy": _ONCE,
    "cancellation_type": ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
}

DOWNLOAD: Final[RemoteOptions] = {
    "start_to_close_timeout": timedelta(minutes=30),
    "heartbeat_timeout": HEARTBEAT,
    "retry_policy": _ONCE,
    "cancellation_type": ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
}

PLACING: Final[RemoteOptions] = {
    "start_to_close_timeout": timedelta(minutes=2),
    "heartbeat_timeout": HEARTBEAT,
    "retry_policy": _ONCE,
    "cancellation_type": ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
}

SCAN: Final[RemoteOptions] = {
    "start_to_close_timeout": timedelta(minutes=10),
    "heartbeat_timeout": HEARTBEAT,
    "retry_policy": _ONCE,
    "cancellation_type": ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
}

HELM_CHANGE: Final[RemoteOptions] = {
    "start_to_close_timeout": MAX_READINESS + READINESS_SLACK,
    "heartbeat_timeout": HEARTBEAT,
    "retry_policy": _ONCE,
    "cancellation_type": ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
}

DRIFT_CHECK: Final[RemoteOptions] = {
    # Two requests for each object, three where something is put back.
    "start_to_close_timeout": timedelta(minutes=10),
    "heartbeat_timeout": HEARTBEAT,
    "retry_policy": _ONCE,
    "cancellation_type": ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
}

HOOK_BEGIN: Final[LocalOptions] = {
    # It stays for a tenth of a second and leaves the rest to HOOK_RUN.
    "schedule_to_close_timeout": timedelta(seconds=10),
    "retry_policy": _ONCE,
    "cancellation_type": ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
}

HOOK_RUN: Final[RemoteOptions] = {
    "start_to_close_timeout": MAX_HOOK,
    "heartbeat_timeout": HEARTBEAT,
    "retry_policy": _ONCE,
    "cancellation_type": ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
}


def in_pool(options: RemoteOptions, key: PackageKey, state: LifecycleState, pool: Pool) -> RemoteOptions:
    """Return ``options`` with the task queue of a pool, if the installation has such a pool, or that of the shard.

    Helm's is one of its own within the shard as well: what waits in it costs nothing (`windlass.worker.slots`).
    """
    if pool in state.pools:
        return {**options, "task_queue": pool_queue(key.installation, pool)}
    return {**options, "task_queue": helm_queue(workflow.info().task_queue)} if pool == "helm" else options
