"""Finds the line of a value in a YAML text, for messages about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from yaml._yaml import CParser
from yaml.error import YAMLError
from yaml.events import (
    AliasEvent,
    DocumentEndEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
    StreamEndEvent,
)

from windlass.domain.text.document_limits import DOCUMENT, DocumentError, decode_text
from windlass.domain.text.yaml_reading import check_directives

_OFF: Final = -1


@dataclass(slots=True)
class _Level:
    """A collection that is open; ``matched`` parts of the path lead to it, `_OFF` if it is beside the path."""

    mapping: bool
    matched: int
    index: int = 0
    key: str | None = None
    line: int = 0


def line_of(text: str | bytes, path: Sequence[str]) -> int:
    """Return the line of the deepest part of ``path`` that the first document has, counted from 1; 0 if it has none.

    Args:
        text: YAML; anything else has no lines.
        path: keys of mappings and indexes of lists.
    """
    try:
        text = decode_text(text, DOCUMENT)
        check_directives(text)
        parser = CParser(text)
        try:
            return _search(parser, path)
        finally:
            parser.dispose()
    except (DocumentError, YAMLError, UnicodeEncodeError):
        return 0


def _search(parser: CParser, path: Sequence[str]) -> int:
    levels: list[_Level] = []
    best = found = 0
    while True:
        event = parser.get_event()
        kind: type[object] = type(event)
        if kind in (StreamEndEvent, DocumentEndEvent):
            return found
        if kind in (MappingEndEvent, SequenceEndEvent):
            levels.pop()
            continue
        if kind not in (ScalarEvent, AliasEvent, MappingStartEvent, SequenceStartEvent):
            continue
        matched, line = _step(levels[-1], event, path) if levels else (0, 0)
        if matched > best:
            best, found = matched, line
        if kind in (MappingStartEvent, SequenceStartEvent):
            levels.append(_Level(kind is MappingStartEvent, matched))
            if len(levels) > DOCUMENT.depth:
                return found


def _step(level: _Level, event: Any, path: Sequence[str]) -> tuple[int, int]:
    """Take the next node of a collection; return how many parts of the path lead to it, and their last line."""
    line: int = event.start_mark.line + 1
    if level.mapping and level.key is None:
        level.key, level.line = str(getattr(event, "value", "")), line
        return _OFF, 0
    part = level.key if level.mapping else str(level.index)
    line = level.line if level.mapping else line
    level.key = None
    level.index += 1
    on_path = level.matched != _OFF and level.matched < len(path) and path[level.matched] == part
    return (level.matched + 1, line) if on_path else (_OFF, 0)
