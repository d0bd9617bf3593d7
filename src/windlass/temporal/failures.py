"""`windlass.domain.errors` <-> Temporal failures, by type and never by text.

Pure and deterministic: workflows import this module, so it must stay free of clocks, I/O and heavy imports.

An error of ours travels as an `ApplicationError` whose ``type`` is the reason (readable in the Temporal UI even where
messages are encrypted), whose ``non_retryable`` flag says who retries, and whose one detail is a `FailureDetails`.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final, cast

from pydantic import ValidationError
from temporalio.exceptions import (
    ActivityError,
    ApplicationError,
    ApplicationErrorCategory,
    CancelledError,
    ChildWorkflowError,
    ServerError,
    TemporalError,
    TerminatedError,
    TimeoutError,  # noqa: A004 - Temporal's, the one that is meant in this module
    TimeoutType,
)

from windlass.contracts.failures import FailureDetails
from windlass.domain.errors import (
    Actor,
    Category,
    InterruptedStepError,
    PermanentError,
    Reason,
    TransientError,
    WindlassError,
    cap,
)

_CHAIN_MAX: Final = 32  # causes looked at; real chains have two or three

_WORKER_SHUTDOWN: Final = "WorkerShutdown"
"""Type of the failure by which the SDK's core gives back an activity whose worker shuts down."""

_TIMEOUTS: Final = {
    TimeoutType.START_TO_CLOSE: "took longer than it may",
    TimeoutType.SCHEDULE_TO_START: "was not taken up by any worker in time",
    TimeoutType.SCHEDULE_TO_CLOSE: "was not finished in time, retries included",
    TimeoutType.HEARTBEAT: "lost its worker (no heartbeat)",
}


_LOST: Final = frozenset({TimeoutType.START_TO_CLOSE, TimeoutType.HEARTBEAT})

WAITING: Final = "waits for its turn"
"""Heartbeat of an activity that has not begun its work: the loss of its worker says nothing about it."""


def to_application_error(error: WindlassError, *, retry_interrupted: bool = False) -> ApplicationError:
    """Return ``error`` as Temporal carries it.

    Permanent and interrupted failures go straight back to the workflow; the server retries transient ones within the
    activity's schedule-to-close time.

    Args:
        error: the failure.
        retry_interrupted: let the server retry an interrupted step: nobody asked for the interruption, the worker
            is shutting down.
    """
    details = _details_of(error)
    interrupted = details.category is Category.INTERRUPTED
    return ApplicationError(
        details.message,
        details,
        type=details.reason,
        non_retryable=details.category is Category.PERMANENT or (interrupted and not retry_interrupted),
        category=ApplicationErrorCategory.BENIGN if interrupted else ApplicationErrorCategory.UNSPECIFIED,
    )


def handed_over(why: str) -> ApplicationError:
    """Return what an activity raises that its worker gives back, so that the workflow learns of it at once.

    ``why`` says what keeps the worker from going on. The server does not retry it: the workflow does, with the next
    worker.
    """
    details = FailureDetails(category=Category.TRANSIENT, reason=Reason.LEASE_LOST, message=why)
    return ApplicationError(
        why, details, type=details.reason, non_retryable=True, category=ApplicationErrorCategory.BENIGN
    )


def to_error(details: FailureDetails) -> WindlassError:
    """Return ``details`` as the exception they were made of, for surfaces that raise."""
    match details.category:
        case Category.TRANSIENT:
            return TransientError(details.reason, details.message, hint=details.hint)
        case Category.PERMANENT:
            actor = details.actor or Actor.ADMIN
            return PermanentError(details.reason, details.message, hint=details.hint, actor=actor)
        case Category.INTERRUPTED:
            return InterruptedStepError(details.message)


def failure_of(error: BaseException, *, step: str = "the step") -> FailureDetails:
    """Say what failed, whatever Temporal wrapped around it.

    The innermost error of ours in the chain of causes wins, so that a time-out of all retries reports what the last try
    failed of. Without one, cancellations count as interrupted; time-outs and lost workers as transient, naming
    the step; anything else is a fault of Windlass: transient, naming the type only, because texts of foreign
    exceptions may hold values.

    Args:
        error: what an awaited activity, child workflow or update raised, or an activity's own code.
        step: what to call the failed step where the chain does not name an activity or child workflow.
    """
    chain = _chain(error)
    for link in reversed(chain):
        if isinstance(link, WindlassError):
            return _details_of(link)
        if isinstance(link, ApplicationError) and (details := _carried(link)) is not None:
            return details
    step = next((name for link in chain if (name := _step(link))), step)
    for link in reversed(chain):
        if (details := _classified(link, step)) is not None:
            return details
    return _internal(f"{step} failed with an unexpected {type(error).__name__}")


