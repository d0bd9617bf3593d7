"""The history of a package as people read it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC
from typing import TYPE_CHECKING, Final

from windlass.cli.output import first_line, rows
from windlass.domain.lifecycle.releases import DEPLOYED, FAILED, SUPERSEDED
from windlass.observers.inspection.story import CONDITION, Entry
from windlass.runtime.history import MomentKind, Outcome

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

_GREEN: Final = {Outcome.DONE.value, DEPLOYED, SUPERSEDED, "True"}
_RED: Final = {Outcome.FAILED.value, Outcome.LOST.value, Outcome.REFUSED.value, FAILED, "False"}


def history_table(entries: Sequence[Entry]) -> Table:
    """Return one line for each entry, newest last; times are UTC, with dates where they are not all of one day."""
    one_day = len({entry.at.astimezone(UTC).date() for entry in entries}) <= 1
    form = "%H:%M:%S" if one_day else "%m-%d %H:%M:%S"
    lines = [
        [
            f"{entry.at.astimezone(UTC):{form}}",
            entry.kind,
            entry.what + (f" ({entry.times} times)" if entry.times > 1 else ""),
            _result(entry),
            "" if entry.took is None else f"{entry.took:.1f}s",
            _detail(entry),
        ]
        for entry in entries
    ]
    return rows(["TIME", "KIND", "WHAT", "RESULT", "TOOK", "WHY"], lines, whole={"TIME", "KIND", "TOOK"})


def _result(entry: Entry) -> Text:
    from rich.text import Text

    good, bad = entry.result in _GREEN, entry.result in _RED and entry.kind != CONDITION
    return Text(entry.result, "green" if good else "red" if bad else "yellow")


def _detail(entry: Entry) -> str:
    why = first_line(entry.why)
    if entry.kind != MomentKind.ACTION:
        return why
    return f"{entry.who}: {why}" if why else entry.who
