from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from io import StringIO

import pytest
import yaml
from rich.console import Console
from rich.text import Text

from windlass.cli.output import PIPE_WIDTH, Output, age, coloured, console, emit, rows

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


class Terminal(StringIO):
    """Standard output that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (0.9, "0s"),
        (119.9, "119s"),
        (120, "2m0s"),
        (3599, "59m59s"),
        (3600, "1h"),
        (48 * 3600 - 1, "47h"),
        (48 * 3600, "2d"),
        (400 * 86400, "400d"),
        (-5, "0s"),
    ],
)
def test_ages(seconds: float, text: str) -> None:
    assert age(NOW - timedelta(seconds=seconds), NOW) == text


def test_no_age_of_what_never_was() -> None:
    assert age(None, NOW) == ""


def drawn(width: int, head: list[str], lines: list[list[str | Text]]) -> list[str]:
    out = StringIO()
    Console(file=out, width=width).print(rows(head, lines))
    return [line.rstrip() for line in out.getvalue().splitlines()]


@pytest.mark.parametrize("text", ["[red]x[/red]", "[/]", "[link=http://x]y[/link]", ":smile:", "a[0]"])
def test_cells_are_text_and_never_markup(text: str) -> None:
    assert drawn(80, ["NAME"], [[text]]) == ["NAME", text]


def test_rows_line_up_below_their_heads() -> None:
    assert drawn(80, ["NAME", "PHASE"], [["a", "Ready"], ["longer", Text("No", "red")]]) == [
        "NAME    PHASE",
        "a       Ready",
        "longer  No",
    ]


def test_no_head_and_no_lines() -> None:
    assert drawn(80, [], [["a", "b"]]) == ["a  b"]
    assert drawn(80, [], []) == [""]


def test_what_is_too_wide_is_folded_and_never_cut() -> None:
    long = "0123456789" * 12
    shown = drawn(80, ["NAME", "MESSAGE"], [["web", long]])
    assert all(len(line) <= 80 for line in shown)
    assert "".join(line.removeprefix("web").strip() for line in shown[1:]) == long


def test_a_pipe_gets_whole_lines_without_colours(capsys: pytest.CaptureFixture[str]) -> None:
    console().print(rows(["NAME", "MESSAGE"], [["web", Text("x" * 500, "red")]]))
    shown = capsys.readouterr().out.splitlines()
    assert len(shown) == 2
    assert "x" * 500 in shown[1]
    assert "\x1b" not in shown[1]
    assert shown[1] == shown[1].rstrip()
    assert PIPE_WIDTH > 500


@pytest.mark.parametrize(("no_color", "colours"), [("", True), ("1", False)])
def test_colours_on_a_terminal_unless_they_are_unwanted(
    no_color: str, colours: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stdout", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", no_color)
    console().print(coloured("True"))
    assert ("\x1b[32m" in terminal.getvalue()) is colours
    assert "True" in terminal.getvalue()


@pytest.mark.parametrize(
    ("background", "yellow"),
    [("", "\x1b[33m"), ("15;0", "\x1b[33m"), ("0;15", "\x1b[38;5;166m"), ("0;default;7", "\x1b[38;5;166m")],
)
def test_a_light_background_gets_darker_colours(background: str, yellow: str, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stdout", terminal)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLORFGBG", background)
    monkeypatch.setenv("NO_COLOR", "")
    console().print(coloured("Unknown"))
    assert yellow in terminal.getvalue()


@pytest.mark.parametrize(
    ("status", "style"), [("True", "green"), ("False", "red"), ("Unknown", "yellow"), ("", "yellow")]
)
def test_colours_of_conditions(status: str, style: str) -> None:
    assert coloured(status) == Text(status, style)


DOCUMENT = {"b": [1, None, "ü"], "a": {"text": "two\nlines", "no": "no"}}


def test_documents_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    emit(DOCUMENT, Output.JSON)
    shown = capsys.readouterr().out
    assert json.loads(shown) == DOCUMENT
    assert "ü" in shown
    assert shown.index('"b"') < shown.index('"a"')
    emit(DOCUMENT, Output.YAML)
    shown = capsys.readouterr().out
    assert yaml.safe_load(shown) == DOCUMENT
    assert "ü" in shown
    assert shown.index("b:") < shown.index("a:")