def _details_of(error: WindlassError) -> FailureDetails:
    return FailureDetails(
        category=error.category,
        reason=error.reason,
        message=cap(error.message),
        hint=cap(error.hint),
        actor=error.actor if isinstance(error, PermanentError) else None,
    )


def _chain(error: BaseException) -> list[BaseException]:
    chain: list[BaseException] = []
    link: BaseException | None = error
    while link is not None and len(chain) < _CHAIN_MAX:
        chain.append(link)
        link = _leaf(cast("BaseExceptionGroup[BaseException]", link)) if _is_group(link) else link.__cause__
    return chain


def _is_group(error: BaseException) -> bool:
    return isinstance(error, BaseExceptionGroup)


def _leaf(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return what stands for a group of parallel failures: the first of ours, else the first."""
    ours = group.subgroup(WindlassError) or group
    return ours.exceptions[0]


def _carried(error: ApplicationError) -> FailureDetails | None:
    for detail in error.details:
        if isinstance(detail, FailureDetails):
            return detail
        if isinstance(detail, dict):
            # Details carry no type hints: pydantic models arrive as what their JSON holds.
            try:
                found = FailureDetails.model_validate(cast("dict[str, Any]", detail))
            except ValidationError:
                continue
            return found.model_copy(update={"message": cap(found.message), "hint": cap(found.hint)})
    return None


def _step(error: BaseException) -> str:
    if isinstance(error, ActivityError):
        return error.activity_type
    if isinstance(error, ChildWorkflowError):
        return f"{error.workflow_type} {error.workflow_id}"
    return ""


def _classified(error: BaseException, step: str) -> FailureDetails | None:
    if isinstance(error, (asyncio.CancelledError, CancelledError)):
        return FailureDetails(category=Category.INTERRUPTED, reason=Reason.INTERRUPTED, message=f"{step} was cancelled")
    if isinstance(error, TimeoutError) and error.type in _LOST:
        return _lost(error, step)
    if isinstance(error, TimeoutError):
        why = _TIMEOUTS.get(error.type, "timed out") if error.type is not None else "timed out"
        return _interrupted(f"{step} {why}")
    if isinstance(error, TerminatedError):
        return _interrupted(f"{step} was terminated")
    if isinstance(error, ServerError):
        return _interrupted(f"{step} was given up by the Temporal server")
    if isinstance(error, ApplicationError) and error.type == _WORKER_SHUTDOWN:
        message = f"{step} was given back by a worker that stops"
        return FailureDetails(category=Category.TRANSIENT, reason=Reason.LEASE_LOST, message=message)
    if isinstance(error, ApplicationError):
        # Raised by code that does not know this module; its type is a name, its text may hold values.
        return _internal(f"{step} failed with an unexpected {error.type or 'error'}")
    if isinstance(error, TemporalError):
        return None
    return _internal(f"{step} failed with an unexpected {type(error).__name__}")


def _lost(error: TimeoutError, step: str) -> FailureDetails:
    if WAITING in error.last_heartbeat_details:
        # It had opened nothing: what ended its worker was something else.
        return _transient(Reason.INTERRUPTED, f"{step} lost its worker while it waited for its turn")
    return _transient(Reason.WORKER_LOST, f"{step} {_TIMEOUTS[error.type or TimeoutType.HEARTBEAT]}")


def _interrupted(message: str) -> FailureDetails:
    return _transient(Reason.INTERRUPTED, message)


def _transient(reason: Reason, message: str) -> FailureDetails:
    return FailureDetails(category=Category.TRANSIENT, reason=reason, message=cap(message))


def _internal(message: str) -> FailureDetails:
    return FailureDetails(
        category=Category.TRANSIENT,
        reason=Reason.INTERNAL,
        message=cap(message),
        hint="a fault of Windlass: the worker's log has the trace",
    )
