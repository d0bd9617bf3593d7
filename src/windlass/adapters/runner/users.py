"""A user of its own for each package, where the runner has the rights to give one."""

from __future__ import annotations

import zlib
from typing import Final

from windlass.adapters.runner import kernel

BASES: Final = (200_000, 30_000)
"""First user id of packages; the second where a user namespace maps the usual 65,536 ids only."""

RANGE: Final = 20_000
"""How many ids there are."""

_NEEDED: Final = (kernel.CHOWN, kernel.DAC_OVERRIDE, kernel.FOWNER, kernel.KILL, kernel.SETGID, kernel.SETUID)


class Users:
    """Gives ids to packages: nearly always the same one, never one that another package has.

    Args:
        base: the first id, 0 if all hooks run as the runner's own user.
        size: how many there are.
    """

    def __init__(self, base: int, size: int = RANGE) -> None:
        self._base = base
        self._size = size
        self._given: dict[str, int] = {}
        self._taken: set[int] = set()

    @property
    def own(self) -> bool:
        """Whether each package has a user of its own."""
        return self._base > 0

    def of(self, package: str) -> int:
        """Return the user id (and group id) for a package; 0 for the runner's own.

        Raises:
            OSError: all ids are given away.
        """
        if not self.own:
            return 0
        if package not in self._given:
            if len(self._taken) >= self._size:
                raise OSError(0, f"all {self._size} user ids are given to packages: start the runner again")
            slot = zlib.crc32(package.encode()) % self._size
            while slot in self._taken:
                slot = (slot + 1) % self._size
            self._taken.add(slot)
            self._given[package] = slot
        return self._base + self._given[package]


def available() -> int:
    """Return the first user id that this process may give to packages, 0 if it may not."""
    if not kernel.capable(*_NEEDED):
        return 0
    with open("/proc/self/uid_map", encoding="ascii") as uid_map:
        ranges = [tuple(map(int, line.split())) for line in uid_map]
    for base in BASES:
        if any(inside <= base and base + RANGE <= inside + size for inside, _, size in ranges):
            return base
    return 0
