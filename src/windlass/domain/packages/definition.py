"""``package.yaml``, or a module's ``module.yaml``: what a package says of itself.

Reference: deckhouse.md sections 1.2 and 1.3.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NoReturn, cast

from windlass.domain.errors import Actor, PermanentError, Reason
from windlass.domain.ids import Kind, is_dns_label
from windlass.domain.packages.model import Definition, ModuleGroup
from windlass.domain.packages.versions import VersionRange, VersionRangeError, parse_exact
from windlass.domain.settings.values import GLOBAL_KEY

FILE: Final = "package.yaml"
LEGACY_FILE: Final = "module.yaml"
"""What a module may have instead. It need not say a version: where it comes from does."""

UNVERSIONED: Final = "0.0.0"
"""Stands for the version of a legacy module that says none, or one that cannot be read."""

OPTIONAL: Final = "!optional"
"""Suffix of a module's range: the module may be absent, but must be in range if it is there."""

_KNOWN: Final = frozenset(
    {"apiVersion", "type", "name", "version", "stage", "descriptions", "requirements", "disable", "hooks"}
)
_MODULE_FIELDS: Final = frozenset({"weight", "critical", "exclusiveGroup"})
_REQUIREMENTS: Final = ("kubernetes", "platform", "deckhouse", "modules")
_LEGACY_REQUIREMENTS: Final = (*_REQUIREMENTS, "parentModules", "bootstrapped")
"""``bootstrapped`` asks for a cluster that works: whoever runs Windlass has one."""

_MODULE_LISTS: Final = ("mandatory", "conditional")
_MODULE_GROUPS: Final = ("anyOf", "noneOf")


class DefinitionError(ValueError):
    """The document is no definition.

    Attributes:
        field: dotted path of the field, empty for the document itself.
        problem: what stands there.
        hint: what is expected.
        file: which file it is.
    """

    def __init__(self, field: str, problem: str, hint: str, *, file: str = FILE) -> None:
        super().__init__(f"{file}, {field}: {problem}" if field else f"{file} {problem}")
        self.file = file
        self.field = field
        self.problem = problem
        self.hint = hint


def parse_definition(document: object, file: str = FILE) -> Definition:
    """Read the parsed ``package.yaml`` or ``module.yaml``; see `read_definition`.

    Raises:
        PermanentError: LOAD_FAILED naming the field, what stands there and what is expected.
    """
    try:
        return read_definition(document, file)
    except DefinitionError as error:
        raise PermanentError(Reason.LOAD_FAILED, str(error), hint=error.hint, actor=Actor.AUTHOR) from error


def check_kind(definition: Definition, kind: Kind) -> None:
    """See that a package is installed by an object of its own kind.

    Raises:
        PermanentError: LOAD_FAILED; names both kinds.
    """
    if definition.type not in (None, kind):
        raise PermanentError(
            Reason.LOAD_FAILED,
            f"{FILE}, type: the package is of type {definition.type}, the object of kind {kind.value}",
            hint=f"install it with kind: {definition.type}, or write `type: {kind.value}` into {FILE} "
            "(nothing there means Module)",
            actor=Actor.AUTHOR,
        )


def read_definition(document: object, file: str = FILE) -> Definition:
    """Read the parsed ``package.yaml`` or ``module.yaml``.

    Requirements may be written in the early form (``kubernetes: ">=1.28"``, ``modules: {name: range}``) or in the
    later one (``kubernetes: {constraint: ...}``, ``modules: {mandatory: [{name, constraint}], conditional: [...],
    anyOf: [{name, description, modules}], noneOf: [...]}``; deckhouse.md sections 1.2 and 1.3). Unknown top-level
    fields are kept in ``extra``: a package may say more than this version understands. Unknown requirements are
    refused: nobody would see to them.

    Raises:
        DefinitionError: at the first field that is wrong.
    """
    try:
        return _read(_mapping(document, ""), legacy=file == LEGACY_FILE)
    except DefinitionError as error:
        raise DefinitionError(error.field, error.problem, error.hint, file=file) from None


