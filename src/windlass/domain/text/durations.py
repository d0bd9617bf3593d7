"""Durations as people write them: ``90s``, ``30m``, ``1h30m``, ``2d``."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Final

_UNITS: Final = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}
_PART: Final = re.compile(r"(\d{1,9}(?:\.\d{1,6})?)([smhd])")


class DurationError(ValueError):
    """The text is no duration."""


def parse_duration(text: str) -> timedelta:
    """Read a duration; ``0`` needs no unit.

    Raises:
        DurationError: it is none.
    """
    parts = _PART.findall(text)
    if text == "0":
        return timedelta()
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise DurationError(f"{text!r} is no duration; write it like 90s, 30m, 1h30m or 2d")
    return timedelta(seconds=sum(float(number) * _UNITS[unit] for number, unit in parts))


def show_duration(duration: timedelta) -> str:
    """Return a duration as `parse_duration` reads it, in whole seconds: ``1h30m``, ``0s``."""
    left = max(round(duration.total_seconds()), 0)
    parts: list[str] = []
    for unit, seconds in _UNITS.items():
        count, left = divmod(left, seconds)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"
