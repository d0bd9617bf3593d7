from __future__ import annotations

import asyncio

import pytest
from replay.keyring import REPLAY_KEYRING
from temporalio.api.failure.v1 import Failure
from temporalio.converter import WorkflowSerializationContext
from temporalio.exceptions import (
    ActivityError,
    ApplicationError,
    ApplicationErrorCategory,
    CancelledError,
    ChildWorkflowError,
    RetryState,
    TerminatedError,
    TimeoutError,  # noqa: A004
    TimeoutType,
)

from windlass.contracts.failures import FailureDetails
from windlass.domain.errors import (
    MAX_TEXT,
    Actor,
    Category,
    InterruptedStepError,
    PermanentError,
    Reason,
    TransientError,
    WindlassError,
)
from windlass.temporal.converter import data_converter
from windlass.temporal.failures import failure_of, to_application_error, to_error

CANARY = "hunter2"

ERRORS = [
    TransientError(Reason.DOWNLOAD_FAILED, "cannot download a:1", hint="wait"),
    PermanentError(Reason.VALIDATION_FAILED, "replicas: given -1", hint="give 0 or more", actor=Actor.USER),
    PermanentError(Reason.LOAD_FAILED, "package.yaml: no name", actor=Actor.AUTHOR),
    InterruptedStepError("helm was killed, release is pending-upgrade"),
]


def _activity_error(cause: BaseException | None, activity: str = "helm.upgrade_release") -> ActivityError:
    error = ActivityError(
        "Activity task failed",
        scheduled_event_id=5,
        started_event_id=6,
        identity="worker",
        activity_type=activity,
        activity_id="1",
        retry_state=RetryState.TIMEOUT,
    )
    error.__cause__ = cause
    return error


def _child_error(cause: BaseException) -> ChildWorkflowError:
    error = ChildWorkflowError(
        "Child workflow failed",
        namespace="default",
        workflow_id="w/plan",
        run_id="r",
        workflow_type="ServicePlan",
        initiated_event_id=1,
        started_event_id=2,
        retry_state=None,
    )
    error.__cause__ = cause
    return error


def _timeout(kind: TimeoutType, cause: BaseException | None = None) -> TimeoutError:
    error = TimeoutError("timed out", type=kind, last_heartbeat_details=[])
    error.__cause__ = cause
    return error


async def _over_the_wire(error: BaseException) -> BaseException:
    converter = data_converter(REPLAY_KEYRING).with_context(WorkflowSerializationContext("default", "w/plan"))
    failure = Failure()
    await converter.encode_failure(error, failure)
    sent = Failure.FromString(failure.SerializeToString())
    return await converter.decode_failure(sent)


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: error.reason.value)
async def test_an_error_comes_back_from_an_activity_as_it_was(error: WindlassError) -> None:
    arrived = await _over_the_wire(_activity_error(to_application_error(error)))
    details = failure_of(arrived)
    back = to_error(details)
    assert type(back) is type(error)
    assert (back.reason, back.message, back.hint) == (error.reason, error.message, error.hint)
    if isinstance(error, PermanentError):
        assert details.actor is error.actor
    else:
        assert details.actor is None


def test_who_retries_stands_on_the_failure() -> None:
    transient, permanent, _, interrupted = (to_application_error(error) for error in ERRORS)
    assert not transient.non_retryable
    assert permanent.non_retryable
    assert interrupted.non_retryable
    assert interrupted.category is ApplicationErrorCategory.BENIGN
    assert not to_application_error(ERRORS[3], retry_interrupted=True).non_retryable
    assert to_application_error(ERRORS[1], retry_interrupted=True).non_retryable


def test_the_type_is_the_reason() -> None:
    assert to_application_error(ERRORS[0]).type == "DownloadFailed"


def test_a_time_out_of_all_retries_tells_what_the_last_try_failed_of() -> None:
    last_try = to_application_error(ERRORS[0])
    details = failure_of(_activity_error(_timeout(TimeoutType.SCHEDULE_TO_CLOSE, last_try)))
    assert details.reason is Reason.DOWNLOAD_FAILED


@pytest.mark.parametrize("kind", list(TimeoutType))
def test_a_bare_time_out_is_transient_and_names_the_step(kind: TimeoutType) -> None:
    details = failure_of(_activity_error(_timeout(kind)))
    assert details.category is Category.TRANSIENT
    assert "helm.upgrade_release" in details.message


@pytest.mark.parametrize(
    "error",
    [
        asyncio.CancelledError(),
        CancelledError("x"),
        _activity_error(CancelledError("x")),
        _child_error(CancelledError("x")),
    ],
    ids=["asyncio", "temporal", "activity", "child"],
)
def test_every_form_of_cancellation_is_interrupted(error: BaseException) -> None:
    assert failure_of(error).category is Category.INTERRUPTED


def test_a_failed_activity_of_a_child_is_found_below_both_wrappers() -> None:
    error = _child_error(_activity_error(to_application_error(ERRORS[1])))
    assert failure_of(error).reason is Reason.VALIDATION_FAILED


def test_a_terminated_child_is_transient() -> None:
    details = failure_of(_child_error(TerminatedError("gone")))
    assert details.category is Category.TRANSIENT
    assert "ServicePlan w/plan was terminated" in details.message


@pytest.mark.parametrize(
    "error",
    [
        KeyError(CANARY),
        _activity_error(ApplicationError(CANARY, {"password": CANARY}, type="KeyError")),
        _activity_error(None),
    ],
    ids=["plain", "activity", "no cause"],
)
async def test_foreign_exceptions_show_their_type_and_never_their_text(error: BaseException) -> None:
    details = failure_of(error)
    assert details.reason is Reason.INTERNAL
    assert details.category is Category.TRANSIENT
    assert CANARY not in details.model_dump_json()


def test_long_texts_are_capped_on_both_sides() -> None:
    sent = to_application_error(TransientError(Reason.DOWNLOAD_FAILED, "x" * 100_000, hint="y" * 100_000))
    assert len(sent.message.encode()) <= MAX_TEXT
    foreign = ApplicationError(
        "", {"category": "transient", "reason": "DownloadFailed", "message": "ü" * 100_000}, type="DownloadFailed"
    )
    assert len(failure_of(foreign).message.encode()) <= MAX_TEXT
    assert len(failure_of(sent).hint.encode()) <= MAX_TEXT


def test_words_of_a_newer_version_do_not_hide_the_failure() -> None:
    details = FailureDetails.model_validate(
        {"category": "deferred", "reason": "QuotaExceeded", "message": "m", "actor": "finance", "severity": 3}
    )
    assert (details.category, details.reason, details.actor) == (Category.TRANSIENT, Reason.INTERNAL, Actor.ADMIN)
    assert details.message == "m"


def test_a_circle_of_causes_ends() -> None:
    one, other = _activity_error(None), _activity_error(None)
    one.__cause__, other.__cause__ = other, one
    assert failure_of(one).reason is Reason.INTERNAL


def test_parallel_failures_are_told_by_the_first_of_ours() -> None:
    group = ExceptionGroup("two at once", [ValueError(CANARY), ExceptionGroup("inner", [ERRORS[1]])])
    assert failure_of(group).reason is Reason.VALIDATION_FAILED
    foreign = failure_of(ExceptionGroup("", [KeyError(CANARY)]), step="helm.upgrade_release")
    assert foreign.reason is Reason.INTERNAL
    assert "helm.upgrade_release failed with an unexpected KeyError" in foreign.message
