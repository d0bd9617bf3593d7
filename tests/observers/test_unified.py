"""Diffs say what `difflib` says, at a cost that does not hang on what is compared."""

from __future__ import annotations

import difflib

from hypothesis import given
from hypothesis import strategies as st

from windlass.observers.inspection.unified import COMPARED, CONTEXT, SHOWN, unified

LINES = st.lists(st.sampled_from("abcd"), max_size=30)


def applied(before: list[str], lines: list[str]) -> list[str]:
    """Return what a unified diff makes of ``before``."""
    result: list[str] = []
    at = 0
    for line in lines[2:]:
        if line.startswith("@@"):
            start, _, count = line.split(" ")[1][1:].partition(",")
            begin = int(start) - (0 if count == "0" else 1)
            result += before[at:begin]
            at = begin
        elif line.startswith("+"):
            result.append(line[1:])
        else:
            assert before[at] == line[1:]
            at += 1
            if line.startswith(" "):
                result.append(line[1:])
    return result + before[at:]


@given(before=LINES, after=LINES)
def test_a_diff_makes_the_one_text_out_of_the_other(before: list[str], after: list[str]) -> None:
    lines = unified(before, after, "a", "b")
    assert bool(lines) == (before != after)
    assert applied(before, lines) == after


@given(head=LINES, before=LINES, after=LINES, tail=LINES)
def test_equal_lines_at_both_ends_do_not_change_what_is_shown(
    head: list[str], before: list[str], after: list[str], tail: list[str]
) -> None:
    one, other = ["x", *head, "<", *before, ">", *tail], ["x", *head, "<", *after, ">", *tail]
    lines = unified(one, other, "a", "b")
    shown = [line for line in lines if line.startswith(("-", "+"))]
    expected = list(difflib.unified_diff(one, other, "a", "b", n=CONTEXT, lineterm=""))
    assert len(shown) <= len([line for line in expected if line.startswith(("-", "+"))]) + len(before) + len(after)
    assert applied(one, lines) == other


def test_long_differences_are_shown_in_one_piece() -> None:
    before, after = [f"{number % 7}" for number in range(COMPARED)], [f"{number % 5}" for number in range(COMPARED + 1)]
    lines = unified(["same", *before], ["same", *after], "a", "b")
    assert applied(["same", *before], lines) == ["same", *after]
    assert sum(line.startswith("@@") for line in lines) == 1


def test_what_is_too_long_is_counted() -> None:
    lines = unified([], [str(number) for number in range(3 * SHOWN)], "a", "b")
    assert len(lines) == SHOWN + 1
    assert lines[-1] == f"# {2 * SHOWN + 3} more lines"
