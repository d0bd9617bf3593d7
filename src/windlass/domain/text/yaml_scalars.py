"""What a YAML scalar means to Helm and Kubernetes.

Both read YAML with ``sigs.k8s.io/yaml`` (Helm 4.2, Kubernetes 1.36): YAML 1.1 without base 60 and dates, turned into
JSON. ``tests/domain/text/yaml_table.json`` holds what they make of each form; a test compares it with both programs.
What comes out is what ``json.loads`` would return for the JSON that they produce.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
import struct
from collections.abc import Callable
from decimal import Decimal
from typing import Final

type Scalar = str | int | float | bool | None

type Resolver = Callable[[str], Scalar]
"""What a plain scalar without a tag means."""

TAGS: Final = "tag:yaml.org,2002:"
MERGE: Final = "<<"

_CONSTANTS: Final[dict[str, Scalar]] = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
}
_NOT_FINITE: Final[dict[str, float]] = {
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), math.inf),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -math.inf),
}
_NUMERIC: Final = frozenset("0123456789+-.")

_FIRST: Final = _NUMERIC | {word[0] for word in _CONSTANTS if word}
"""What a scalar starts with that is not a text for certain."""

_DECIMAL: Final = re.compile(r"[-+]?(?:0|[1-9][0-9]*)", re.ASCII)
_PREFIXED: Final = re.compile(r"([-+]?)0(?:[xX]([0-9a-fA-F]+)|[bB]([01]+)|[oO]?([0-7]+))", re.ASCII)
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", re.ASCII)
_POINT_FLOAT: Final = re.compile(r"\.[0-9]+(?:_[0-9]+)*(?:[eE][-+]?[0-9]+(?:_[0-9]+)*)?", re.ASCII)

_INT64: Final = 1 << 63
_LONGEST_INTEGER: Final = 70  # characters; 64 bits in base two, a sign and a prefix need 67
_PLAIN_BELOW: Final = 1e21  # from here on Go writes a double with an exponent
_KEY_EXPONENT: Final = 6  # from here on keys have one


class ScalarError(ValueError):
    """A scalar does not fit its tag, or JSON cannot say it. The text does not quote it."""


def resolve(text: str) -> Scalar:
    """Return what a plain scalar means to Helm and Kubernetes.

    Raises:
        ScalarError: an infinity or NaN, which JSON cannot say.
    """
    if text and text[0] not in _FIRST:
        return text
    value = _resolved(text)
    if isinstance(value, float) or (isinstance(value, int) and value >= _INT64):
        return _as_json(float(value))  # Kubernetes reads integers beyond 64 bits with sign as doubles
    return value


def resolve_words(text: str) -> Scalar:
    """Return what a plain scalar means where numbers stay the texts they are: version ``1.10`` must not become 1.1."""
    return _CONSTANTS.get(text, text)


def resolve_tagged(tag: str, text: str, resolver: Resolver) -> Scalar:
    """Return what a scalar with an explicit tag means; tags that YAML does not define are passed over.

    Raises:
        ScalarError: the text is not of the kind that the tag names.
    """
    kind = tag.removeprefix(TAGS)
    if kind == "binary":
        return _binary(text)
    if kind not in ("bool", "int", "float", "null"):
        return text
    value = _resolved(text)
    fits = {
        "bool": isinstance(value, bool),
        "int": isinstance(value, int) and not isinstance(value, bool),
        "float": isinstance(value, int | float) and not isinstance(value, bool),
        "null": value is None,
    }
    if not fits[kind]:
        raise ScalarError(f"a scalar is tagged as {kind} and is none")
    return resolver(text)


def key_text(value: Scalar) -> str:
    """Return a mapping's key as text, as Kubernetes does (Go's shortest form of a 32 bit float for fractions).

    Raises:
        ScalarError: null, or a number beyond 64 bits.
    """
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case int() if -_INT64 <= value < _INT64:
            return str(value)
        case float():
            return _short_float(value)
        case _:
            raise ScalarError("a key is null or a number beyond 64 bits; put it in quotes")


def resolve_key(text: str) -> str:
    """Return the key that a plain scalar is.

    Raises:
        ScalarError: as `key_text`.
    """
    if text and text[0] not in _FIRST:
        return text
    return key_text(_resolved(text))


def _resolved(text: str) -> Scalar:
    """Return the value before it becomes JSON; integers beyond 64 bits may come out."""
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if text[0] not in _NUMERIC:
        return text
    if text in _NOT_FINITE:
        return _NOT_FINITE[text]
    if text[0] == ".":
        return _float(text) if _POINT_FLOAT.fullmatch(text) else text
    plain = text.replace("_", "")
    integer = _integer(plain) if len(plain) <= _LONGEST_INTEGER else None
    if integer is not None:
        return integer
    number = _float(plain) if _FLOAT.fullmatch(plain) else None
    return text if number is None or isinstance(number, str) else number


def _integer(plain: str) -> int | None:
    if _DECIMAL.fullmatch(plain):
        value = int(plain)
    elif found := _PREFIXED.fullmatch(plain):
        sign, hexadecimal, binary, octal = found.groups()
        base = 16 if hexadecimal else 2 if binary else 8
        value = int(f"{sign}{hexadecimal or binary or octal}", base)
    else:
        return None
    # A sign is allowed for 64 bits with sign only (Go's ParseInt and ParseUint).
    return value if -_INT64 <= value < _INT64 or (value < 2 * _INT64 and plain[0] != "+" and value > 0) else None


def _float(text: str) -> float | str:
    value = float(text)
    return value if math.isfinite(value) else text


def _as_json(value: float) -> int | float:
    """Return the number as it comes out of the JSON that Go writes: without a fraction it is an integer."""
    if not math.isfinite(value):
        raise ScalarError("infinities and NaN are not JSON")
    if value.is_integer() and abs(value) < _PLAIN_BELOW:
        return int(Decimal(repr(value)))
    return value


def _short_float(value: float) -> str:
    """Return Go's ``FormatFloat(value, 'g', -1, 32)``."""
    try:
        single: float = struct.unpack("f", struct.pack("f", value))[0]
    except OverflowError:
        single = math.copysign(math.inf, value)
    if not math.isfinite(single):
        return ".nan" if math.isnan(single) else ".inf" if single > 0 else "-.inf"
    digits = next(
        (
            short
            for size in range(1, 9)
            if struct.unpack("f", struct.pack("f", float(short := f"{single:.{size}g}")))[0] == single
        ),
        f"{single:.9g}",
    )
    exact = Decimal(digits)
    exponent = exact.adjusted()
    sign, figures, _ = exact.as_tuple()
    shown = "".join(map(str, figures)).rstrip("0") or "0"
    if exponent < -4 or exponent >= _KEY_EXPONENT:
        fraction = f".{shown[1:]}" if len(shown) > 1 else ""
        return f"{'-' * sign}{shown[0]}{fraction}e{exponent:+03d}"
    return f"{exact.normalize():f}"


def _binary(text: str) -> str:
    try:
        raw = base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError):
        raise ScalarError("a scalar is tagged as binary and is not base64") from None
    # Go replaces each byte that is not UTF-8.
    return "".join("\ufffd" if "\udc80" <= one <= "\udcff" else one for one in raw.decode(errors="surrogateescape"))
