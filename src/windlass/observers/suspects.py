"""Which packages may have ended the processes before this one, and what of them is therefore left undone."""

from __future__ import annotations

from contextlib import AbstractContextManager

import structlog

from windlass.activities.content import Contents
from windlass.adapters.processes.journal import Journal
from windlass.contracts.record import PackageRecord
from windlass.domain.errors import WindlassError
from windlass.domain.ids import PackageKey, package_of, package_workflow_prefix
from windlass.domain.lifecycle import losses
from windlass.ports.records import Records
from windlass.ports.suspects import STEP

_log = structlog.stdlib.get_logger(__name__)


class PackageSuspects:
    """`ports.Suspects` of one process.

    What is under way stands in a file of the process's folder, so that the ordinary case costs no request. Only after a
    process has ended without a word does the next one count, in the state Secrets of the packages that it finds there:
    once for each part that was under way. A part that has done its work is no suspect any more; after
    `windlass.domain.lifecycle.losses.LOSSES` in a row it is left undone, until the package has other content.

    Args:
        journal: of this process.
        records: say which packages have counts.
        contents: write the records.
        installation: the installation id.
    """

    def __init__(self, journal: Journal, *, records: Records, contents: Contents, installation: str) -> None:
        self._journal = journal
        self._records = records
        self._contents = contents
        self._installation = installation
        self._suspects: set[PackageKey] = set()
        self._counts: dict[PackageKey, dict[str, int]] = {}
        prefix = package_workflow_prefix(installation)
        found = {(package_of(installation, f"{prefix}{package}"), part) for package, part in journal.left}
        self._left = [(key, part) for key, part in found if key is not None]
        self._suspects = {key for key, _ in self._left}
        for key, part in self._left:
            _log.warning("an earlier process ended during this work", package=key.package_id, part=part)

    async def settle(self) -> None:
        """Count what the process before had under way, and learn what others have counted.

        Raises:
            WindlassError: the records cannot be listed; tried again by whoever calls.
        """
        for key in await self._records.faulty(self._installation):
            stored = await self._loaded(key)
            if stored is not None:
                self._counts[key] = dict(stored.faults)
        left, self._left = self._left, []
        for key, part in left:
            if part != STEP:  # steps are counted by their workflow, which sees them as remote activities from now on
                await self._write(key, lambda faults, part=part: losses.with_fault(faults, part))

    def opening(self, key: PackageKey, part: str) -> AbstractContextManager[None]:
        """Note what is under way; see `ports.Suspects`."""
        return self._journal.noted(key.package_id, part)

    def suspected(self, key: PackageKey) -> bool:
        """Say whether steps of this package are remote; see `ports.Suspects`."""
        return key in self._suspects

    async def quarantined(self, key: PackageKey, part: str) -> bool:
        """Say whether ``part`` is left undone; see `ports.Suspects`."""
        if not losses.quarantined(self._counts.get(key, {}), part):
            return False
        stored = await self._loaded(key)  # other content, or a person, may have ended it
        self._counts[key] = dict(stored.faults) if stored is not None else {}
        return losses.quarantined(self._counts[key], part)

    async def worked(self, key: PackageKey, part: str) -> None:
        """Clear a part; see `ports.Suspects`."""
        if part == STEP:
            self._suspects.discard(key)
        elif self._counts.get(key, {}).get(part):
            await self._write(key, lambda faults: losses.without_fault(faults, part))

    async def _write(self, key: PackageKey, change: losses.ChangeOfFaults) -> None:
        def changed(record: PackageRecord) -> PackageRecord:
            return record.model_copy(update={"faults": change(record.faults)})

        stored = await self._loaded(key)
        if stored is None:
            return
        try:
            saved = await self._contents.update(key, stored.uid, None, changed)
        except WindlassError as error:
            _log.warning("fault not counted", package=key.package_id, error=str(error))
            return
        self._counts[key] = dict(saved.record.faults)

    async def _loaded(self, key: PackageKey) -> PackageRecord | None:
        try:
            stored = await self._records.load(key)
        except WindlassError as error:
            _log.warning("faults not read", package=key.package_id, error=str(error))
            return None
        return stored[0] if stored is not None else None
