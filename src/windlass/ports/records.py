"""The state that outlives a workflow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from windlass.contracts.record import PackageRecord, RecordRef
from windlass.domain.ids import PackageKey


class Records(Protocol):
    """The state Secret of each package, with optimistic concurrency."""

    async def load(self, key: PackageKey) -> tuple[PackageRecord, RecordRef] | None:
        """Return the record and the reference to this state of it; None if there is none.

        Raises:
            PermanentError: STATE_REJECTED, the Secret is not what Windlass wrote; names it and what to do.
        """
        ...

    async def save(self, key: PackageKey, record: PackageRecord, expected: RecordRef | None) -> RecordRef:
        """Write the record over the state ``expected``; None means that there must be none yet.

        Raises:
            TransientError: API_CONFLICT, somebody else wrote (or deleted) it meanwhile: load and decide again.
            PermanentError: STATE_REJECTED, the record does not fit into a Secret.
        """
        ...

    async def watched(self, installation: str) -> list[PackageKey]:
        """Return the packages whose record has kubernetes bindings enabled."""
        ...

    async def stored(self, installation: str) -> Mapping[PackageKey, str]:
        """Return the packages that have a record, with the resourceVersion of its Secret."""
        ...

    async def faulty(self, installation: str) -> list[PackageKey]:
        """Return the packages whose record counts faults."""
        ...

    async def delete(self, key: PackageKey, *, resource_version: str = "") -> None:
        """Delete the record, with ``resource_version`` only this state of it. Absent is fine.

        Raises:
            TransientError: API_CONFLICT, it is in another state by now.
        """
        ...
