"""Which process serves which shard: an even share for each, moving as few shards as possible.

Every process computes this from the same facts and acts on its own part only: it takes what is free and gives up what
another is to have. Each single act keeps the result the same or brings it nearer, so the order in which processes act
does not matter.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

MAX_SHARDS: Final = 256
"""More would cost more polls of Temporal than they spread load."""


def assign(count: int, members: Collection[str], owners: Mapping[int, str]) -> dict[int, str]:
    """Return the member that is to serve each shard.

    Args:
        count: number of shards; they are 0 to ``count`` - 1.
        members: who takes part; each gets ``count / len(members)`` shards, rounded down or up.
        owners: who serves a shard now; shards without an owner, or with one that takes no part, are given away.

    Returns:
        An owner for each shard; empty when there are no members. A member that stays keeps what it has up to its
        share, and those who have most get the larger shares.
    """
    if not members:
        return {}
    held: dict[str, list[int]] = {member: [] for member in members}
    for shard in range(count):
        if (owner := owners.get(shard)) in held:
            held[owner].append(shard)
    share, larger = divmod(count, len(held))
    ordered = sorted(held, key=lambda member: (-len(held[member]), member))
    shares = {member: share + (place < larger) for place, member in enumerate(ordered)}
    result = {shard: member for member in ordered for shard in held[member][: shares[member]]}
    free = iter([shard for shard in range(count) if shard not in result])
    for member in ordered:
        room = shares[member] - len(held[member])
        result.update((next(free), member) for _ in range(max(0, room)))
    return result
