"""Kubernetes Events about our objects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from windlass.ports.kube import ObjectRef


@dataclass(frozen=True, kw_only=True)
class EventNote:
    """One thing that happened to an object.

    ``reason`` says why (a word), ``action`` what was done (a word), ``note`` both for people. ``at`` is in seconds
    since the epoch and part of the Event's identity: the same note recorded again, by a repeated activity, is one
    Event.
    """

    regarding: ObjectRef
    uid: str
    type: Literal["Normal", "Warning"]
    reason: str
    note: str
    action: str
    at: float


class EventLog(Protocol):
    """Kubernetes Events."""

    async def record(self, events: Sequence[EventNote]) -> None:
        """Create the Events in order; one that exists already is left as it is."""
        ...
