"""The garbage sweep: secondaries whose owner is gone, because the run that should have removed them never happened.

frameworks.md section 2.5. Nothing is deleted on suspicion: not when the primaries cannot all be listed, not when the
owner cannot be read, not when the owner is there again under the same key, not when the secondary has changed since
it was read. Sweeping twice is sweeping once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import structlog

from windlass.domain.entities import is_valid_key
from windlass.domain.errors import WindlassError
from windlass.ports.entities import EntityClient, Owned, Secondaries

_log: Final = structlog.stdlib.get_logger(__name__)


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """What one sweep came to.

    Attributes:
        removed: names of the secondaries that were deleted, each with the name of its kind.
        failures: what was left for the next sweep, and why.
    """

    removed: tuple[str, ...] = ()
    failures: tuple[str, ...] = ()


async def sweep(kind: str, primary: EntityClient, collections: Sequence[Secondaries]) -> Sweep:
    """Delete the secondaries of primaries of ``kind`` that are gone.

    Args:
        kind: of the primaries; secondaries that name another kind are somebody else's.
        primary: where the primaries are.
        collections: where secondaries are.

    Raises:
        WindlassError: the primaries could not be listed; nothing was deleted.
    """
    there = {item.key for item in await primary.list(content=False)}
    removed: list[str] = []
    failures: list[str] = []
    gone: dict[str, bool] = {}
    for collection in collections:
        try:
            suspects = [found for found in await collection.owned(kind) if found.owner_key not in there]
        except WindlassError as error:
            failures.append(f"{collection.name}: {error}")
            continue
        for suspect in suspects:
            try:
                if suspect.owner_key not in gone:
                    gone[suspect.owner_key] = await _is_gone(primary, suspect)
                if gone[suspect.owner_key] and await collection.remove(suspect):
                    removed.append(f"{collection.name}: {suspect.name}")
                    _log.info("removed what had no owner", source=collection.name, name=suspect.name)
            except WindlassError as error:
                failures.append(f"{collection.name}: {suspect.name}: {error}")
    for failure in failures:
        _log.warning("left to the next sweep", failure=failure)
    return Sweep(removed=tuple(removed), failures=tuple(failures))


async def _is_gone(primary: EntityClient, suspect: Owned) -> bool:
    """Ask for the one primary itself: it may have come since the list. A key that cannot exist belongs to nobody."""
    if not is_valid_key(suspect.owner_key):
        return False  # somebody else's idea of a key: theirs to clear away
    return await primary.get(suspect.owner_key) is None
