r"""Regular expressions of OpenAPI schemas, in the dialect and the engine they were written for: RE2.

RE2 matches in linear time, so no pattern of a package can hang a worker. Its ``$`` is the end of the text and its
``\d`` is ASCII (as in Go and ECMA-262); it has no lookaround and no backreferences.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

import re2

PATTERN_MAX: Final = 1024
"""Characters of one pattern."""

TEXT_MAX: Final = 64 * 1024
"""Characters of a text that is matched: linear, but not for free."""

_MEMORY: Final = 1 << 20
"""Bytes that one compiled pattern may take; counted repetitions multiply."""


def translate(pattern: str) -> str:
    """Return ``pattern`` if RE2 takes it.

    Raises:
        ValueError: it is too long or RE2 refuses it (lookaround, backreferences, too much repetition); says why.
    """
    if len(pattern) > PATTERN_MAX:
        raise ValueError(f"the pattern has {len(pattern)} characters; at most {PATTERN_MAX} are allowed")
    _compiled(pattern)
    return pattern


def matches(source: str, text: str) -> bool:
    """Say whether a pattern that `translate` took is found in ``text``.

    Raises:
        ValueError: the text is longer than `TEXT_MAX`.
    """
    if len(text) > TEXT_MAX:
        raise ValueError(f"is longer than the {TEXT_MAX} characters that can be matched")
    return _compiled(source).search(text) is not None


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> Any:
    engine: Any = re2  # the binding carries no types
    options = engine.Options()
    options.log_errors = False
    options.max_mem = _MEMORY
    try:
        return engine.compile(pattern, options)
    except engine.error as error:
        detail = error.args[0] if error.args else "refused"
        text = detail.decode(errors="replace") if isinstance(detail, bytes) else str(detail)
        raise ValueError(f"the pattern does not compile: {text}") from error
