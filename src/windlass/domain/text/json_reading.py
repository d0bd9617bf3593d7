"""Reads JSON within limits: depth and number of values are counted before anything is built.

Python's decoder recurses for each level of nesting, and what it builds can take a hundred times the memory of its text.
"""

from __future__ import annotations

import json
import math
import re
from array import array
from collections.abc import Iterable
from itertools import accumulate
from typing import Any, Final, cast

from windlass.domain.text.document_limits import Limits, error_at, too_deep, too_many_nodes

_SPACE: Final = re.compile(r"[ \t\r\n]*")
_STRING: Final = re.compile(rb'"[^"]*+(?:"|\Z)')
_OTHERS: Final = bytes(sorted(set(range(256)) - set(b'[]{},:"')))
_STEPS: Final = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")
_ESCAPED_SURROGATE: Final = re.compile(r"\\u[dD][89a-fA-F]")
_LONGEST_NUMBER: Final = 400
"""Digits of an integer; a double ends at 309, and Python takes quadratic time for long ones."""


class _RefusedError(Exception):
    """Valid syntax that means something we do not take; the caller knows where it stands."""

    def __init__(self, problem: str, key: str = "") -> None:
        super().__init__(problem)
        self.key = key


def read_json_stream(text: str, limits: Limits, *, unique: bool) -> list[Any]:
    """Return JSON documents that follow one another, with any white space or none between them.

    Args:
        text: without a byte order mark.
        limits: hold for all documents together.
        unique: refuse a key that stands twice in one object; else the last one wins.

    Raises:
        DocumentError: names the place where reading stopped.
    """
    _check(text, limits)
    decoder = _UNIQUE if unique else _LAST_WINS
    documents: list[Any] = []
    position = _skip_space(text, 0)
    while position < len(text):
        try:
            document, position = decoder.raw_decode(text, position)
        except json.JSONDecodeError as error:
            raise error_at(text, error.pos, error.msg) from None
        except _RefusedError as error:
            raise error_at(text, position, str(error), key=error.key) from None
        documents.append(document)
        if len(documents) > limits.nodes:
            raise too_many_nodes(limits)
        position = _skip_space(text, position)
    return _without_halves(documents) if _ESCAPED_SURROGATE.search(text) else documents


def _check(text: str, limits: Limits) -> None:
    """Refuse what is too deep or has too many values, by a linear scan.

    Most texts pass by counting characters: each level has a bracket, and each value in a collection but its first has a
    comma or a colon before it. Documents in a row are counted as they are read.
    """
    opened = text.count("[") + text.count("{")
    if opened <= limits.depth and 2 * opened + text.count(",") + text.count(":") <= limits.nodes:
        return
    marks = _outside_strings(text)
    levels = array("b", marks.translate(_STEPS, b",:"))
    if max(accumulate(levels), default=0) > limits.depth:
        raise too_deep(limits)
    if 2 * (marks.count(b"[") + marks.count(b"{")) + marks.count(b",") + marks.count(b":") > limits.nodes:
        raise too_many_nodes(limits)


def _outside_strings(text: str) -> bytes:
    """Return the brackets, commas and colons outside of strings; right up to where the text ceases to be JSON.

    Each step is one pass in C: a regular expression over all strings would take four times as long as reading them.
    """
    raw = text.encode(errors="surrogatepass")
    if b"\\" in raw:
        raw = raw.replace(b"\\\\", b"").replace(b'\\"', b"")
    # Two quotes side by side are an empty string, or end one string and start another one: both may go.
    marks = raw.translate(None, _OTHERS).replace(b'""', b"")
    return _STRING.sub(b"", marks)


def _skip_space(text: str, position: int) -> int:
    space = _SPACE.match(text, position)
    return space.end() if space else position


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping = dict(pairs)
    if len(mapping) < len(pairs):
        raise _RefusedError("a key stands twice in one object", _repeated(key for key, _ in pairs))
    return mapping


def _repeated(keys: Iterable[str]) -> str:
    seen: set[str] = set()
    return next((key for key in keys if key in seen or seen.add(key)), "")


def _finite(literal: str) -> float:
    number = float(literal)
    if not math.isfinite(number):
        raise _RefusedError("a number is too large")
    return number


def _integer(literal: str) -> int:
    if len(literal) > _LONGEST_NUMBER:
        raise _RefusedError("a number is too large")
    return int(literal)


def _no_constant(literal: str) -> float:
    raise _RefusedError(f"{literal} is not JSON")


_UNIQUE: Final = json.JSONDecoder(
    object_pairs_hook=_unique, parse_float=_finite, parse_int=_integer, parse_constant=_no_constant
)
_LAST_WINS: Final = json.JSONDecoder(parse_float=_finite, parse_int=_integer, parse_constant=_no_constant)


def _without_halves(value: Any) -> Any:
    """Replace halves of surrogate pairs, which no encoding can say, as Go does."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list):
        return [_without_halves(one) for one in cast("list[Any]", value)]
    if isinstance(value, dict):
        return {_without_halves(key): _without_halves(one) for key, one in cast("dict[str, Any]", value).items()}
    return value
