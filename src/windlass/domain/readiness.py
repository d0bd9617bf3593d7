"""When is an object ready? kstatus rules over unstructured objects."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Progress:
    """How far a wait has come: objects done, objects awaited, and up to five reasons (``Kind/name: why``)."""

    completed: int
    remaining: int
    waiting_for: tuple[str, ...] = ()
