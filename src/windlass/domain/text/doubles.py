"""jq's numbers are doubles: what that means for integers that pass through a program."""

from __future__ import annotations

from typing import Any, Final

from windlass.domain.text.documents import is_list, is_object

_EXACT: Final = 2**53


def unrounded(before: Any, after: Any) -> Any:
    """Return ``after``, what jq has made of ``before``, with the integers that jq's doubles have rounded as they were.

    Only integers beyond 2**53 that stand where they stood are meant; one that a program has computed stays its own.
    """
    if isinstance(before, int) and not isinstance(before, bool) and isinstance(after, int | float):
        return before if abs(before) > _EXACT and float(before) == after else after
    if is_object(before) and is_object(after):
        return {key: unrounded(before.get(key), value) for key, value in after.items()}
    if is_list(before) and is_list(after) and len(before) == len(after):
        return [unrounded(one, other) for one, other in zip(before, after, strict=True)]
    return after
