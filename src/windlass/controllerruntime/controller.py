"""What a custom controller implements."""

from __future__ import annotations

import asyncio
from typing import Protocol

from windlass.ports.entities import Document


class IController(Protocol):
    """The part of a controller that only its author can write; the runtime holds the loop and calls back.

    (contract: IController; frameworks.md section 2.2)
    """

    async def run(self, threadiness: int, stop: asyncio.Event) -> None:
        """Start the reconciling loop: call `ControllerRuntime.run` with the same arguments and return with it.

        (contract: Run)

        Raises:
            WindlassError: the loop cannot go on (contract: errCh).
        """
        ...

    async def sync_handler(self, key: str) -> None:
        """Compare what is with what the primary ``key`` wants, and bring the one to the other (contract: SyncHandler).

        Called once for a key at a time, for many keys at once. The operation is not passed on purpose: read the
        primary; if it is absent, what is wanted is nothing. Has to be idempotent.

        Raises:
            Exception: whatever it is, the key is tried again later.
        """
        ...

    async def handle_secondary(self, obj: Document) -> None:
        """Take note that a secondary was added, changed or deleted (``obj`` is then as it was last known).

        (contract: HandleSecondary; frameworks.md section 2.4)

        The usual body is ``self.runtime.enqueue_owner(obj)``. An object whose owner changed comes twice: as it was, and
        as it is.
        """
        ...

    async def garbage_secondaries(self) -> None:
        """Delete secondaries whose owner does not exist (contract: GarbageSecondaries; frameworks.md section 2.5).

        Called once before the workers start, then with each resync. The usual body is ``await self.runtime.sweep()``.
        """
        ...

    async def clean(self) -> None:
        """Do what is necessary when the controller stops: called once, after the last `sync_handler` has ended.

        (contract: Clean; frameworks.md section 2.6)
        """
        ...
