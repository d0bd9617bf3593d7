"""Around every activity: failures become Temporal's form, and log lines say whose they are."""

from __future__ import annotations

import traceback
from typing import Any, override

import structlog
from temporalio import activity
from temporalio.exceptions import FailureError
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput, Interceptor

from windlass import logs
from windlass.domain.errors import Reason
from windlass.domain.faults import text_of
from windlass.temporal.failures import failure_of, to_application_error, to_error

_log = structlog.stdlib.get_logger(__name__)


class FailureInterceptor(Interceptor):
    """Turns whatever an activity raises into the `ApplicationError` that `windlass.temporal.failures` describes.

    Causes are cut off: foreign exceptions may quote values, and what is in a history stays there. The trace goes
    along, since it holds code only. Cancellation passes through untouched.
    """

    @override
    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:
        return _Failures(next)


class LogContextInterceptor(Interceptor):
    """Binds workflow, package, activity and attempt to every log line of an activity.

    ``package_prefix`` is what package workflow ids start with (`windlass.domain.ids.package_workflow_prefix`).
    """

    def __init__(self, package_prefix: str) -> None:
        self._package_prefix = package_prefix

    @override
    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:
        return _LogContext(next, self._package_prefix)


class _Failures(ActivityInboundInterceptor):
    @override
    async def execute_activity(self, input: ExecuteActivityInput) -> Any:
        try:
            return await super().execute_activity(input)
        except FailureError:
            raise  # already in Temporal's form
        except Exception as error:  # noqa: BLE001 - the border of our code: all must reach the workflow in one form
            details = failure_of(error, step=activity.info().activity_type)
            if details.reason is Reason.INTERNAL:
                # The text only where it cannot quote values, which those of foreign exceptions may.
                trace = "".join(traceback.format_tb(error.__traceback__))
                _log.error("activity failed unexpectedly", error=text_of(error), stack=trace)
            else:
                _log.info("activity failed", reason=details.reason, category=details.category, error=details.message)
            failure = to_application_error(to_error(details), retry_interrupted=activity.is_worker_shutdown())
            raise failure.with_traceback(error.__traceback__) from None


class _LogContext(ActivityInboundInterceptor):
    def __init__(self, following: ActivityInboundInterceptor, package_prefix: str) -> None:
        super().__init__(following)
        self._package_prefix = package_prefix

    @override
    async def execute_activity(self, input: ExecuteActivityInput) -> Any:
        info = activity.info()
        workflow_id = info.workflow_id or ""
        package = workflow_id.removeprefix(self._package_prefix)
        with logs.context(
            package=package if package != workflow_id else "",
            workflow_id=workflow_id,
            run_id=info.workflow_run_id or "",
            activity=info.activity_type,
            attempt=info.attempt,
        ):
            return await super().execute_activity(input)
