"""Draws what a command leaves on a terminal: ``python docs/images/draw.py FILE.svg COMMAND...`` (`make pictures`).

The command runs on a pseudo-terminal; what it writes goes through a terminal emulator, so the picture shows what a
person sees who scrolls back at the end, colours included.
"""

from __future__ import annotations

import argparse
import os
import pty
import re
import sys
from io import StringIO
from itertools import groupby
from pathlib import Path
from typing import Any, Final

import pyte
from rich.console import Console
from rich.style import Style
from rich.text import Text

COLUMNS: Final = 100
ROWS: Final = 40
SCROLLED: Final = 400
"""Lines above the screen that are kept."""

_FONTS: Final = re.compile(r"\s*@font-face \{.*?\}", re.DOTALL)
_COLOURS: Final = {"brown": "yellow", "default": None}


def captured(command: list[str]) -> tuple[int, bytes]:
    """Run a command on a terminal of `COLUMNS`; return its exit code and what it wrote. It is shown meanwhile."""
    written = bytearray()

    def read(descriptor: int) -> bytes:
        data = os.read(descriptor, 65536)
        written.extend(data)
        return data

    os.environ |= {"COLUMNS": str(COLUMNS), "LINES": str(ROWS), "TERM": "xterm-256color"}
    status = pty.spawn(command, read)
    return os.waitstatus_to_exitcode(status), bytes(written)


def lines(data: bytes) -> list[Text]:
    """Return the lines that a terminal shows in the end, those that were scrolled away first."""
    screen = pyte.HistoryScreen(COLUMNS, ROWS, history=SCROLLED, ratio=1.0)
    pyte.ByteStream(screen).feed(data)
    rows = [*screen.history.top, *(screen.buffer[number] for number in range(ROWS))]
    found = [_line(row) for row in rows]
    while found and not found[-1].plain:
        found.pop()
    return found


def _line(row: Any) -> Text:
    text = Text()
    cells = ((_style(row[column]), row[column].data) for column in range(COLUMNS))
    for style, group in groupby(cells, key=lambda cell: cell[0]):
        text.append("".join(data for _, data in group), style)
    text.rstrip()
    return text


def _style(cell: Any) -> Style:
    colour = _COLOURS.get(cell.fg, cell.fg)
    if colour and re.fullmatch(r"[0-9a-f]{6}", colour):
        colour = f"#{colour}"
    return Style(color=colour, bold=cell.bold or None, italic=cell.italics or None)


def since(shown: list[Text], word: str) -> list[Text]:
    """Return the lines from the first one that holds ``word``: what is before tells of the machine."""
    at = next((number for number, one in enumerate(shown) if word in one.plain), 0)
    return shown[at:]


def drawing(shown: list[Text], title: str) -> str:
    """Return the SVG; its height is that of the lines."""
    console = Console(record=True, width=COLUMNS, file=StringIO(), force_terminal=True, color_system="truecolor")
    for one in shown:
        console.print(one, no_wrap=True, overflow="crop")
    svg = console.export_svg(title=title, unique_id="terminal")
    # A page that shows a picture fetches nothing for it: the reader's own monospaced font does.
    return _FONTS.sub("", svg)


def main() -> int:
    """Run, draw, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--since", default="", help="leave out the lines before the first with this text")
    parser.add_argument("file", type=Path)
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    code, data = captured(options.command)
    if code == 0:
        title = " ".join(Path(word).name for word in options.command[:2])
        options.file.write_text(drawing(since(lines(data), options.since), title))
    return code


if __name__ == "__main__":
    sys.exit(main())
