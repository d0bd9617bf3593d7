"""Reads single files of a package, bounded, and says what is wrong with them and where."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, cast

from windlass.domain.packages.model import Values
from windlass.domain.text.documents import DocumentError, parse_document, parse_helm

STATIC_VALUES: Final = "values.yaml"
CHART: Final = "Chart.yaml"
CHART_SCHEMA: Final = "values.schema.json"
SUBCHARTS: Final = "charts"

MAX_FILE: Final = 5 << 20
"""Bytes of one file that is read as a whole; larger ones are data."""


class FileError(ValueError):
    """A file of the package is not what it should be.

    Attributes:
        file: path in the package.
        line: counted from 1; 0 if it is the file as a whole.
        problem: what is wrong.
        hint: what to do.
    """

    def __init__(self, file: str, problem: str, hint: str, *, line: int = 0) -> None:
        super().__init__(f"{file}: {problem}")
        self.file = file
        self.line = line
        self.problem = problem
        self.hint = hint


def read_yaml(root: Path, name: str, parse: Callable[[bytes], Any] = parse_document) -> Any:
    """Return what one YAML or JSON file of the package holds, None if it is empty. A byte order mark is ignored.

    Args:
        root: the package's folder.
        name: of the file, relative to it.
        parse: reads the content; `parse_helm` for files of charts, which Helm reads, too.

    Raises:
        FileError: naming the place.
        OSError: the file cannot be read.
    """
    path = root / name
    if (size := path.stat().st_size) > MAX_FILE:
        raise FileError(name, f"has {size} bytes; at most {MAX_FILE} are allowed", "keep data out of it")
    try:
        return parse(path.read_bytes())
    except DocumentError as error:
        key = f" ({error.key!r})" if error.key else ""
        raise FileError(name, f"{error.message}{key}", "correct the file at that place", line=error.line) from None


def read_mapping(root: Path, name: str, parse: Callable[[bytes], Any] = parse_document) -> Values | None:
    """Return the mapping in a file, None if the file is missing or empty.

    Raises:
        FileError: it holds something else, or as `read_yaml`.
    """
    document = read_yaml(root, name, parse) if (root / name).is_file() else None
    if document is None:
        return None
    if not isinstance(document, dict):
        raise FileError(name, f"holds a {type(document).__name__}, not a mapping", "write `name: value` lines")
    return cast("Values", document)


def read_chart_schema(root: Path) -> Values | None:
    """Return the chart's own schema, None where it has none or only Helm can apply it.

    Values of subcharts count for the schema of the chart around them; Helm puts them together.
    """
    if not (root / CHART_SCHEMA).is_file() or ((root / SUBCHARTS).is_dir() and any((root / SUBCHARTS).iterdir())):
        return None
    try:
        document = read_yaml(root, CHART_SCHEMA, parse_helm)
    except FileError:
        return None
    return cast("Values", document) if isinstance(document, dict) else None
