"""JSON Schema 2020-12 as Windlass validates with it: OpenAPI's ``nullable``, errors per key, and no network.

The one place that knows jsonschema's validator classes. Differences from the stock vocabulary:
- an instance ``null`` passes wherever the schema says ``nullable: true``, whatever else it says;
- a missing or unknown key is an error of its own, at the path of that key;
- texts beyond `windlass.domain.text.patterns.TEXT_MAX` are refused by ``pattern`` instead of being matched;
- formats are checked where the rule is plain; any other ``format`` is a remark.
"""

from __future__ import annotations

import ipaddress
import re
import uuid
from collections.abc import Callable, Iterator, Mapping
from datetime import date, datetime
from typing import Any, Final, cast

from jsonschema import Draft202012Validator, FormatChecker, ValidationError
from jsonschema import validators as jsonschema_validators
from referencing import Registry

from windlass.domain.packages.model import Values
from windlass.domain.text import patterns

type Keyword = Callable[[Any, Any, Any, Mapping[str, Any]], Iterator[ValidationError]]


def errors(document: Values, instance: Any) -> Iterator[ValidationError]:
    """Yield what is wrong with ``instance``, lazily, in the order of the schema."""
    # An own, empty registry: the stock one would fetch remote references.
    validator = _Validator(document, format_checker=_FORMATS, registry=Registry[Any]())
    return cast("Iterator[ValidationError]", validator.iter_errors(instance))


def schema_errors(document: Values) -> Iterator[ValidationError]:
    """Yield what makes ``document`` no JSON Schema 2020-12."""
    return cast("Iterator[ValidationError]", _METASCHEMA.iter_errors(document))


def key_matches(pattern: str, key: str) -> bool:
    """Say whether a key falls under a translated ``patternProperties`` pattern; one too long to be matched does not."""
    return len(key) <= patterns.TEXT_MAX and patterns.matches(pattern, key)


# -- keywords --------------------------------------------------------------------------------------------------------


def _required(_: Any, names: list[str], instance: Any, __: Mapping[str, Any]) -> Iterator[ValidationError]:
    if isinstance(instance, dict):
        for name in names:
            if name not in instance:
                yield ValidationError("is missing", path=(name,))


def _additional_properties(
    validator: Any, rule: Any, instance: Any, schema: Mapping[str, Any]
) -> Iterator[ValidationError]:
    if not isinstance(instance, dict):
        return
    named = schema.get("properties", {})
    matched = tuple(schema.get("patternProperties", {}))
    for key, value in cast("Values", instance).items():
        if key in named or any(key_matches(pattern, key) for pattern in matched):
            continue
        if rule is False:
            yield ValidationError("is not known", path=(key,))
        elif isinstance(rule, dict):
            yield from validator.descend(value, rule, path=key)


def _pattern_properties(
    validator: Any, rules: Values, instance: Any, _: Mapping[str, Any]
) -> Iterator[ValidationError]:
    if not isinstance(instance, dict):
        return
    for pattern, rule in rules.items():
        for key, value in cast("Values", instance).items():
            if key_matches(pattern, key):
                yield from validator.descend(value, rule, path=key, schema_path=pattern)


def _pattern(_: Any, pattern: str, instance: Any, __: Mapping[str, Any]) -> Iterator[ValidationError]:
    if not isinstance(instance, str):
        return
    try:
        if not patterns.matches(pattern, instance):
            yield ValidationError("does not match the pattern")
    except ValueError as error:
        yield ValidationError(str(error))


def _unless_null(keyword: Keyword) -> Keyword:
    def checked(validator: Any, value: Any, instance: Any, schema: Mapping[str, Any]) -> Iterator[ValidationError]:
        if instance is None and schema.get("nullable") is True:
            return
        yield from keyword(validator, value, instance, schema) or ()

    return checked


# -- formats ---------------------------------------------------------------------------------------------------------

_FORMATS: Final = FormatChecker(formats=())


def _of_text(parse: Callable[[str], object]) -> Callable[[object], bool]:
    def check(instance: object) -> bool:
        if isinstance(instance, str):
            parse(instance)
        return True

    return check


def _date_time(text: str) -> None:
    if "T" not in text.upper() or datetime.fromisoformat(text).tzinfo is None:
        raise ValueError("a date-time needs a time and an offset (RFC 3339)")


def _email(text: str) -> None:
    local, at, domain = text.rpartition("@")
    if not (local and at and domain) or re.search(r"\s", text):
        raise ValueError("no address")


def _integer(bits: int) -> Callable[[object], bool]:
    def check(instance: object) -> bool:
        return not isinstance(instance, int) or -(2 ** (bits - 1)) <= instance < 2 ** (bits - 1)

    return check


for _name, _parse in (
    ("date", date.fromisoformat),
    ("date-time", _date_time),
    ("email", _email),
    ("ipv4", ipaddress.IPv4Address),
    ("ipv6", ipaddress.IPv6Address),
    ("uuid", uuid.UUID),
):
    _FORMATS.checks(_name, raises=ValueError)(_of_text(_parse))
_FORMATS.checks("int32")(_integer(32))
_FORMATS.checks("int64")(_integer(64))

# -- the validator ---------------------------------------------------------------------------------------------------

_STOCK = cast("dict[str, Keyword]", Draft202012Validator.VALIDATORS)
STRUCTURE: Final[Mapping[str, Keyword]] = {
    "required": _required,
    "additionalProperties": _additional_properties,
    "pattern": _pattern,
    "patternProperties": _pattern_properties,
}
"""Keywords in our own words: one error for each key, patterns in linear time. They mean the same in every draft."""
# The stubs leave two optional parameters of `create` untyped.
_create = cast("Callable[..., Any]", jsonschema_validators.create)  # pyright: ignore[reportUnknownMemberType]
_Validator: Final = _create(
    meta_schema=Draft202012Validator.META_SCHEMA,
    validators={name: _unless_null(keyword) for name, keyword in {**_STOCK, **STRUCTURE}.items()},
    type_checker=Draft202012Validator.TYPE_CHECKER,
)
_METASCHEMA: Final[Any] = Draft202012Validator(Draft202012Validator.META_SCHEMA)
