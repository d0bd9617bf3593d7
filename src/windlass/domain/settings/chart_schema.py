"""What a chart's own ``values.schema.json`` says about values, before Helm is asked.

Helm holds values against it in its own process and answers in a text. Here the same is found earlier, as typed errors
at the path that a user wrote; whatever this check lets pass, Helm still refuses. So it is never stricter than Helm:

- formats are not checked, nor texts of more than 64 Ki characters, nor what differs in floating point;
- nulls count as absent, and as present where something is required: what Helm makes of one depends on its origin;
- a schema that names documents elsewhere, is broken, or takes too much work is left to Helm.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final, cast

import jsonschema
from jsonschema import ValidationError
from jsonschema import validators as jsonschema_validators
from referencing import Registry
from referencing.exceptions import Unresolvable

from windlass.domain.ids import Kind
from windlass.domain.packages.model import Package, Values
from windlass.domain.settings.schema import MAX_VIOLATIONS
from windlass.domain.settings.values import SETTINGS_ROOT, VALUES_ROOT, release_values
from windlass.domain.settings.violations import Violation, explain
from windlass.domain.settings.vocabulary import STRUCTURE, Keyword
from windlass.domain.text import patterns
from windlass.domain.text.tree import deeper_than

WORK: Final = 20_000
"""Rules that are looked at for one set of values: about a second with references, which multiply each other."""

_DRAFTS: Final = (
    jsonschema.Draft4Validator,
    jsonschema.Draft6Validator,
    jsonschema.Draft7Validator,
    jsonschema.Draft201909Validator,
    jsonschema.Draft202012Validator,
)
_LEFT_TO_HELM: Final = ("unevaluatedProperties", "unevaluatedItems")
"""Keywords that stock validators look up with patterns of Python's own engine, which takes exponential time."""


class _TooMuchWorkError(Exception):
    """The schema has taken `WORK` steps."""


def check_chart(package: Package, values: Values, *, settings: Values, concealed: Values) -> tuple[Violation, ...]:
    """Return what the chart's schema refuses, at most `MAX_VIOLATIONS`, by path; empty where it has no schema.

    Args:
        package: its ``chart_schema`` is the parsed file.
        values: merged, as `windlass.domain.settings.values.compute_values` makes them.
        settings: the part that the user gave; paths in it start with ``settings``.
        concealed: whatever stands in these is never shown.
    """
    schema = package.chart_schema
    if schema is None or deeper_than(schema) or deeper_than(values):
        return ()
    given = release_values(package, values)
    # Marks of secrets behind references are not followed, and a module's values have other paths than its settings.
    hidden = given if "$ref" in str(schema) or package.definition.type is Kind.MODULE else concealed
    try:
        found = list(islice(_broken(schema, cast("Values", _without_nulls(given)), given), MAX_VIOLATIONS))
    except (_TooMuchWorkError, Unresolvable, RecursionError, ValueError, TypeError, jsonschema.SchemaError):
        return ()
    violations = [explain(error, schema, root=_root(package, error, settings), concealed=hidden) for error in found]
    return tuple(sorted(dict.fromkeys(violations), key=lambda violation: (violation.path, violation.message)))


def _broken(schema: Values, pruned: Values, given: Values) -> Iterator[ValidationError]:
    stock = jsonschema_validators.validator_for(schema, default=jsonschema.Draft202012Validator)
    if stock not in _DRAFTS:
        return
    stock.check_schema(schema)
    validator = _bounded(stock)(schema, registry=Registry[Any]())
    for error in cast("Iterator[ValidationError]", validator.iter_errors(pruned)):
        if not (error.validator == "required" and _is_null(given, list(error.absolute_path))):
            yield error


def _bounded(stock: Any) -> Any:
    """Return a validator class for one check: keys and patterns as everywhere, with a limit on its work."""
    left = WORK

    def counted(keyword: Keyword) -> Keyword:
        def checked(validator: Any, value: Any, instance: Any, schema: Mapping[str, Any]) -> Iterator[ValidationError]:
            nonlocal left
            left -= 1
            if left < 0:
                raise _TooMuchWorkError
            yield from keyword(validator, value, instance, schema) or ()

        return checked

    own = {"multipleOf": _multiple_of, "pattern": _pattern, **dict.fromkeys(_LEFT_TO_HELM, _nothing)}
    keywords = {**cast("dict[str, Keyword]", stock.VALIDATORS), **STRUCTURE, **own}
    # The stubs leave parameters of `extend` untyped.
    extend = cast("Callable[..., Any]", jsonschema_validators.extend)  # pyright: ignore[reportUnknownMemberType]
    return extend(
        stock,
        validators={name: counted(keyword) for name, keyword in keywords.items()},
        type_checker=jsonschema.Draft202012Validator.TYPE_CHECKER,  # 1.0 is an integer for Helm in every draft
    )


def _nothing(_: Any, __: Any, ___: Any, ____: Mapping[str, Any]) -> Iterator[ValidationError]:
    yield from ()


def _multiple_of(_: Any, of: Any, instance: Any, __: Mapping[str, Any]) -> Iterator[ValidationError]:
    if isinstance(of, int) and isinstance(instance, int) and of and instance % of:
        yield ValidationError("is no multiple")


def _pattern(_: Any, pattern: str, instance: Any, __: Mapping[str, Any]) -> Iterator[ValidationError]:
    if isinstance(instance, str) and len(instance) <= patterns.TEXT_MAX and not patterns.matches(pattern, instance):
        yield ValidationError("does not match the pattern")


def _root(package: Package, error: ValidationError, settings: Values) -> str:
    """Values that nobody but the user can have given are settings; so is all that a plain chart lacks."""
    path = list(error.absolute_path)
    return SETTINGS_ROOT if package.values_schema is None or (path and path[0] in settings) else VALUES_ROOT


def _without_nulls(node: Any) -> Any:
    if isinstance(node, dict):
        entries = cast("Values", node).items()
        return {key: _without_nulls(value) for key, value in entries if value is not None}
    return [_without_nulls(value) for value in cast("list[Any]", node)] if isinstance(node, list) else node


def _is_null(values: Any, path: Sequence[str | int]) -> bool:
    node = values
    for part in path:
        if not isinstance(node, dict) or part not in node:
            return False
        node = cast("dict[Any, Any]", node)[part]
    return node is None
