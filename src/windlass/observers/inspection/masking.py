"""Hides in objects what is secret."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator
from typing import Any, Final, cast

HIDDEN: Final = "(hidden)"

_SHORTEST: Final = 4
"""Characters of a setting from a Secret that is looked for elsewhere: a shorter one would hide half of the text."""


def masked(obj: dict[str, Any], concealed: dict[str, Any], texts: Iterable[str] = ()) -> dict[str, Any]:
    """Hide the data of a Secret, and in any object the texts that came from Secrets.

    Args:
        obj: as rendered.
        concealed: the settings that came from Secrets.
        texts: others that are hidden wherever they stand, such as values that a schema marks as secret.
    """
    shown = dict(obj)
    if obj.get("kind") == "Secret":
        for part in ("data", "stringData"):
            if isinstance(obj.get(part), dict):
                shown[part] = dict.fromkeys(cast("dict[str, Any]", obj[part]), HIDDEN)
    plain = {*_texts(concealed), *texts}
    found = plain | {base64.b64encode(text.encode()).decode() for text in plain}
    secrets = sorted({text for text in found if len(text) >= _SHORTEST}, key=len, reverse=True)
    return cast("dict[str, Any]", _without(shown, secrets))


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for one in cast("dict[str, Any]", value).values():
            yield from _texts(one)
    elif isinstance(value, list):
        for one in cast("list[Any]", value):
            yield from _texts(one)
    elif isinstance(value, (str, int, float)) and not isinstance(value, bool):
        yield str(value)


def _without(value: Any, secrets: Iterable[str]) -> Any:
    if isinstance(value, dict):
        return {key: _without(one, secrets) for key, one in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [_without(one, secrets) for one in cast("list[Any]", value)]
    if not isinstance(value, (str, int, float)) or isinstance(value, bool):
        return value
    text = str(value)
    for secret in secrets:
        text = text.replace(secret, HIDDEN)
    return value if text == str(value) else text
