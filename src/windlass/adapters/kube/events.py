"""Kubernetes Events: what happened to an object, for `kubectl describe` and `kubectl events`."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from windlass.domain.errors import Reason, TransientError, cap
from windlass.domain.ids import shorten
from windlass.ports.events import EventNote
from windlass.ports.kube import Kube, Object

CONTROLLER: Final = "windlass.dev/windlass"
INSTANCE: Final = "windlass"
NOTE_MAX: Final = 1024
"""Bytes of a note; the API server refuses longer ones (events.k8s.io/v1)."""

_NAME_MAX: Final = 253  # DNS subdomain
_SUBDOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_ILLEGAL: Final = re.compile(r"[^a-z0-9]+")
_REASON_MAX: Final = 128  # events.k8s.io/v1, for reason and action
_CLUSTER_EVENTS: Final = "default"  # where Events of cluster-scoped objects live, as with client-go


class KubeEventLog:
    """`ports.EventLog` over events.k8s.io/v1.

    Args:
        kube: creates the Events.
        controller: who reports them.
    """

    def __init__(self, kube: Kube, *, controller: str = CONTROLLER) -> None:
        self._kube = kube
        self._controller = controller

    async def record(self, events: Sequence[EventNote]) -> None:
        """Create the Events in order; one that exists already is left as it is.

        An Event whose namespace is being deleted (or is gone) is dropped: nobody could read it.

        Raises:
            WindlassError: any other error of the API server; the rest of the Events are not recorded, recording again
                is harmless.
        """
        for event in events:
            try:
                await self._kube.create(_object(event, self._controller))
            except TransientError as error:
                if error.reason not in (Reason.API_CONFLICT, Reason.API_REJECTED):
                    raise


def _readable(name: str) -> str:
    """Return a name as part of an Event's: what Events are about need not be an object, and may have any name."""
    if not _SUBDOMAIN.fullmatch(name):
        name = _ILLEGAL.sub("-", name.lower()).strip("-") or "event"
    return shorten(name, _NAME_MAX - 17)


def _object(event: EventNote, controller: str) -> Object:
    ref = event.regarding
    identity = "\0".join((str(ref), event.uid, event.type, event.reason, event.action, event.note, repr(event.at)))
    digest = hashlib.sha256(identity.encode()).hexdigest()[:16]
    namespace = ref.namespace or _CLUSTER_EVENTS
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": f"{_readable(ref.name)}.{digest}", "namespace": namespace},
        "eventTime": datetime.fromtimestamp(event.at, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z"),
        "reportingController": controller,
        "reportingInstance": INSTANCE if controller == CONTROLLER else controller,
        "type": event.type,
        "reason": event.reason[:_REASON_MAX],
        "action": event.action[:_REASON_MAX],
        "note": cap(event.note, NOTE_MAX),
        "regarding": {
            "apiVersion": ref.api_version,
            "kind": ref.kind,
            "name": ref.name,
            "uid": event.uid,
            **({"namespace": ref.namespace} if ref.namespace else {}),
        },
    }