def _read(root: Mapping[str, Any], *, legacy: bool) -> Definition:
    _text(root, "apiVersion", required=False)
    kind = Kind.MODULE if legacy else _type(root)
    requirements = _section(root, "requirements")
    known = _LEGACY_REQUIREMENTS if legacy else _REQUIREMENTS
    for field in requirements:
        if field not in known:
            _refuse(f"requirements.{field}", "is not known", f"known are {', '.join(known)}")
    modules = _section(requirements, "modules", "requirements.modules")
    mandatory, optional = _modules(modules)
    if legacy:
        parents = _mapped(requirements, "parentModules")
        mandatory, optional = {**parents[0], **mandatory}, {**parents[1], **optional}
    disable = _section(root, "disable")
    if _flag(_section(root, "hooks"), "batch", "hooks.batch"):
        _refuse("hooks.batch", "is true, but batch hooks are not served by this version", "write hooks with --config")
    own = _MODULE_FIELDS if kind is Kind.MODULE else frozenset[str]()
    return Definition(
        name=_name(root),
        version=_legacy_version(root) if legacy else _version(root),
        type=kind,
        stage=_text(root, "stage", required=False),
        descriptions=_texts(root, "descriptions"),
        kubernetes=_constraint(requirements, "kubernetes"),
        platform=_platform(requirements),
        modules=mandatory,
        optional_modules={name: text for name, text in optional.items() if name not in mandatory},
        any_of=_groups(modules, "anyOf"),
        none_of=_groups(modules, "noneOf"),
        weight=_weight(root) if own else 0,
        critical=_flag(root, "critical", "critical") if own else False,
        exclusive_group=_text(root, "exclusiveGroup", required=False) if own else "",
        disable_confirmation=_flag(disable, "confirmation", "disable.confirmation"),
        disable_message=_disable_message(disable),
        extra={key: value for key, value in root.items() if key not in _KNOWN | own},
    )


def _type(root: Mapping[str, Any]) -> Kind:
    """Read the type: that of an application must be there, a module need not say it."""
    type_ = _text(root, "type", required=False)
    if type_ not in ("", *Kind):
        _refuse("type", f"is {type_!r}", "write `type: Application` or `type: Module`")
    return Kind(type_) if type_ else Kind.MODULE


def _weight(root: Mapping[str, Any]) -> int:
    weight = root.get("weight", 0)
    if not isinstance(weight, int) or isinstance(weight, bool) or weight < 0:
        _refuse("weight", f"is {_kind(weight)}", "write a whole number from 0")
    return weight


def _name(root: Mapping[str, Any]) -> str:
    name = _text(root, "name")
    if not is_dns_label(name):
        _refuse("name", f"{name!r} is not a DNS label", "use at most 63 lower case letters, digits and '-'")
    if name == GLOBAL_KEY:
        _refuse(
            "name", f"{name!r} is taken", "hooks see the values of all packages under that key; choose another name"
        )
    return name


def _version(root: Mapping[str, Any]) -> str:
    version = _text(root, "version")
    try:
        parse_exact(version)
    except VersionRangeError as error:
        _refuse("version", str(error), "write one exact semantic version without a leading v, such as 1.4.2")
    return version


def _legacy_version(root: Mapping[str, Any]) -> str:
    version = _text(root, "version", required=False).removeprefix("v")
    try:
        parse_exact(version)
    except VersionRangeError:
        return UNVERSIONED
    return version


