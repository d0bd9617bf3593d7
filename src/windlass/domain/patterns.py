r"""Regular expressions of OpenAPI schemas, translated to Python's.

Schemas are written for engines in which ``$`` is the end of the text and ``\d`` is ASCII (ECMA-262, and Go's RE2, which
packages of this format were validated with). In Python ``$`` also matches before a last newline and ``\d`` takes
digits of all scripts, so a name with a newline at its end would pass.
"""

from __future__ import annotations

import re
from typing import Final

TEXT_MAX: Final = 8 * 1024
"""Characters of a text that is matched: Python's engine backtracks, on longer texts quadratic patterns take seconds."""

PATTERN_MAX: Final = 1024
"""Characters of one pattern."""

_UNSUPPORTED = (
    ("(?=", "lookahead"),
    ("(?!", "negative lookahead"),
    ("(?<=", "lookbehind"),
    ("(?<!", "negative lookbehind"),
    ("(?P=", "a backreference"),
    ("(?(", "a conditional"),
    ("[[:", "a POSIX class"),
)
_BACKREFERENCE = re.compile(r"(?<!\\)(?:\\\\)*\\[1-9]")


def translate(pattern: str) -> str:
    """Return ``pattern`` as Python source with the meaning it has in RE2.

    Raises:
        ValueError: it is too long, does not compile, or uses what RE2 refuses (lookaround, backreferences).
    """
    if len(pattern) > PATTERN_MAX:
        raise ValueError(f"the pattern has {len(pattern)} characters; at most {PATTERN_MAX} are allowed")
    for token, name in _UNSUPPORTED:
        if token in pattern:
            raise ValueError(f"the pattern uses {name} ({token}), which is not supported")
    if _BACKREFERENCE.search(pattern):
        raise ValueError("the pattern uses a backreference, which is not supported")
    source = f"(?a:{_anchored(pattern)})"
    try:
        re.compile(source)
    except re.error as error:
        raise ValueError(f"the pattern does not compile: {error.msg}") from error
    return source


def matches(source: str, text: str) -> bool:
    """Say whether a translated pattern is found in ``text``; every match of a schema's pattern goes through here.

    Raises:
        ValueError: the text is longer than `TEXT_MAX`.
    """
    if len(text) > TEXT_MAX:
        raise ValueError(f"is longer than the {TEXT_MAX} characters that can be matched")
    return re.search(source, text) is not None


def _anchored(pattern: str) -> str:
    r"""Replace each ``$`` and ``\z`` outside a character class by Python's end of text."""
    out: list[str] = []
    in_class = False
    position = 0
    while position < len(pattern):
        char = pattern[position]
        if char == "\\":
            pair = pattern[position : position + 2]
            out.append(r"\Z" if pair == r"\z" and not in_class else pair)
            position += 2
            continue
        if char == "[" and not in_class:
            in_class = True
            # A `]` right after the opening bracket (or its `^`) is a member of the class, not its end.
            end = position + 1
            end += pattern[end : end + 1] == "^"
            end += pattern[end : end + 1] == "]"
            out.append(pattern[position:end])
            position = end
            continue
        if char == "]":
            in_class = False
        out.append(r"\Z" if char == "$" and not in_class else char)
        position += 1
    return "".join(out)
