"""How commands print: tables for people, JSON and YAML for programs."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console
    from rich.table import Table
    from rich.text import Text


PIPE_WIDTH: Final = 1000
"""Characters of a line that does not go to a terminal."""


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


def console() -> Console:
    """Return the console of standard output; colours only on a terminal, none with NO_COLOR."""
    from rich.console import Console

    # Nobody sees the edge of a pipe: programs and pagers get whole lines, as from kubectl.
    return Console(highlight=False, width=None if sys.stdout.isatty() else PIPE_WIDTH)


def emit(document: Any, output: Output | Document) -> None:
    """Print ``document`` as JSON or YAML."""
    if output in {Output.JSON, Document.JSON}:
        sys.stdout.write(json.dumps(document, indent=2, ensure_ascii=False, default=str) + "\n")
        return
    import yaml

    sys.stdout.write(yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=120))


def rows(head: Sequence[str], lines: Sequence[Sequence[str | Text]]) -> Table:
    """Return a table in kubectl's manner: upper case heads, no lines. Cells are text, never markup."""
    from rich.table import Table
    from rich.text import Text

    made = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="bold", show_header=bool(head))
    for column in head or [""] * (len(lines[0]) if lines else 0):
        made.add_column(column, overflow="fold")
    for line in lines:
        made.add_row(*(Text(cell) if isinstance(cell, str) else cell for cell in line))
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