def _modules(modules: Mapping[str, Any]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the ranges of mandatory and of optional modules."""
    if any(isinstance(modules.get(field), list) for field in (*_MODULE_LISTS, *_MODULE_GROUPS)):
        for field in modules:
            if field not in (*_MODULE_LISTS, *_MODULE_GROUPS):
                expected = ", ".join((*_MODULE_LISTS, *_MODULE_GROUPS))
                _refuse(f"requirements.modules.{field}", "is not known", f"known are {expected}")
        mandatory, optional = (_listed(modules, kind, f"requirements.modules.{kind}") for kind in _MODULE_LISTS)
        return mandatory, optional
    return _mapped({"modules": modules}, "modules")


def _mapped(requirements: Mapping[str, Any], field: str) -> tuple[dict[str, str], dict[str, str]]:
    mandatory: dict[str, str] = {}
    optional: dict[str, str] = {}
    modules = _section(requirements, field, f"requirements.{field}")
    for name in modules:
        where = f"requirements.{field}.{name}"
        text = _text(modules, name, required=False, where=where).strip()
        target = optional if text.endswith(OPTIONAL) else mandatory
        target[name] = _checked_range(text.removesuffix(OPTIONAL).strip(), where)
    return mandatory, optional


def _listed(parent: Mapping[str, Any], field: str, where: str) -> dict[str, str]:
    ranges: dict[str, str] = {}
    for place, item in _items(parent, field, where, "write a list of {name, constraint}"):
        name = _text(item, "name", where=f"{place}.name")
        constraint = f"{place}.constraint"
        ranges[name] = _checked_range(_text(item, "constraint", required=False, where=constraint), constraint)
    return ranges


def _groups(modules: Mapping[str, Any], field: str) -> tuple[ModuleGroup, ...]:
    where = f"requirements.modules.{field}"
    if not isinstance(modules.get(field), list):
        return ()  # in the early form it is a module of that name
    return tuple(
        ModuleGroup(
            name=_text(item, "name", required=False, where=f"{place}.name"),
            description=_text(item, "description", required=False, where=f"{place}.description"),
            modules=_listed(item, "modules", f"{place}.modules"),
        )
        for place, item in _items(modules, field, where, "write a list of {name, description, modules}")
    )


def _items(parent: Mapping[str, Any], field: str, where: str, hint: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the mappings of a list that may be absent, each with its place."""
    items = parent.get(field)
    if items is None:
        return
    if not isinstance(items, list):
        _refuse(where, f"is {_kind(items)}", hint)
    for index, item in enumerate(cast("list[Any]", items)):
        place = f"{where}[{index}]"
        yield place, _mapping(item, place)


def _constraint(requirements: Mapping[str, Any], field: str) -> str:
    where = f"requirements.{field}"
    value = requirements.get(field)
    if not isinstance(value, dict):
        return _checked_range(_text(requirements, field, required=False, where=where), where)
    later = cast("Mapping[str, Any]", value)
    for name in later:
        if name != "constraint":
            _refuse(f"{where}.{name}", "is not known", "known is constraint")
    return _checked_range(
        _text(later, "constraint", required=False, where=f"{where}.constraint"), f"{where}.constraint"
    )


def _platform(requirements: Mapping[str, Any]) -> str:
    """Read ``requirements.platform``, or ``deckhouse`` as packages from there call it."""
    if "platform" in requirements and "deckhouse" in requirements:
        _refuse("requirements.deckhouse", "stands beside platform, which means the same", "write platform alone")
    return _constraint(requirements, "deckhouse" if "deckhouse" in requirements else "platform")


def _disable_message(disable: Mapping[str, Any]) -> str:
    """Return ``disable.message``, or of ``disable.messages`` the English one, or the first there is."""
    if message := _text(disable, "message", required=False, where="disable.message"):
        return message
    messages = _texts(disable, "messages", "disable.messages")
    return messages.get("en") or next(iter(messages.values()), "")


def _checked_range(text: str, where: str) -> str:
    try:
        VersionRange.parse(text)
    except VersionRangeError as error:
        _refuse(where, str(error), "write a range such as >=1.28 or ^1.2 || 2.x")
    return text


def _section(parent: Mapping[str, Any], field: str, where: str = "") -> Mapping[str, Any]:
    """Return a mapping that may be absent."""
    value = parent.get(field)
    return {} if value is None else _mapping(value, where or field)


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


def _texts(parent: Mapping[str, Any], field: str, where: str = "") -> dict[str, str]:
    values = _section(parent, field, where)
    return {name: _text(values, name, where=f"{where or field}.{name}") for name in values}


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
    raise DefinitionError(where, problem, hint)
