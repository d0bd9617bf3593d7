"""From the OpenAPI v3 schemas that packages carry to JSON Schema 2020-12 documents that can be validated with.

Rules: deckhouse.md section 5 and hooks.md section 8. References inside a file are expanded, nothing is ever fetched.
The steps are `expand` (each file for itself), `extend` (values schema over settings schema), `close` (unknown keys are
refused) and, for the check just before Helm, `require_for_helm`. No input is changed; parts may be shared between input
and output, so nobody may change an output either.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, cast
from urllib.parse import unquote

from windlass.domain.errors import cap
from windlass.domain.packages.model import Values
from windlass.domain.settings.subschemas import SCHEMA_MAPS, composed, escape, mapping, rebuild
from windlass.domain.settings.vocabulary import schema_errors
from windlass.domain.text import patterns

MAX_NODES: Final = 20_000
"""Schemas in one document after expansion; references that multiply each other stop here."""

MAX_DEPTH: Final = 64
"""Parts of the JSON pointer to a schema, and references in a row: far more than people nest, far less than Python's
stack takes."""

SETTINGS_FILES: Final = ("settings.yaml", "config-values.yaml")
"""What a values schema may name in ``x-extend``: the settings schema under its two names."""

PATTERN_SOURCE: Final = "x-windlass-pattern"
"""Keeps a pattern as its author wrote it, for messages."""

_DEFINITIONS = ("definitions", "$defs", "components")
_IDENTITIES = ("$id", "id", "$schema", "$anchor", "$dynamicAnchor", "$comment")
_DYNAMIC = ("$dynamicRef", "$recursiveRef")
_BOUNDS = (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum"))
_INHERITED = ("title", "description")


class SchemaError(ValueError):
    """A schema is wrong. ``where`` is a JSON pointer into the document, ``problem`` says what and what to do."""

    def __init__(self, where: str, problem: str) -> None:
        super().__init__(f"{where or '/'}: {problem}")
        self.where = where
        self.problem = problem


def expand(schema: Values, *, fallback: Values | None = None) -> Values:
    """Return one file with its references expanded, in JSON Schema spelling, checked against the metaschema.

    Args:
        schema: the parsed file.
        fallback: the parsed settings schema, if ``schema`` is a values schema: what it refers to and does not define
            itself is looked up there.

    Raises:
        SchemaError: names the place.
    """
    document = _Document(schema, _Document(fallback) if fallback is not None else None)
    expanded = _translate(_expand(schema, document, "", ("#",)), "")
    for error in schema_errors(expanded):
        raise SchemaError("".join(f"/{escape(part)}" for part in error.absolute_path), cap(error.message, 300))
    if expanded.get("type", "object") != "object":
        raise SchemaError("/type", "the schema must describe an object (type: object)")
    return expanded


def extend(schema: Values, settings: Values | None) -> Values:
    """Merge an expanded settings schema below an expanded values schema that asks for it with ``x-extend``.

    Properties, required names, title, description and ``x-`` marks are taken over; what the values schema says wins.

    Raises:
        SchemaError: the mark is malformed, or there is no settings schema.
    """
    mark = schema.get("x-extend")
    if mark is None:
        return schema
    name = cast("Values", mark).get("schema") if isinstance(mark, dict) else None
    if name not in SETTINGS_FILES:
        raise SchemaError("/x-extend", f"must be {{schema: {SETTINGS_FILES[0]}}}")
    if settings is None:
        raise SchemaError("/x-extend", f"extends {name}, but the package has no settings schema")
    inherited = {key: value for key, value in settings.items() if key in _INHERITED or key.startswith("x-")}
    merged = {**inherited, **schema}
    for keyword in ("properties", "patternProperties"):
        if keyword in settings or keyword in schema:
            merged[keyword] = {**settings.get(keyword, {}), **schema.get(keyword, {})}
    if "required" in settings or "required" in schema:
        merged["required"] = _union(settings.get("required", []), schema.get("required", []))
    return merged


def close(schema: Values) -> Values:
    """Refuse unknown keys of objects that do not say otherwise, through ``properties`` and ``items``.

    Alternatives (allOf, oneOf, …) see the whole object, so they are left as they are, and the keys they name are known
    beside them.
    """
    out = dict(schema)
    if "additionalProperties" not in out and (
        out.get("type") == "object" or "properties" in out or "patternProperties" in out
    ):
        branches = list(composed(out))
        if not any(branch.get("additionalProperties") for branch in branches):
            out["additionalProperties"] = False
            for keyword in ("properties", "patternProperties"):
                named = {name: True for branch in branches for name in mapping(branch.get(keyword))}
                if named:
                    out[keyword] = {**named, **mapping(out.get(keyword))}
    if "properties" in out:
        out["properties"] = {name: _close_schema(sub) for name, sub in mapping(out["properties"]).items()}
    if "items" in out:
        out["items"] = _close_schema(out["items"])
    return out


def _close_schema(schema: Any) -> Any:
    return close(cast("Values", schema)) if isinstance(schema, dict) else schema


def require_for_helm(prepared: Values) -> Values:
    """Return the schema that holds just before Helm runs: ``x-required-for-helm`` joins ``required`` at every level.

    Raises:
        SchemaError: a mark is neither a name nor a list of names.
    """
    return _require_for_helm(prepared, "")


# -- references ------------------------------------------------------------------------------------------------------


@dataclass
class _Budget:
    left: int = MAX_NODES


@dataclass(frozen=True)
class _Document:
    """A parsed file that references are looked up in; what it does not hold is looked up in ``fallback``."""

    root: Values
    fallback: _Document | None = None
    budget: _Budget = field(default_factory=_Budget)


def _expand(schema: Values, document: _Document, where: str, trail: tuple[str, ...]) -> Values:
    document.budget.left -= 1
    if document.budget.left < 0:
        raise SchemaError(where, f"expands to more than {MAX_NODES} schemas; its references multiply each other")
    if where.count("/") > MAX_DEPTH or len(trail) > MAX_DEPTH:
        raise SchemaError("/".join(where.split("/")[:6]) + "/…", f"schemas are nested more than {MAX_DEPTH} deep")
    for keyword in _DYNAMIC:
        if keyword in schema:
            raise SchemaError(where, f"{keyword} is not supported; use $ref")
    for keyword in SCHEMA_MAPS:
        odd = [name for name in mapping(schema.get(keyword)) if not isinstance(name, str)]
        if odd:
            raise SchemaError(f"{where}/{keyword}", f"the name {odd[0]!r} is not text; put it in quotes")
    siblings = {key: value for key, value in schema.items() if key not in ("$ref", *_DEFINITIONS, *_IDENTITIES)}
    expanded = rebuild(siblings, where, lambda sub, place: _expand(sub, document, place, trail))
    if "$ref" not in schema:
        return expanded
    reference = schema["$ref"]
    target, owner = _resolve(reference, document, where)
    if reference in trail:
        cycle = " -> ".join((*trail[trail.index(reference) :], reference))
        raise SchemaError(where, f"$ref goes round in a circle: {cycle}")
    return {**_expand(target, owner, where, (*trail, reference)), **expanded}


def _resolve(reference: Any, document: _Document, where: str) -> tuple[Values, _Document]:
    if not isinstance(reference, str) or not reference.startswith("#"):
        raise SchemaError(where, f"$ref {reference!r} leaves the file; only references of the form #/… are followed")
    holder: _Document | None = document
    while holder is not None:
        target = _lookup(holder.root, reference)
        if isinstance(target, dict):
            return cast("Values", target), _Document(holder.root, holder.fallback, document.budget)
        holder = holder.fallback
    raise SchemaError(where, f"$ref {reference!r} points to nothing in this file")


def _lookup(root: Values, reference: str) -> Any:
    node: Any = root
    for raw in reference.removeprefix("#").split("/")[1:]:
        part = unquote(raw).replace("~1", "/").replace("~0", "~")
        if isinstance(node, dict):
            node = cast("Values", node).get(part)
        elif isinstance(node, list) and part.isdecimal() and int(part) < len(cast("list[Any]", node)):
            node = cast("list[Any]", node)[int(part)]
        else:
            return None
    return node


# -- dialect ---------------------------------------------------------------------------------------------------------


def _translate(schema: Values, where: str) -> Values:
    """Rewrite what OpenAPI v3 spells differently; ``nullable`` stays, the validator knows it."""
    out = rebuild(schema, where, _translate)
    for limit, exclusive in _BOUNDS:
        flag = out.get(exclusive)
        if isinstance(flag, bool):
            del out[exclusive]
            if flag and limit in out:
                out[exclusive] = out.pop(limit)
    try:
        if isinstance(out.get("pattern"), str):
            out[PATTERN_SOURCE] = out["pattern"]
            out["pattern"] = patterns.translate(out["pattern"])
        if isinstance(out.get("patternProperties"), dict):
            keyed = cast("Values", out["patternProperties"])
            out["patternProperties"] = {patterns.translate(pattern): sub for pattern, sub in keyed.items()}
    except ValueError as error:
        raise SchemaError(where, str(error)) from error
    return out


def _require_for_helm(schema: Values, where: str) -> Values:
    out = rebuild(schema, where, _require_for_helm)
    mark = out.get("x-required-for-helm")
    if mark is None:
        return out
    names = [mark] if isinstance(mark, str) else mark
    if not isinstance(names, list) or not all(isinstance(name, str) for name in cast("list[Any]", names)):
        raise SchemaError(f"{where}/x-required-for-helm", "must be a property name or a list of property names")
    out["required"] = _union(out.get("required", []), cast("list[str]", names))
    return out


def _union(first: list[str], second: list[str]) -> list[str]:
    return list(dict.fromkeys((*first, *second)))
