"""Walking JSON values."""

from __future__ import annotations

import copy
from typing import Any, Final, cast

from windlass.domain.packages.model import Values

MAX_DEPTH: Final = 64
"""Levels of nesting that values may have; what walks them recurses, and so do the JSON encoder and Helm."""


def merge(low: Values, high: Values) -> Values:
    """Return ``low`` overlaid with ``high``: objects merge key by key, everything else is replaced whole.

    Lists are replaced, never joined. A null in ``high`` is a value like any other: it replaces and stays null, and
    defaults do not fill it. (Helm reads a null as "without the chart's default"; so it must reach Helm.)
    """
    merged = copy.deepcopy(low)
    for key, value in high.items():
        below = merged.get(key)
        if isinstance(below, dict) and isinstance(value, dict):
            merged[key] = merge(cast("Values", below), cast("Values", value))
        else:
            merged[key] = copy.deepcopy(value)
    return merged


def deeper_than(content: Any, limit: int = MAX_DEPTH) -> bool:
    """Say whether ``content`` nests objects and lists more than ``limit`` levels deep, without recursion."""
    level: list[Any] = [content]
    for _ in range(limit + 1):
        level = [child for node in level for child in _children(node)]
        if not level:
            return False
    return True


def _children(node: Any) -> list[Any]:
    if isinstance(node, dict):
        return list(cast("Values", node).values())
    return cast("list[Any]", node) if isinstance(node, list) else []
