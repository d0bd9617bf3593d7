"""Writes the whole status of a package's object and records Kubernetes Events about it."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

import structlog
from temporalio import activity

from windlass.activities.inputs import object_ref
from windlass.activities.package_objects import Mark, PackageObjects
from windlass.contracts.lifecycle import EventNote as Note
from windlass.contracts.objects import PackageStatus
from windlass.contracts.steps import StatusRequest, StatusResult
from windlass.domain.errors import TransientError, WindlassError
from windlass.domain.ids import API_VERSION
from windlass.ports.events import EventLog, EventNote
from windlass.ports.kube import Kube, Object

FIELD_MANAGER: Final = "windlass"

_log = structlog.stdlib.get_logger(__name__)


class StatusActivities:
    """``ui`` is the address of the Temporal UI's page for the namespace, empty if there is none."""

    def __init__(self, kube: Kube, objects: PackageObjects, events: EventLog, ui: str) -> None:
        self._kube = kube
        self._objects = objects
        self._events = events
        self._ui = ui

    @activity.defn(name="status.write")
    async def write(self, request: StatusRequest) -> StatusResult:
        """Apply the status on the object of this uid; Events are recorded as well as can be.

        The API server (1.36) ignores a uid in an apply of the status subresource, but honours a resourceVersion: that
        of a state whose uid was compared is the precondition.
        """

        async def apply(mark: Mark) -> Object:
            body: Object = {
                "apiVersion": API_VERSION,
                "kind": request.key.kind.value,
                "metadata": {
                    "name": request.key.name,
                    "resourceVersion": mark.resource_version,
                    **({"namespace": request.key.namespace} if request.key.namespace else {}),
                },
                "status": self._linked(request.status).model_dump(mode="json", by_alias=True, exclude_none=True),
            }
            return await self._kube.apply(body, field_manager=FIELD_MANAGER, subresource="status")

        ours = await self._objects.write(request.key, request.uid, apply)
        left = await self._record(request)
        return StatusResult(written=ours, unrecorded=left if ours else ())

    async def _record(self, request: StatusRequest) -> tuple[Note, ...]:
        """Record the Events in order; return those that are worth another try, from the first that failed on."""
        for index, note in enumerate(request.notes):
            try:
                await self._events.record([_event(request, note)])
            except TransientError as error:
                left = request.notes[index:]
                _log.warning("events not recorded", reason=error.reason.value, error=str(error), later=len(left))
                return left
            except WindlassError as error:
                _log.warning(
                    "event not recorded", reason=error.reason.value, error=str(error), event_reason=note.reason
                )
        return ()

    def _linked(self, status: PackageStatus) -> PackageStatus:
        workflow = status.workflow
        if workflow is None or not self._ui:
            return status
        link = f"{self._ui}/workflows/{quote(workflow.id, safe='')}/{workflow.run_id or ''}"
        return status.model_copy(update={"workflow": workflow.model_copy(update={"link": link})})


def _event(request: StatusRequest, note: Note) -> EventNote:
    return EventNote(
        regarding=object_ref(request.key),
        uid=request.uid,
        type="Warning" if note.type == "Warning" else "Normal",
        reason=note.reason,
        note=note.note,
        action=request.status.step or "Observe",
        at=note.at,
    )
