"""What is wrong with values, in words their owner can act on and without giving secrets away."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from jsonschema import ValidationError

from windlass.domain.errors import cap
from windlass.domain.packages.model import Values
from windlass.domain.settings.openapi import PATTERN_SOURCE
from windlass.domain.settings.subschemas import composed, subschemas

SECRET_MARK: Final = "x-windlass-secret"  # noqa: S105 - the name of a mark, not a secret
HIDDEN: Final = "(hidden)"

_SHOWN_MAX = 60  # bytes of a given value, an allowed list or a key in a message
_ALTERNATIVES_MAX = 3
_PLAIN_KEY = re.compile(r"[A-Za-z_][\w-]*")

type Path = tuple[str | int, ...]


@dataclass(frozen=True, kw_only=True)
class Violation:
    """One rule that values break.

    Attributes:
        path: ``settings.nodes[2].size``.
        message: what is wrong with it (``must be an integer``).
        given: the value in short, its shape if it is no plain value, or `HIDDEN`; empty if nothing is given.
        allowed: what the schema allows; empty if the message says it all.
    """

    path: str
    message: str
    given: str = ""
    allowed: str = ""

    def __str__(self) -> str:
        notes = [f"{name} {text}" for name, text in (("given", self.given), ("allowed", self.allowed)) if text]
        return f"{self.path}: {self.message}" + (f" ({'; '.join(notes)})" if notes else "")


def render_path(root: str, path: Sequence[str | int]) -> str:
    """Return ``root.a.b[2]["odd key"]``; keys are shortened to what fits in a line."""
    out = root
    for part in path:
        if isinstance(part, int):
            out += f"[{part}]"
        elif _PLAIN_KEY.fullmatch(part):
            out += f".{cap(part, _SHOWN_MAX)}" if out else cap(part, _SHOWN_MAX)
        else:
            out += f"[{json.dumps(cap(part, _SHOWN_MAX), ensure_ascii=False)}]"
    return out or "."


def explain(error: ValidationError, document: Values, *, root: str, concealed: Values) -> Violation:
    """Put one error of the vocabulary into words.

    ``given`` is hidden where the schema marks the field, something around it or something in it as secret
    (``x-windlass-secret: true`` or ``format: password``), and where ``concealed`` holds a value at that path.
    """
    path: Path = tuple(error.absolute_path)
    message, given, allowed = _WORDS.get(str(error.validator), _other)(error)
    if given and (_is_secret(document, path) or _holds(concealed, path)):
        given = HIDDEN
    return Violation(path=render_path(root, path), message=message, given=given, allowed=allowed)


# -- words -----------------------------------------------------------------------------------------------------------

type Words = tuple[str, str, str]


def _type(error: ValidationError) -> Words:
    wanted = _type_names(error)
    scalar_wanted = not any(name in wanted for name in ("object", "array"))
    # A plain value where a structure belongs may be anything, a connection string with a password for one.
    given = _shown(error.instance) if scalar_wanted else _shape(error.instance)
    return f"must be {wanted}", given, ""


def _type_names(error: ValidationError) -> str:
    names = cast(
        "list[str]", [error.validator_value] if isinstance(error.validator_value, str) else error.validator_value
    )
    return " or ".join(names)


def _enum(error: ValidationError) -> Words:
    options = [_shown(option) for option in cast("list[Any]", error.validator_value)]
    shown = ", ".join(options[:10]) + (f", … ({len(options)} in all)" if len(options) > 10 else "")
    return "is not one of the allowed values", _shown(error.instance), shown


def _const(error: ValidationError) -> Words:
    return "has a fixed value", _shown(error.instance), _shown(error.validator_value)


def _required(error: ValidationError) -> Words:
    schema = cast("Values", error.schema)
    described: Any = schema.get("properties", {}).get(error.path[-1]) if error.path else None
    kind = cast("Values", described).get("type", "") if isinstance(described, dict) else ""
    return "is required", "", str(kind)


def _unknown(error: ValidationError) -> Words:
    names = sorted(cast("Values", error.schema).get("properties", {}))
    key = str(error.path[-1]) if error.path else ""
    close = difflib.get_close_matches(key, names, n=1)
    shown = cap(", ".join(names), 200) if names else "no keys"
    return "is not known" + (f"; did you mean {close[0]}?" if close else ""), "", shown


def _pattern(error: ValidationError) -> Words:
    source = cast("Values", error.schema).get(PATTERN_SOURCE, error.validator_value)
    return error.message, _shown(error.instance), f"text that matches {cap(str(source), 200)}"


def _format(error: ValidationError) -> Words:
    return f"is no valid {error.validator_value}", _shown(error.instance), ""


def _bound(text: str) -> Callable[[ValidationError], Words]:
    def words(error: ValidationError) -> Words:
        return f"must be {text} {error.validator_value}", _shown(error.instance), ""

    return words


def _size(text: str) -> Callable[[ValidationError], Words]:
    def words(error: ValidationError) -> Words:
        return f"must have {text.format(error.validator_value)}", _shape(error.instance), ""

    return words


def _alternatives(error: ValidationError) -> Words:
    if not error.context:
        return "fits more than one of the alternatives; exactly one must hold", _shape(error.instance), ""
    branches: dict[Any, list[str]] = {}
    for problem in error.context:
        branch = problem.relative_schema_path[0] if problem.relative_schema_path else 0
        place = render_path("", tuple(problem.relative_path))
        words = _WORDS.get(str(problem.validator), _other)(problem)[0]
        branches.setdefault(branch, []).append(words if place == "." else f"{place} {words}")
    shown = [" and ".join(problems[:2]) for problems in list(branches.values())[:_ALTERNATIVES_MAX]]
    return "fits none of the alternatives: " + "; or ".join(shown), _shape(error.instance), ""


def _other(error: ValidationError) -> Words:
    # jsonschema's own texts quote the instance, so they are never used.
    return f"breaks the rule {error.validator or 'false'}", _shape(error.instance), _shown(error.validator_value)


_WORDS: Final[dict[str, Callable[[ValidationError], Words]]] = {
    "type": _type,
    "enum": _enum,
    "const": _const,
    "required": _required,
    "additionalProperties": _unknown,
    "pattern": _pattern,
    "format": _format,
    "minimum": _bound("at least"),
    "maximum": _bound("at most"),
    "exclusiveMinimum": _bound("greater than"),
    "exclusiveMaximum": _bound("less than"),
    "multipleOf": _bound("a multiple of"),
    "minLength": _size("at least {} characters"),
    "maxLength": _size("at most {} characters"),
    "minItems": _size("at least {} items"),
    "maxItems": _size("at most {} items"),
    "minProperties": _size("at least {} keys"),
    "maxProperties": _size("at most {} keys"),
    "uniqueItems": lambda error: ("must not hold an item twice", _shape(error.instance), ""),
    "anyOf": _alternatives,
    "oneOf": _alternatives,
}


def _shown(value: Any) -> str:
    if isinstance(value, dict | list):
        return _shape(cast("Any", value))
    text = json.dumps(value, ensure_ascii=False)
    return cap(text, _SHOWN_MAX)


def _shape(value: Any) -> str:
    match value:
        case dict():
            return f"an object with {len(cast('Values', value))} keys"
        case list():
            return f"a list of {len(cast('list[Any]', value))} items"
        case str():
            return f"a text of {len(value)} characters"
        case None:
            return "null"
        case bool():
            return "a boolean"
        case _:
            return "a number"


# -- secrecy ---------------------------------------------------------------------------------------------------------


def _is_secret(document: Values, path: Path) -> bool:
    """Say whether the field at ``path``, something around it or something below it is marked as secret.

    All schemas that speak about a place are asked, alternatives included: the rule that is broken may stand in another
    one than the mark.
    """
    here = [document, *composed(document)]
    for part in path:
        if any(marked(schema) for schema in here):
            return True
        steps = [step for schema in here for step in descend(schema, part)]
        here = [sub for step in steps for sub in (step, *composed(step))]
    return any(_marked_within(schema) for schema in here)


def marked(schema: Values) -> bool:
    """Say whether a schema marks what it describes as secret."""
    return schema.get(SECRET_MARK) is True or schema.get("format") == "password"


def _marked_within(schema: Values) -> bool:
    return marked(schema) or any(_marked_within(sub) for _, sub in subschemas(schema))


def descend(schema: Values, part: str | int) -> Iterator[Values]:
    """Yield the schemas that speak about the member ``part``; those that only may are included."""
    for pointer, sub in subschemas(schema):
        keyword = pointer.split("/")[1]
        if isinstance(part, int):
            if keyword in ("items", "prefixItems", "contains"):
                yield sub
        elif keyword == "properties":
            if sub is schema["properties"].get(part):
                yield sub
        elif keyword in ("patternProperties", "additionalProperties"):
            yield sub


def _holds(concealed: Any, path: Path) -> bool:
    """Say whether ``concealed`` has a value at ``path`` or on the way to it."""
    node = concealed
    for part in path:
        if isinstance(node, dict) and part in node:
            node = cast("Values", node)[cast("str", part)]
        elif isinstance(node, list) and isinstance(part, int) and part < len(cast("list[Any]", node)):
            node = cast("list[Any]", node)[part]
        else:
            return not isinstance(node, dict | list)
    return bool(path)
