"""Where two sets of values differ, in words that may stand in a condition."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from typing import Any, Final

from windlass.domain.packages.model import Values
from windlass.domain.text.documents import is_object

TOLD: Final = 8
"""Differences that are told one by one."""

_NAME_MOST: Final = 80
"""Characters of a path."""

_DEEPEST: Final = 64
"""Levels that are compared one by one; what is below differs as a whole."""


def told(stored: Values, wanted: Values, *, plain: Collection[str]) -> str:
    """Say where ``stored`` values differ from the ``wanted`` ones; empty if they do not.

    A value is shown only if it is a number or a boolean at a path that is ``plain``; of everything else only the path
    is told, because it may be secret. A null is the same as nothing at all.

    Args:
        stored: read from a record that anybody may have written.
        wanted: what would replace them.
        plain: paths, joined by dots, whose values are no secrets.
    """
    found = list(_differing("", stored, wanted, plain, 0))
    more = f" and {len(found) - TOLD} more" if len(found) > TOLD else ""
    return ", ".join(found[:TOLD]) + more


def _differing(path: str, stored: Any, wanted: Any, plain: Collection[str], depth: int) -> Iterator[str]:
    if is_object(stored) and is_object(wanted) and depth < _DEEPEST:
        for key in sorted({*stored, *wanted}):
            below = f"{path}.{key}" if path else key
            yield from _differing(below, stored.get(key), wanted.get(key), plain, depth + 1)
        return
    if stored == wanted and isinstance(stored, bool) == isinstance(wanted, bool):
        return
    if stored is None and wanted == {}:
        return
    name = _name(path)
    if wanted is None:
        yield f"{name} would go"
    elif stored is None:
        yield f"{name} would be added"
    elif path in plain and _short(stored) and _short(wanted):
        yield f"{name} would change from {json.dumps(stored)} to {json.dumps(wanted)}"
    else:
        yield f"{name} would change"


def _short(value: Any) -> bool:
    return isinstance(value, bool | int | float) and len(json.dumps(value)) < _NAME_MOST


def _name(path: str) -> str:
    text = "".join(one if one.isprintable() else "?" for one in path[: _NAME_MOST + 1])
    return text if len(path) <= _NAME_MOST else f"{text[:_NAME_MOST]}…"
