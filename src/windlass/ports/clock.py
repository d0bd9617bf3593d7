"""The time."""

from __future__ import annotations

from typing import Protocol


class Clock(Protocol):
    """Wall clock in seconds since the epoch."""

    def now(self) -> float:
        """Return the current time."""
        ...
