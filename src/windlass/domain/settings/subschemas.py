"""Where schemas stand inside schemas: the one list of keywords, and the ways to walk it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, cast

from windlass.domain.packages.model import Values

SCHEMA_MAPS: Final = ("properties", "patternProperties", "dependentSchemas")
_SCHEMA_LISTS = ("allOf", "anyOf", "oneOf", "prefixItems")
_SCHEMAS = (
    "items",
    "additionalProperties",
    "unevaluatedProperties",
    "unevaluatedItems",
    "contains",
    "propertyNames",
    "not",
    "if",
    "then",
    "else",
)
_COMPOSITION = ("allOf", "anyOf", "oneOf", "if", "then", "else", "dependentSchemas")


def rebuild(schema: Values, where: str, visit: Callable[[Values, str], Values]) -> Values:
    """Return a copy in which ``visit(subschema, pointer)`` stands for each direct subschema.

    Booleans are schemas too and stay; anything else that is no schema stays as well, for the metaschema to refuse.
    ``where`` is the JSON pointer of ``schema`` itself.
    """
    out = dict(schema)
    for keyword in SCHEMA_MAPS:
        named = out.get(keyword)
        if isinstance(named, dict):
            out[keyword] = {
                name: visit(cast("Values", sub), f"{where}/{keyword}/{escape(name)}") if isinstance(sub, dict) else sub
                for name, sub in cast("Values", named).items()
            }
    for keyword in _SCHEMA_LISTS:
        listed = out.get(keyword)
        if isinstance(listed, list):
            out[keyword] = [
                visit(cast("Values", sub), f"{where}/{keyword}/{index}") if isinstance(sub, dict) else sub
                for index, sub in enumerate(cast("list[Any]", listed))
            ]
    for keyword in _SCHEMAS:
        sub = out.get(keyword)
        if isinstance(sub, dict):
            out[keyword] = visit(cast("Values", sub), f"{where}/{keyword}")
    return out


def subschemas(schema: Values) -> list[tuple[str, Values]]:
    """Return the schemas directly inside ``schema`` with their JSON pointers relative to it."""
    found: list[tuple[str, Values]] = []

    def note(sub: Values, pointer: str) -> Values:
        found.append((pointer, sub))
        return sub

    rebuild(schema, "", note)
    return found


def composed(schema: Values) -> Iterator[Values]:
    """Yield the schemas that are composed into ``schema`` (allOf, oneOf, if, …), at any depth.

    They speak about the same value as ``schema`` does.
    """
    for pointer, sub in subschemas(schema):
        if pointer.split("/")[1] in _COMPOSITION:
            yield sub
            yield from composed(sub)


def mapping(node: Any) -> dict[Any, Any]:
    """Return ``node`` if it is an object, else an empty one."""
    return cast("dict[Any, Any]", node) if isinstance(node, dict) else {}


def escape(name: Any) -> str:
    """Return ``name`` as a part of a JSON pointer (RFC 6901)."""
    return str(name).replace("~", "~0").replace("/", "~1")
