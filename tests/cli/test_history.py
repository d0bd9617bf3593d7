"""`windlass history`: one story out of several sources, within the terminal."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from io import StringIO
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from windlass.cli.inspect.history import history_table
from windlass.contracts.objects import ActionRecord
from windlass.observers.inspection.story import Entry, Story, gaps, history_document, merged, with_actions
from windlass.runtime.history import Chronicle

NOW: Final = datetime(2026, 1, 1, 0, 5, 0, tzinfo=UTC)
LONG: Final = "ValidationFailed: settings.replicas is 9, at most 3 are allowed by the schema of this package"


def entry(second: float, kind: str = "step", what: str = "Load", result: str = "done", **more: object) -> Entry:
    return Entry(at=NOW + timedelta(seconds=second), kind=kind, what=what, result=result, **more)  # type: ignore[arg-type]


def drawn(*entries: Entry, width: int) -> list[str]:
    out = StringIO()
    Console(file=out, width=width, highlight=False).print(history_table(entries))
    lines = out.getvalue().splitlines()
    assert all(cell_len(line) <= width for line in lines), "\n".join(lines)
    return [line.rstrip() for line in lines]


def test_one_line_for_each_thing_newest_last() -> None:
    action = entry(2.2, "action", "pause", who="ann", why="audit")
    assert drawn(entry(1, took=0.25, why="webapp 1.1.0"), action, width=80) == [
        "TIME      KIND    WHAT   RESULT  TOOK  WHY",
        "00:05:01  step    Load   done    0.2s  webapp 1.1.0",
        "00:05:02  action  pause  done          ann: audit",
    ]


def test_dates_stand_there_only_if_there_are_several() -> None:
    assert drawn(entry(0), entry(86400), width=80)[1:][0].startswith("01-01 00:05:00  step")


@pytest.mark.parametrize("width", [80, 100, 160])
def test_long_texts_are_folded_in_their_column(width: int) -> None:
    failed = entry(1, what="hooks/before-helm-of-a-long-name.sh", result="failed", took=12.5, why=LONG)
    head, *lines = drawn(failed, entry(2), width=width)
    starts = [head.index(one) for one in ("TIME", "KIND", "WHAT", "RESULT", "TOOK", "WHY")]
    cells = [
        "".join(line[a:b].strip() for line in lines[:-1]) for a, b in zip(starts, [*starts[1:], None], strict=True)
    ]
    assert cells[:2] == ["00:05:01", "step"]
    assert cells[2] == failed.what
    assert cells[3:5] == ["failed", "12.5s"]
    assert cells[5].replace(" ", "") == LONG.replace(" ", "")
    assert lines[-1].split() == ["00:05:02", "step", "Load", "done"]


@settings(deadline=None)
@given(st.lists(st.builds(entry, st.floats(0, 1e6), what=st.text(max_size=60), why=st.text(max_size=90)), min_size=1))
def test_whatever_the_texts_no_line_is_longer_than_the_terminal(entries: list[Entry]) -> None:
    drawn(*entries, width=80)


def test_signals_in_a_row_are_one() -> None:
    signals = [entry(at, "signal", "desired_changed", "", who="watcher") for at in (1, 2, 4, 5)]
    story = merged([*signals, entry(3)])
    assert [(one.kind, one.times) for one in story] == [("signal", 2), ("step", 1), ("signal", 2)]


def test_actions_say_what_they_were_about_and_are_told_once() -> None:
    told = [
        entry(1, "action", "pause", who="ann", why="audit"),
        entry(2, "action", "pause", "refused", who="ann", why="audit"),
        entry(3),
    ]
    kept = [
        ActionRecord(action="pause", detail="before UpgradeRelease", who="ann", why="audit", at=NOW),
        ActionRecord(action="rollback", detail="to revision 1 (1.0.0)", who="bob", at=NOW - timedelta(days=90)),
    ]
    assert [(one.what, one.result, one.who) for one in with_actions(told, kept)] == [
        ("pause before UpgradeRelease", "done", "ann"),
        ("pause", "refused", "ann"),
        ("Load", "done", ""),
        ("rollback to revision 1 (1.0.0)", "done", "bob"),
    ]


def test_a_condition_comes_after_what_made_it_true_in_the_same_second() -> None:
    story = merged([entry(1, "condition", "Ready", "True"), entry(1.8), entry(2.5)])
    assert [one.kind for one in story] == ["step", "condition", "step"]


@pytest.mark.parametrize(
    ("complete", "since", "made", "says"),
    [
        (True, 1, 0, ""),
        (True, 3600, None, ""),
        (True, 3600, 0, "steps and signals before 2026-01-01 01:05:00: Temporal has forgotten them"),
        (False, 1, 0, "it keeps ended runs for 3 days"),
        (False, None, 0, "Temporal knows no run of this package"),
    ],
)
def test_what_is_not_known_any_more_is_said(complete: bool, since: int | None, made: int | None, says: str) -> None:
    at = None if since is None else NOW + timedelta(seconds=since)
    known = Chronicle(moments=(), complete=complete, since=at, retention=timedelta(days=3))
    told = gaps(known, None if made is None else NOW + timedelta(seconds=made))
    assert len(told) == (1 if says else 0)
    assert says in "".join(told)


def test_a_document_for_programs() -> None:
    story = Story(entries=[entry(1, "action", "pause", who="ann", why="audit"), entry(2, took=0.0)], forgotten=["x"])
    assert history_document(story) == {
        "entries": [
            {
                "time": "2026-01-01T00:05:01Z",
                "kind": "action",
                "what": "pause",
                "result": "done",
                "who": "ann",
                "why": "audit",
            },
            {"time": "2026-01-01T00:05:02Z", "kind": "step", "what": "Load", "result": "done", "seconds": 0.0},
        ],
        "forgotten": ["x"],
    }
