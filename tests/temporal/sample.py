"""A small workflow that meets everything this package does: encoded payloads, failures of each category."""

from __future__ import annotations

from datetime import timedelta

from temporalio import activity, workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError

with workflow.unsafe.imports_passed_through():
    from windlass.contracts.base import WireModel
    from windlass.contracts.failures import FailureDetails
    from windlass.domain.errors import PermanentError, Reason
    from windlass.temporal.failures import failure_of


class Request(WireModel):
    """``secret`` goes through every payload; ``fail`` says how the activity ends."""

    secret: str
    fail: str = ""


class Result(WireModel):
    echo: str = ""
    failure: FailureDetails | None = None


@activity.defn(name="sample.work")
async def work(request: Request) -> Result:
    if request.fail == "ours":
        raise PermanentError(Reason.LOAD_FAILED, f"message {request.secret}", hint="fix it") from ValueError(
            f"cause {request.secret}"
        )
    if request.fail == "foreign":
        raise ValueError(f"text {request.secret}")
    return Result(echo=request.secret)


@workflow.defn(name="Sample")
class SampleWorkflow:
    @workflow.run
    async def run(self, request: Request) -> Result:
        try:
            return await workflow.execute_activity(
                work,
                request,
                start_to_close_timeout=timedelta(seconds=10),
                retry_policy=RetryPolicy(maximum_attempts=1),
                summary=f"summary {request.secret}",
            )
        except ActivityError as error:
            if request.fail == "foreign":
                raise
            return Result(failure=failure_of(error))
