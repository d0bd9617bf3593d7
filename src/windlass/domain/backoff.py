"""How long the lifecycle waits after a failure. The numbers are those of design section 7."""

from __future__ import annotations

from typing import Final

from windlass.domain.errors import Category

INITIAL: Final = 0.5
FACTOR: Final = 1.5
CAP: Final = 60.0
JITTER: Final = 0.2
PERMANENT: Final = 600.0
"""Somebody must act; looking again every ten minutes costs little and forgives a missed signal."""

FREE_INTERRUPTIONS: Final = 2
"""A step that lost its worker is taken up again at once this often in a row."""


def delay(category: Category, attempt: int, *, chance: float) -> float:
    """Return the seconds until the next try.

    Args:
        category: of the failure.
        attempt: how often the step has failed in a row, from 1.
        chance: a number in [0, 1) that spreads the tries of many packages by ±20 %.
    """
    spread = 1 + JITTER * (2 * chance - 1)
    if category is Category.PERMANENT:
        return PERMANENT * spread
    if category is Category.INTERRUPTED and attempt <= FREE_INTERRUPTIONS:
        return 0.0
    exponent = min(attempt - 1, 32)  # past the cap long before, and 1.5**32 is still a small number
    return min(INITIAL * FACTOR**exponent, CAP) * spread
