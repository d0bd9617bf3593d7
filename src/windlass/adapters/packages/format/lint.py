"""Says everything that is wrong with a package at once, where loading stops at the first fault."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from windlass.adapters.packages.format import loader
from windlass.adapters.packages.format.digest import files_of
from windlass.adapters.packages.format.files import CHART, STATIC_VALUES, FileError, read_mapping
from windlass.adapters.packages.format.helm_hooks import has_helm_hooks
from windlass.domain.errors import PermanentError
from windlass.domain.packages.definition import LEGACY_FILE, UNVERSIONED, DefinitionError, read_definition
from windlass.domain.packages.model import ENABLED_SCRIPT, Definition, Package, Values
from windlass.domain.packages.versions import VersionRangeError, parse_exact
from windlass.domain.settings.schema import VALUES_SCHEMA, check_schema, prepare_schemas, validate
from windlass.domain.settings.values import base_values, camel_key, check_settings
from windlass.domain.text.yaml_places import line_of

_SHEBANG: Final = b"#!"
_CHART_FIELDS: Final = ("apiVersion", "name", "version")


@dataclass(frozen=True, kw_only=True)
class Problem:
    """One fault: file in the package, line from 1 on (0: the file as a whole), what is wrong, what to do."""

    file: str
    message: str
    line: int = 0
    hint: str = ""


def lint(root: Path) -> list[Problem]:
    """Return every problem of the package in ``root`` that can be seen without running anything.

    Raises:
        OSError: a file cannot be read.
    """
    try:
        files_of(root)
    except PermanentError as error:
        return [Problem(file=".", message=error.message, hint="packages hold plain files and folders only")]
    definition, problems = _definition(root)
    problems += [*_chart(root), *_hooks(root), *_enabled_script(root)]
    try:
        loader.read_conversions(root)
    except FileError as error:
        problems.append(_problem_of(error))
    try:
        has_helm_hooks(root)
    except PermanentError as error:
        problems.append(Problem(file="charts", message=error.message, hint=error.hint))
    settings_file = loader.settings_schema_file(root)
    wrong, settings = _read(root, settings_file)
    wrong += _schema(root, settings_file, settings, None)
    problems += wrong
    found, values = _read(root, VALUES_SCHEMA)
    problems += found
    if not wrong:  # the values schema extends the settings schema: its faults would be told twice
        problems += _schema(root, VALUES_SCHEMA, values, settings)
    found, static = _read(root, STATIC_VALUES)
    problems += found
    try:
        loader.read_images(root)
    except FileError as error:
        problems.append(_problem_of(error))
    if definition is not None:
        problems += _place(root, definition)
        problems += _own_key(root, definition, static or {})
        if not problems:
            problems += _values(root, definition, settings, values)
    return problems


def _definition(root: Path) -> tuple[Definition | None, list[Problem]]:
    try:
        return read_definition(loader.read_definition_file(root), loader.definition_file(root)), []
    except FileError as error:
        return None, [_problem_of(error)]
    except DefinitionError as error:
        path = error.field.replace("[", ".").replace("]", "").split(".") if error.field else []
        message = f"{error.field}: {error.problem}" if error.field else error.problem
        return None, [Problem(file=error.file, line=_line(root, error.file, path), message=message, hint=error.hint)]


def _read(root: Path, name: str) -> tuple[list[Problem], Values | None]:
    try:
        return [], read_mapping(root, name)
    except FileError as error:
        return [_problem_of(error)], None


def _problem_of(error: FileError) -> Problem:
    return Problem(file=error.file, line=error.line, message=error.problem, hint=error.hint)


def _chart(root: Path) -> Iterator[Problem]:
    found, chart = _read(root, CHART)
    yield from found
    for field in _CHART_FIELDS if chart is not None else ():
        value = (chart or {}).get(field)
        if not isinstance(value, str) or not value:
            yield Problem(
                file=CHART,
                line=_line(root, CHART, [field]),
                message=f"{field}: must be text",
                hint="Helm needs apiVersion, name and version; put quotes around what looks like a number",
            )


def _hooks(root: Path) -> Iterator[Problem]:
    runnable = loader.hook_files(root)
    for file in loader.candidates(root):
        with (root / file).open("rb") as content:
            script = content.read(len(_SHEBANG)) == _SHEBANG
        if script and file not in runnable:
            yield Problem(
                file=file,
                message="is a script that cannot be run, so it is passed over",
                hint=f"chmod +x {file}, or move it to hooks/lib if other hooks read it",
            )


def _enabled_script(root: Path) -> Iterator[Problem]:
    if (root / ENABLED_SCRIPT).is_file() and not loader.has_enabled_script(root):
        yield Problem(
            file=ENABLED_SCRIPT,
            message="cannot be run, so it is passed over and the module is always enabled",
            hint=f"chmod +x {ENABLED_SCRIPT}, or remove it",
        )


def _schema(root: Path, file: str, schema: Values | None, settings: Values | None) -> Iterator[Problem]:
    for violation in check_schema(schema, settings=settings) if schema else ():
        path = [part.replace("~1", "/").replace("~0", "~") for part in violation.path.split("/") if part]
        yield Problem(file=file, line=_line(root, file, path), message=str(violation), hint="mend the schema")


def _place(root: Path, definition: Definition) -> Iterator[Problem]:
    """A folder called like a version lies in a repository, where names must be true."""
    file = loader.definition_file(root)
    folder = root.resolve()
    try:
        parse_exact(folder.name)
    except VersionRangeError:
        return
    for field, given, there in (
        ("name", definition.name, folder.parent.name),
        ("version", definition.version, folder.name),
    ):
        if given != there and (file, given) != (LEGACY_FILE, UNVERSIONED):
            yield Problem(
                file=file,
                line=_line(root, file, [field]),
                message=f"{field}: is {given}, but the folder is {folder.parent.name}/{folder.name}",
                hint="a repository holds packages as <name>/<version>",
            )


def _own_key(root: Path, definition: Definition, values: Values) -> Iterator[Problem]:
    key = camel_key(definition.name)
    ignored = sorted(name for name in values if name != key)
    if isinstance(values.get(key), dict) and ignored:
        yield Problem(
            file=STATIC_VALUES,
            line=_line(root, STATIC_VALUES, [ignored[0]]),
            message=f"{', '.join(ignored)}: ignored, since {key} is the package's own key and counts alone",
            hint=f"move everything below {key}, or take {key} away",
        )


def _values(root: Path, definition: Definition, settings: Values | None, values: Values | None) -> Iterator[Problem]:
    """Look whether a package that can be installed without any settings has valid values then."""
    static, _ = loader.static_values(root, camel_key(definition.name))
    package = Package(definition=definition, static_values=static, settings_schema=settings, values_schema=values)
    schemas = prepare_schemas(package)
    if schemas.values is None or check_settings(schemas, {}):
        return
    for violation in validate(base_values(package, schemas, {}), schemas.values, root="values"):
        path = violation.path.split(".")[1:]
        yield Problem(
            file=STATIC_VALUES,
            line=_line(root, STATIC_VALUES, path),
            message=f"{violation} (with defaults, against {VALUES_SCHEMA})",
            hint=f"mend the static values, the defaults, or {VALUES_SCHEMA}",
        )


def _line(root: Path, file: str, path: list[str]) -> int:
    """Return the line of the deepest part of ``path`` that the file has; 0 if it has none."""
    if not (root / file).is_file():
        return 0
    return line_of((root / file).read_bytes(), path)
