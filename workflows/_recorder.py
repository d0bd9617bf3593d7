"""The one writer of status: coalesces what changed into one write, and keeps the Temporal UI readable."""

from __future__ import annotations

from typing import Any

from temporalio import workflow

from windlass.workflows._options import QUICK
from windlass.workflows._transitions import NOTES_KEPT

with workflow.unsafe.imports_passed_through():
    from temporalio.common import SearchAttributeUpdate
    from temporalio.exceptions import FailureError, is_cancelled_exception

    from windlass.activities.status import StatusActivities
    from windlass.contracts.lifecycle import LifecycleState
    from windlass.contracts.objects import WorkflowStatus
    from windlass.contracts.status import (
        details,
        is_ready,
        package_status,
        phase,
        status_digest,
        with_ready,
    )
    from windlass.contracts.steps import StatusRequest
    from windlass.domain.backoff import delay
    from windlass.domain.errors import Category
    from windlass.domain.ids import PackageKey
    from windlass.domain.lifecycle.steps import Next
    from windlass.temporal.failures import failure_of
    from windlass.temporal.search_attributes import PHASE, READY, VERSION


class Recorder:
    """Writes status when it differs from what was last written; a failed write is tried again later."""

    def __init__(self, key: PackageKey) -> None:
        self._key = key
        self._failures = 0
        self.retry_at = 0.0

    @property
    def owes(self) -> bool:
        """Whether a write failed and is due again at ``retry_at``."""
        return self._failures > 0

    async def write(self, state: LifecycleState, step: Next) -> LifecycleState:
        """Write status and Events if there is anything new; return the state with what is now written.

        A status that cannot be written holds nothing up: the lifecycle goes on and the write is owed.
        """
        if not state.desired.exists:
            self._failures = 0  # nothing is owed to an object that is gone
            return state
        now = workflow.time()
        state = state.model_copy(update={"conditions": with_ready(state, step.hold, now)})
        info = workflow.info()
        where = WorkflowStatus(id=info.workflow_id, run_id=info.run_id)
        status = package_status(state, step, where)
        digest = status_digest(status)
        if digest == state.written and not state.notes:
            self._failures = 0  # what was owed is what stands there
            return state
        notes = (*state.unrecorded, *state.notes)[-NOTES_KEPT:]
        request = StatusRequest(key=self._key, uid=state.desired.uid, status=status, notes=notes)
        try:
            result = await workflow.execute_local_activity_method(StatusActivities.write, request, **QUICK)
        except FailureError as error:
            if is_cancelled_exception(error):
                raise
            self._failures += 1
            self.retry_at = now + delay(Category.TRANSIENT, self._failures, chance=workflow.random().random())
            details = failure_of(error)
            workflow.logger.warning("status not written", extra={"error": details.message, "hint": details.hint})
            # It may have been written all the same: whatever comes next differs from what is known to stand there.
            return state.model_copy(update={"written": ""})
        self._failures = 0
        return state.model_copy(update={"written": digest, "notes": (), "unrecorded": result.unrecorded})

    def describe(self, state: LifecycleState, step: Next) -> None:
        """Set the workflow's current details; costs no history."""
        workflow.set_current_details(details(state, step))

    def upsert(self, state: LifecycleState) -> LifecycleState:
        """Upsert the search attributes if one differs from what was last upserted."""
        attributes = (phase(state).value, state.version, is_ready(state.conditions))
        if attributes == state.attributes:
            return state
        updates: list[SearchAttributeUpdate[Any]] = [
            PHASE.value_set(attributes[0]),
            VERSION.value_set(attributes[1]),
            READY.value_set(attributes[2]),
        ]
        # The SDK's signature also admits the untyped form of old.
        workflow.upsert_search_attributes(updates)  # pyright: ignore[reportUnknownMemberType]
        return state.model_copy(update={"attributes": attributes})
