"""``package.yaml``: what a package says of itself (reference: deckhouse.md section 1.2)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NoReturn, cast

from windlass.domain.errors import Actor, PermanentError, Reason
from windlass.domain.ids import is_dns_label
from windlass.domain.package import Definition
from windlass.domain.versions import VersionRange, VersionRangeError, parse_exact

FILE: Final = "package.yaml"
OPTIONAL: Final = "!optional"
"""Suffix of a module's range: the module may be absent, but must be in range if it is there."""

_KNOWN: Final = frozenset(
    {"apiVersion", "type", "name", "version", "stage", "descriptions", "requirements", "disable", "hooks"}
)


def parse_definition(document: object) -> Definition:
    """Read the parsed ``package.yaml``.

    Unknown top-level fields are kept in ``extra``: a package may say more than this version understands.

    Raises:
        PermanentError: LOAD_FAILED naming the field, what stands there and what is expected.
    """
    root = _mapping(document, "")
    requirements = _mapping(root.get("requirements") or {}, "requirements")
    disable = _mapping(root.get("disable") or {}, "disable")
    mandatory, optional = _modules(_mapping(requirements.get("modules") or {}, "requirements.modules"))
    type_ = _text(root, "type")
    if type_ != "Application":
        _refuse("type", f"is {type_!r}", "write `type: Application`")
    name = _text(root, "name")
    if not is_dns_label(name):
        _refuse("name", f"{name!r} is not a DNS label", "use at most 63 lower case letters, digits and '-'")
    return Definition(
        name=name,
        version=_version(root),
        type=type_,
        stage=_text(root, "stage", required=False),
        descriptions=_texts(root, "descriptions"),
        kubernetes=_range(requirements, "kubernetes"),
        platform=_range(requirements, "deckhouse"),
        modules=mandatory,
        optional_modules=optional,
        disable_confirmation=_flag(disable, "confirmation", "disable.confirmation"),
        disable_message=_text(disable, "message", required=False, where="disable.message"),
        batch_hooks=_flag(_mapping(root.get("hooks") or {}, "hooks"), "batch", "hooks.batch"),
        extra={key: value for key, value in root.items() if key not in _KNOWN},
    )


def _version(root: Mapping[str, Any]) -> str:
    version = _text(root, "version")
    try:
        parse_exact(version)
    except VersionRangeError as error:
        _refuse("version", str(error), "write one exact semantic version without a leading v, such as 1.4.2")
    return version


def _modules(modules: Mapping[str, Any]) -> tuple[dict[str, str], dict[str, str]]:
    mandatory: dict[str, str] = {}
    optional: dict[str, str] = {}
    for name, value in modules.items():
        text = value if isinstance(value, str) else ""
        target = optional if text.strip().endswith(OPTIONAL) else mandatory
        target[name] = _checked_range(text.strip().removesuffix(OPTIONAL).strip(), f"requirements.modules.{name}")
        if not isinstance(value, str):
            _refuse(f"requirements.modules.{name}", f"is {_kind(value)}", "write a version range as text")
    return mandatory, optional


def _range(parent: Mapping[str, Any], field: str) -> str:
    return _checked_range(_text(parent, field, required=False, where=f"requirements.{field}"), f"requirements.{field}")


def _checked_range(text: str, where: str) -> str:
    try:
        VersionRange.parse(text)
    except VersionRangeError as error:
        _refuse(where, str(error), "write a range such as >=1.28 or ^1.2 || 2.x")
    return text


def _mapping(value: object, where: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        _refuse(where, f"is {_kind(value)}", "write a mapping of fields")
    return cast("Mapping[str, Any]", value)


def _text(parent: Mapping[str, Any], field: str, *, required: bool = True, where: str = "") -> str:
    value = parent.get(field)
    if value is None:
        if required:
            _refuse(where or field, "is missing", "add it")
        return ""
    if not isinstance(value, str):
        _refuse(where or field, f"is {_kind(value)}", "write text, in quotes if it looks like a number")
    if required and not value:
        _refuse(where or field, "is empty", "fill it in")
    return value


def _texts(root: Mapping[str, Any], field: str) -> dict[str, str]:
    values = _mapping(root.get(field) or {}, field)
    return {name: _text(values, name, where=f"{field}.{name}") for name in values}


def _flag(parent: Mapping[str, Any], field: str, where: str) -> bool:
    value = parent.get(field, False)
    if not isinstance(value, bool):
        _refuse(where, f"is {_kind(value)}", "write true or false")
    return value


def _kind(value: object) -> str:
    match value:
        case None:
            return "empty"
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case str():
            return "text"
        case list():
            return "a list"
        case _:
            return "a mapping"


def _refuse(where: str, problem: str, hint: str) -> NoReturn:
    place = f"{FILE}, {where}: " if where else f"{FILE} "
    raise PermanentError(Reason.LOAD_FAILED, f"{place}{problem}", hint=hint, actor=Actor.AUTHOR)
