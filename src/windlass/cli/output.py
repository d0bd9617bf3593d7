"""How commands print: tables for people, JSON and YAML for programs."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console
    from rich.table import Table


class Output(StrEnum):
    """Output formats; ``json`` and ``yaml`` are stable for programs."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"


def console() -> Console:
    """Return the console of standard output; colours only on a terminal, none with NO_COLOR."""
    from rich.console import Console

    return Console(highlight=False, soft_wrap=not sys.stdout.isatty())


def emit(document: Any, output: Output) -> None:
    """Print ``document`` as JSON or YAML."""
    if output is Output.JSON:
        sys.stdout.write(json.dumps(document, indent=2, ensure_ascii=False, default=str) + "\n")
        return
    import yaml

    sys.stdout.write(yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=120))


def table(*columns: str) -> Table:
    """Return an empty table in kubectl's manner: upper case heads, no lines."""
    from rich.table import Table

    made = Table(box=None, pad_edge=False, header_style="bold", show_edge=False)
    for column in columns:
        made.add_column(column, overflow="fold")
    return made


def rows(head: Sequence[str], lines: Sequence[Sequence[str]]) -> Table:
    """Return a table of text."""
    made = table(*head)
    for line in lines:
        made.add_row(*line)
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


def coloured(ready: str) -> str:
    """Return a condition's status with its colour as rich markup."""
    colour = {"True": "green", "False": "red"}.get(ready, "yellow")
    return f"[{colour}]{ready}[/{colour}]"
