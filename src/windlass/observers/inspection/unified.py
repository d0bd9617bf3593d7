"""Unified diffs whose cost is bounded: what is compared may have been written to be slow to compare."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Final

CONTEXT: Final = 3
"""Lines around a difference, as of diff(1)."""

COMPARED: Final = 400
"""Lines that are compared one by one between the first and the last difference. `difflib` takes cubic time at worst;
more lines than these are shown as replaced in one piece."""

SHOWN: Final = 5_000
"""Lines of one diff; what is left out is counted."""


def unified(before: Sequence[str], after: Sequence[str], name_before: str, name_after: str) -> list[str]:
    """Return the lines of a unified diff; none if nothing differs."""
    same_before = _same(before, after)
    rest_before, rest_after = before[same_before:], after[same_before:]
    same_after = _same(rest_before[::-1], rest_after[::-1])
    middle_before = rest_before[: len(rest_before) - same_after]
    middle_after = rest_after[: len(rest_after) - same_after]
    if len(middle_before) + len(middle_after) > COMPARED:
        lines = [
            f"--- {name_before}",
            f"+++ {name_after}",
            f"@@ -{_place(same_before, middle_before)} +{_place(same_before, middle_after)} @@",
            *(f"-{line}" for line in middle_before),
            *(f"+{line}" for line in middle_after),
        ]
    else:
        # Equal lines at both ends cost nothing, and only those around the difference are shown.
        begin = max(same_before - CONTEXT, 0)
        end_before = min(same_before + len(middle_before) + CONTEXT, len(before))
        end_after = min(same_before + len(middle_after) + CONTEXT, len(after))
        found = difflib.unified_diff(
            before[begin:end_before], after[begin:end_after], name_before, name_after, n=CONTEXT, lineterm=""
        )
        lines = [_moved(line, begin) for line in found]
    if len(lines) > SHOWN:
        return [*lines[:SHOWN], f"# {len(lines) - SHOWN} more lines"]
    return lines


def _place(begin: int, lines: Sequence[str]) -> str:
    """Return where lines are: of none, the line before counts (POSIX, diff, unified format)."""
    return f"{begin + 1 if lines else begin},{len(lines)}"


def _same(one: Sequence[str], other: Sequence[str]) -> int:
    """Return how many lines are equal at the beginning."""
    count = 0
    for left, right in zip(one, other, strict=False):
        if left != right:
            break
        count += 1
    return count


def _moved(line: str, begin: int) -> str:
    """Return a line of a diff that began ``begin`` lines into the texts: heads of hunks count from there."""
    if not begin or not line.startswith("@@ "):
        return line
    _, left, right, _ = line.split(" ")
    return f"@@ {_range(left, begin)} {_range(right, begin)} @@"


def _range(text: str, begin: int) -> str:
    start, comma, count = text[1:].partition(",")
    return f"{text[0]}{int(start) + begin}{comma}{count}"
