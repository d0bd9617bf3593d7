"""The garbage sweep: secondaries whose owner is gone, because the run that should have removed them never happened.

frameworks.md section 2.5. Nothing is deleted on suspicion: not when the primaries cannot all be listed, not when the
owner cannot be read, not when the owner is there again under the same key, not when the secondary has changed since
it was read. Sweeping twice is sweeping once.

An owner may come back under its key between our last look at it and a removal; it would find its secondary there and
lose it a moment later. A stored revision of the owner would not help: NATS counts every change of a value, so each one
would have every secondary written anew, and none tells a new owner from a changed one. Instead, whoever lost something
is looked at once more after the removals: an owner that is there again is told (``returned``) and reconciled anew, and
one that comes later finds nothing left and makes its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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


def _ignore(_key: str) -> None:
    """Tell nobody."""


async def sweep(
    kind: str,
    primary: EntityClient,
    collections: Sequence[Secondaries],
    *,
    returned: Callable[[str], None] = _ignore,
) -> Sweep:
    """Delete the secondaries of primaries of ``kind`` that are gone.

    Args:
        kind: of the primaries; secondaries that name another kind are somebody else's.
        primary: where the primaries are.
        collections: where secondaries are.
        returned: called with the key of each primary that is there after it lost a secondary here: reconcile it.

    Raises:
        WindlassError: the primaries could not be listed; nothing was deleted.
    """
    there = {item.key for item in await primary.list(content=False)}
    removed: list[str] = []
    failures: list[str] = []
    gone: dict[str, bool] = {}
    bereft: dict[str, None] = {}
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
                if not gone[suspect.owner_key]:
                    continue
                bereft[suspect.owner_key] = None  # before it is tried: one that seems to fail may have happened
                if await collection.remove(suspect):
                    removed.append(f"{collection.name}: {suspect.name}")
                    _log.info("removed what had no owner", source=collection.name, name=suspect.name)
            except WindlassError as error:
                failures.append(f"{collection.name}: {suspect.name}: {error}")
    for key in bereft:
        await _look_again(primary, key, returned)
    for failure in failures:
        _log.warning("left to the next sweep", failure=failure)
    return Sweep(removed=tuple(removed), failures=tuple(failures))


async def _look_again(primary: EntityClient, key: str, returned: Callable[[str], None]) -> None:
    try:
        there = await primary.get(key) is not None
    except WindlassError:
        there = True  # nobody knows: a look too many does no harm
    if there:
        returned(key)


async def _is_gone(primary: EntityClient, suspect: Owned) -> bool:
    """Ask for the one primary itself: it may have come since the list. A key that cannot exist belongs to nobody."""
    if not is_valid_key(suspect.owner_key):
        return False  # somebody else's idea of a key: theirs to clear away
    return await primary.get(suspect.owner_key) is None
