"""The chart as Helm gets to see it: a folder of links to the package's files, and a ``Chart.yaml`` of our own making.

Nothing here but the standard library: the warm children do it, since making and removing a few files holds up the event
loop of a busy worker for 7 ms.
"""

from __future__ import annotations

import uuid
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

PREFIX: Final = "chart-"
"""What the names of staged folders start with."""

CHART_YAML: Final = "Chart.yaml"


def new_folder(scratch: Path) -> Path:
    """Name a folder for `staged`; it does not exist yet."""
    return scratch / f"{PREFIX}{uuid.uuid4().hex}"


@contextmanager
def staged(chart: Path, metadata: str, folder: Path) -> Generator[Path]:
    """Make ``folder``, which Helm reads as the chart, and remove it afterwards.

    Args:
        chart: the package's folder.
        metadata: the text of ``Chart.yaml`` (`windlass.adapters.helm.chart.annotated`).
        folder: does not exist yet; see `new_folder`.
    """
    folder.mkdir(mode=0o700)
    try:
        for entry in chart.iterdir():
            if entry.name != CHART_YAML:
                (folder / entry.name).symlink_to(entry.absolute())
        (folder / CHART_YAML).write_text(metadata)
        yield folder
    finally:
        unstaged(folder)


def unstaged(folder: Path) -> None:
    """Remove what `staged` made, also if its process was killed in the middle of it."""
    if folder.exists():
        for entry in folder.iterdir():
            entry.unlink()  # links and one file: what the links lead to stays
        folder.rmdir()
