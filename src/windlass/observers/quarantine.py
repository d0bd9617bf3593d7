"""Tells the lifecycles of packages which of their parts are broken, and when they work again.

A lifecycle writes what it is told into the condition `Quarantined`. It is told on change only: a part that keeps
failing for the same reason causes one signal.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

import structlog

from windlass.contracts.lifecycle import FaultyPart, Quarantined
from windlass.domain.backoff import delay
from windlass.domain.errors import Category, WindlassError
from windlass.domain.faults import Fault, by_part
from windlass.domain.ids import PackageKey

if TYPE_CHECKING:
    from windlass.observers.shard import Shard

WORKER: Final = "worker"
WATCHER: Final = "watcher"

REVIEW: Final = 60.0
"""Seconds for which a condition that an earlier process has caused may stand before it is withdrawn: within that time a
part that is still broken has failed again."""

_log = structlog.stdlib.get_logger(__name__)

type _Said = frozenset[tuple[str, str]] | None
"""Part and reason of what a lifecycle was told last; None if that is not known."""


class Lifecycles(Protocol):
    """The lifecycles of packages."""

    async def quarantined(self, key: PackageKey, message: Quarantined) -> bool:
        """Tell a running lifecycle; return False if none runs."""
        ...


@dataclass
class _Package:
    """What is known of one package; forgotten as soon as there is nothing to tell."""

    faults: dict[object, Fault] = field(default_factory=dict[object, Fault])
    said: _Said = frozenset()
    sending: asyncio.Task[None] | None = None
    review: asyncio.TimerHandle | None = None


class Quarantine:
    """`border.Faults`: remembers what is broken and tells the lifecycles.

    Args:
        lifecycles: take the signal.
        source: the kind of process: each knows of its own parts only.
    """

    def __init__(self, lifecycles: Lifecycles, source: str) -> None:
        self._lifecycles = lifecycles
        self._source = source
        self._packages: dict[PackageKey, _Package] = {}

    def __len__(self) -> int:
        """How many packages are remembered."""
        return len(self._packages)

    def failed(self, key: PackageKey, run: object, fault: Fault) -> None:
        """Note that work has failed; see `windlass.observers.border.Faults`."""
        package = self._packages.setdefault(key, _Package())
        package.faults[run] = fault
        self._tell(key, package)

    def works(self, key: PackageKey, run: object) -> None:
        """Note that work works again; see `windlass.observers.border.Faults`."""
        package = self._packages.get(key)
        if package is not None and package.faults.pop(run, None) is not None:
            self._tell(key, package)

    def ended(self, key: PackageKey, run: object) -> None:
        """Note that work was cancelled; see `windlass.observers.border.Faults`.

        Nobody is told at once: the package may be on its way to another process, or its hooks may be about to change.
        """
        package = self._packages.get(key)
        if package is not None and package.faults.pop(run, None) is not None:
            self._review(key, package)

    def observed(self, key: PackageKey, *, quarantined: bool) -> None:
        """Note what an object's status says; a condition that nothing here stands behind is withdrawn after a while.

        For whoever sees the objects of served packages anyway: the process that set the condition may be gone.
        """
        if not quarantined or key in self._packages:
            return
        package = self._packages[key] = _Package(said=None)
        self._review(key, package)

    @asynccontextmanager
    async def serving(self, shard: Shard) -> AsyncGenerator[None]:
        """Forget the packages of ``shard`` when it is given up; see `ShardService`."""
        try:
            yield
        finally:
            await self.leave(shard.serves)

    async def leave(self, serves: Callable[[PackageKey], bool]) -> None:
        """Forget packages without telling anybody: another process looks after them from now on."""
        sending: list[asyncio.Task[None]] = []
        for key in [key for key in self._packages if serves(key)]:
            package = self._packages.pop(key)
            if package.review is not None:
                package.review.cancel()
            if package.sending is not None:
                package.sending.cancel()
                sending.append(package.sending)
        await asyncio.gather(*sending, return_exceptions=True)

    def _review(self, key: PackageKey, package: _Package) -> None:
        if package.review is None:
            package.review = asyncio.get_running_loop().call_later(REVIEW, self._reviewed, key, package)

    def _reviewed(self, key: PackageKey, package: _Package) -> None:
        package.review = None
        self._tell(key, package)

    def _tell(self, key: PackageKey, package: _Package) -> None:
        if self._packages.get(key) is package and (package.sending is None or package.sending.done()):
            package.sending = asyncio.create_task(self._send(key, package))

    async def _send(self, key: PackageKey, package: _Package) -> None:
        """Tell until what was told is what is known."""
        failures = 0
        while True:
            faults = by_part(package.faults.values())
            said = frozenset((fault.part, fault.reason) for fault in faults)
            if said == package.said:
                break
            parts = tuple(FaultyPart(part=one.part, reason=one.reason, cause=one.cause) for one in faults)
            try:
                taken = await self._lifecycles.quarantined(key, Quarantined(source=self._source, parts=parts))
            except Exception as error:  # noqa: BLE001 - it ends only with success: nobody else would tell
                failures += 1
                reason = error.reason.value if isinstance(error, WindlassError) else type(error).__name__
                _log.warning("quarantine not taken", package=key.package_id, reason=reason, error=str(error))
                await asyncio.sleep(delay(Category.TRANSIENT, failures, chance=0.5))
                continue
            failures = 0
            if not taken:  # no lifecycle runs: whoever starts one is told with the next fault
                package.said = frozenset()
                break
            package.said = said
        if not package.faults and self._packages.get(key) is package:
            if package.review is not None:
                package.review.cancel()
            del self._packages[key]
