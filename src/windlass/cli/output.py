"""How commands print: tables for people, JSON and YAML for programs."""

from __future__ import annotations

import json
import os
import sys
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from rich.console import Console, RenderableType
    from rich.table import Table
    from rich.text import Text


PIPE_WIDTH: Final = 1000
"""Characters of a line that does not go to a terminal."""

_GAP: Final = 2
"""Characters between two columns; one less than kubectl's, for lists that fit into 80."""


_LIGHT: Final = {"7", "15"}
"""Backgrounds in COLORFGBG (``foreground;background``, as rxvt, Konsole and others set it) that are light."""

_DARKER: Final = {"yellow": "dark_orange3", "green": "green4", "cyan": "dark_cyan", "dim": "none"}


class Output(StrEnum):
    """Output formats; ``json`` and ``yaml`` are stable for programs."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"


class Document(StrEnum):
    """Output formats of what is one document."""

    YAML = "yaml"
    JSON = "json"


def console(*, at_least: int = 0) -> Console:
    """Return the console of standard output; colours only on a terminal, none with NO_COLOR.

    Where the terminal says by COLORFGBG that its background is light, what would be hard to read there is darker.

    Args:
        at_least: columns to draw for; a narrower terminal breaks the lines itself, which loses nothing.
    """
    from rich.console import Console
    from rich.theme import Theme

    light = os.environ.get("COLORFGBG", "").rpartition(";")[2] in _LIGHT
    # Nobody sees the edge of a pipe: programs and pagers get whole lines, as from kubectl.
    width = None if sys.stdout.isatty() else PIPE_WIDTH
    made = Console(highlight=False, width=width, theme=Theme(_DARKER) if light else None)
    made.width = max(made.width, at_least)
    return made


def emit(document: Any, output: Output | Document) -> None:
    """Print ``document`` as JSON or YAML."""
    if output in {Output.JSON, Document.JSON}:
        sys.stdout.write(json.dumps(document, indent=2, ensure_ascii=False, default=str) + "\n")
        return
    import yaml

    sys.stdout.write(yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=120))


def rows(head: Sequence[str], lines: Sequence[Sequence[str | Text]], whole: Collection[str] = ()) -> Table:
    """Return a table in kubectl's manner: upper case heads, no lines. Cells are text, never markup.

    Args:
        head: names of the columns; empty for none.
        lines: cells, as many in each line as there are columns.
        whole: columns that are never folded, however narrow the terminal is.
    """
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    columns = list(head) or [""] * (len(lines[0]) if lines else 0)
    last = len(columns) - 1

    def cell(at: int, text: str | Text, style: str = "") -> RenderableType:
        content = Text(text, style) if isinstance(text, str) else text
        # A table's own padding is counted at the edge too, where none is drawn: narrow tables would be cut by as much.
        return content if at == last else Padding(content, (0, _GAP, 0, 0))

    made = Table(box=None, padding=0, show_header=bool(head))
    for at, column in enumerate(columns):
        width = len(column) + (0 if at == last else _GAP)
        made.add_column(cell(at, column, "bold"), overflow="fold", min_width=width, no_wrap=column in whole)
    for line in lines:
        made.add_row(*(cell(at, text) for at, text in enumerate(line)))
    return made


def age(since: datetime | None, now: datetime | None = None) -> str:
    """Return how long ago something was, in kubectl's manner: 12s, 3m5s, 4h, 2d."""
    if since is None:
        return ""
    seconds = max(int(((now or datetime.now(UTC)) - since).total_seconds()), 0)
    if seconds < 120:
        return f"{seconds}s"
    if seconds < 3600:
        return f"{seconds // 60}m{seconds % 60}s"
    if seconds < 48 * 3600:
        return f"{seconds // 3600}h"
    return f"{seconds // 86400}d"


def coloured(status: str) -> Text:
    """Return a condition's status in its colour."""
    from rich.text import Text

    return Text(status, {"True": "green", "False": "red"}.get(status, "yellow"))


def first_line(text: str) -> str:
    """Return the first line of a text, marked if there are more."""
    first, *more = text.splitlines() or [""]
    return f"{first} …" if more else first
