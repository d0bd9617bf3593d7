"""Defaults of schemas, filled in where a value says nothing."""

from __future__ import annotations

import copy
from typing import Any, cast

from windlass.domain.packages.model import Values
from windlass.domain.settings.vocabulary import key_matches


def fill_defaults(values: Values, schema: Values) -> Values:
    """Return a copy of ``values`` in which every missing property with a default has it.

    Defaults apply at every level that exists: inside given objects and list items, inside a default itself, and through
    ``allOf``; a missing object without a default of its own is not made up, and alternatives (oneOf, anyOf) give no
    defaults, since which one holds is for the value to say. A given null stays null.

    Args:
        values: any JSON object.
        schema: a prepared schema (`windlass.domain.settings.openapi`), references expanded.
    """
    return cast("Values", _fill(values, schema))


def _fill(value: Any, schema: Any) -> Any:
    if not isinstance(schema, dict):
        return copy.deepcopy(value)
    known = cast("Values", schema)
    if isinstance(value, dict):
        filled: Any = _fill_object(cast("Values", value), known)
    elif isinstance(value, list):
        filled = [_fill(item, known.get("items")) for item in cast("list[Any]", value)]
    else:
        filled = value
    for part in known.get("allOf", ()):
        filled = _fill(filled, part)
    return filled


def _fill_object(value: Values, schema: Values) -> Values:
    properties: Values = schema.get("properties", {})
    filled = {key: _fill(item, _schema_of(key, schema)) for key, item in value.items()}
    for name, sub in properties.items():
        if name not in filled and isinstance(sub, dict) and "default" in sub:
            filled[name] = _fill(cast("Values", sub)["default"], cast("Values", sub))
    return filled


def _schema_of(key: str, schema: Values) -> Any:
    """Return the schema that describes the value under ``key``, or None."""
    if key in schema.get("properties", {}):
        return schema["properties"][key]
    for pattern, sub in schema.get("patternProperties", {}).items():
        if key_matches(pattern, key):
            return sub
    return schema.get("additionalProperties")
