"""Which texts are secret: those from Secrets, and values whose schema says so. Error texts must never quote them.

Nothing else is masked: a default value such as ``redis`` is part of many names, and hiding it hides the message.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from windlass.domain.packages.model import Values
from windlass.domain.settings.schema import Schemas
from windlass.domain.settings.subschemas import composed
from windlass.domain.settings.violations import descend, marked
from windlass.domain.text.documents import is_list, is_object

SHORTEST: Final = 4
"""Characters of a text that is worth masking; shorter ones occur by chance and protect nothing."""

_TRIVIAL: Final = frozenset({"true", "false", "null", "none"})


def secret_texts(concealed: Any) -> frozenset[str]:
    """Return the texts among ``concealed``, the settings that came from Secrets.

    Numbers, booleans and texts of fewer than `SHORTEST` characters are left out.
    """
    return frozenset(_texts(concealed))


def marked_texts(values: Values, schemas: Schemas) -> frozenset[str]:
    """Return the texts among ``values`` at the places that the package's schemas mark as secret."""
    found: set[str] = set()
    for schema in (schemas.settings, schemas.values):
        if schema is not None:
            found.update(_marked(values, [schema.document]))
    return frozenset(found)


def plain_paths(values: Values, schemas: Schemas) -> frozenset[str]:
    """Return the paths, joined by dots, of numbers and booleans that no schema of the package marks as secret."""
    documents = [schema.document for schema in (schemas.settings, schemas.values) if schema is not None]
    return frozenset(_plain("", values, documents))


def _plain(path: str, value: Any, schemas: list[Values]) -> Iterator[str]:
    here = [one for schema in schemas for one in (schema, *composed(schema))]
    if any(marked(schema) for schema in here):
        return
    if isinstance(value, bool | int | float):
        yield path
    elif is_object(value):
        for part, member in value.items():
            below = [sub for schema in here for sub in descend(schema, part)]
            yield from _plain(f"{path}.{part}" if path else part, member, below)


def _marked(value: Any, schemas: list[Values]) -> Iterator[str]:
    here = [one for schema in schemas for one in (schema, *composed(schema))]
    if any(marked(schema) for schema in here):
        yield from _texts(value)
        return
    members = enumerate(value) if is_list(value) else value.items() if is_object(value) else ()
    for part, member in members:
        below = [sub for schema in here for sub in descend(schema, part)]
        if below:
            yield from _marked(member, below)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        if len(value) >= SHORTEST and value.lower() not in _TRIVIAL:
            yield value
    elif is_object(value) or is_list(value):
        for one in value.values() if is_object(value) else value:
            yield from _texts(one)
