"""What was being done for whom when a process ended without a word."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Final, Protocol

from windlass.domain.ids import PackageKey

STEP: Final = "step"
"""The part under which steps that begin in a local activity are noted."""


class Suspects(Protocol):
    """Notes what is under way, so that the next process on the same machine knows what may have ended this one.

    A part is a kind of work for a package besides its remote activities: ``drift``, ``informers``, ``step``.
    """

    def opening(self, key: PackageKey, part: str) -> AbstractContextManager[None]:
        """Note that ``part`` of the package's work is under way while the context is open. Costs microseconds."""
        ...

    def suspected(self, key: PackageKey) -> bool:
        """Say whether work for this package was under way when an earlier process ended without a word."""
        ...

    async def quarantined(self, key: PackageKey, part: str) -> bool:
        """Say whether ``part`` of the package's work is to be left undone: it has ended too many processes."""
        ...

    async def worked(self, key: PackageKey, part: str) -> None:
        """Take note that ``part`` has done its work: it is no suspect any more."""
        ...
