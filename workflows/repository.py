"""`RepositoryCatalog`: keeps the status of one PackageRepository true, scan by scan."""

from __future__ import annotations

import contextlib
from datetime import timedelta

from temporalio import workflow

from windlass.workflows._options import QUICK, SCAN

with workflow.unsafe.imports_passed_through():
    from temporalio.exceptions import FailureError, is_cancelled_exception

    from windlass.activities.catalog import CatalogActivities
    from windlass.contracts.catalog import (
        REPOSITORY_CATALOG,
        REPOSITORY_CHANGED,
        CatalogInput,
        CatalogView,
        RepositoryChanged,
        ScanFailedRequest,
        ScanRequest,
        ScanResult,
    )
    from windlass.contracts.failures import FailureDetails
    from windlass.contracts.objects import WorkflowStatus
    from windlass.domain.backoff import delay
    from windlass.temporal.failures import failure_of


@workflow.defn(name=REPOSITORY_CATALOG)
class RepositoryCatalogWorkflow:
    """Scans, writes down what it found, rests until the interval is over or something changes, and again."""

    @workflow.init
    def __init__(self, start: CatalogInput) -> None:
        self._key = start.key
        self._limits = start.limits
        self._failures = start.failures
        self._changed = False
        self._signals = 0
        self._result: ScanResult | None = None
        self._build = workflow.info().get_current_build_id()

    @workflow.run
    async def run(self, start: CatalogInput) -> None:
        """Live until the object is gone; ``start`` was taken over in the constructor."""
        del start
        while True:
            self._changed = False
            rest = await self._scan()
            if rest is None and not self._changed:
                break
            with contextlib.suppress(TimeoutError):
                await workflow.wait_condition(
                    lambda: self._changed, timeout=timedelta(seconds=rest or 0.0), timeout_summary="next scan"
                )
            if self._handover_due():
                workflow.continue_as_new(CatalogInput(key=self._key, limits=self._limits, failures=self._failures))

    @workflow.signal(name=REPOSITORY_CHANGED)
    def repository_changed(self, _message: RepositoryChanged) -> None:
        """The object or a Secret of it is new: scan again now."""
        self._changed = True
        self._signals += 1

    @workflow.query
    def status(self) -> CatalogView:
        """What the last scan found, and how many have failed since."""
        return CatalogView(key=self._key, result=self._result, failures=self._failures)

    async def _scan(self) -> float | None:
        """Scan once; return the seconds until the next time, None if there is nothing to scan any more."""
        info = workflow.info()
        where = WorkflowStatus(id=info.workflow_id, run_id=info.run_id)
        try:
            self._result = await workflow.execute_activity_method(
                CatalogActivities.scan, ScanRequest(key=self._key, workflow=where), summary=self._key.name, **SCAN
            )
        except FailureError as error:
            if is_cancelled_exception(error):
                raise
            return await self._report(where, failure_of(error))
        self._failures = 0
        self._describe(f"{self._result.count} packages" if self._result.exists else "gone")
        return self._result.interval if self._result.exists else None

    async def _report(self, where: WorkflowStatus, failure: FailureDetails) -> float:
        self._failures += 1
        wait = delay(failure.category, self._failures, chance=workflow.random().random())
        request = ScanFailedRequest(
            key=self._key,
            workflow=where,
            failure=failure,
            attempt=self._failures,
            next_try=workflow.time() + wait,
        )
        self._describe(f"{failure.reason.value}: {failure.message}, attempt {self._failures}")
        try:
            await workflow.execute_local_activity_method(CatalogActivities.report_failure, request, **QUICK)
        except FailureError as error:
            if is_cancelled_exception(error):
                raise
            workflow.logger.warning("status not written", extra={"error": failure_of(error).message})
        return wait

    def _describe(self, text: str) -> None:
        workflow.set_current_details(text)

    def _handover_due(self) -> bool:
        """Say whether this run has grown so long, or the code so new, that the next run should take over."""
        info = workflow.info()
        long = info.get_current_history_length() >= self._limits.events or self._signals >= self._limits.signals
        return long or info.is_continue_as_new_suggested() or info.get_current_build_id() != self._build
