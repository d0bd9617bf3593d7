"""Reads a package's folder (reference: deckhouse.md section 1.1)."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, Final, cast

from windlass.adapters.packages.format.files import (
    CHART,
    STATIC_VALUES,
    FileError,
    read_chart_schema,
    read_mapping,
    read_yaml,
)
from windlass.adapters.packages.format.helm_hooks import has_helm_hooks
from windlass.adapters.packages.format.plain_chart import is_plain_chart, read_plain_chart
from windlass.domain.errors import Actor, PermanentError, Reason
from windlass.domain.ids import Kind
from windlass.domain.packages.definition import FILE, LEGACY_FILE, parse_definition
from windlass.domain.packages.model import ENABLED_SCRIPT, Conversion, Package, Values
from windlass.domain.settings.schema import SETTINGS_SCHEMA, VALUES_SCHEMA, prepare_schemas
from windlass.domain.settings.values import camel_key
from windlass.domain.text.documents import is_list, parse_helm

LEGACY_SETTINGS_SCHEMA: Final = "openapi/config-values.yaml"
IMAGES: Final = "images_digests.json"
CONVERSIONS: Final = "openapi/conversions"

_NOT_HOOKS: Final = frozenset({"lib", "venv"})
_NOT_HOOK_ENDINGS: Final = (".yaml", ".json", ".md", ".txt")
_EXECUTABLE: Final = 0o111
_CONVERSION: Final = re.compile(r"v([1-9][0-9]{0,3})\.ya?ml")


def load(root: Path) -> Package:
    """Read everything but the chart's templates, which are only searched for Helm hooks.

    Raises:
        PermanentError: LOAD_FAILED with file, place, and what is expected there.
        OSError: a file cannot be read.
    """
    try:
        if is_plain_chart(root):
            return read_plain_chart(root)
        definition = parse_definition(read_definition_file(root), definition_file(root))
        static, scoped = static_values(root, camel_key(definition.name))
        package = Package(
            definition=definition,
            static_values=static,
            scoped=scoped,
            settings_schema=read_mapping(root, settings_schema_file(root)),
            values_schema=read_mapping(root, VALUES_SCHEMA),
            chart_schema=read_chart_schema(root),
            images=read_images(root),
            has_chart=has_chart(root),
            chart_has_hooks=has_helm_hooks(root),
            hook_files=hook_files(root),
            conversions=read_conversions(root),
            enabled_script=definition.type is Kind.MODULE and has_enabled_script(root),
        )
    except FileError as error:
        raise PermanentError(Reason.LOAD_FAILED, str(error), hint=error.hint, actor=Actor.AUTHOR) from error
    prepare_schemas(package)
    return package


def definition_file(root: Path) -> str:
    """Return the file in which a package says what it is; ``package.yaml`` wins over a module's legacy file."""
    return LEGACY_FILE if not (root / FILE).is_file() and (root / LEGACY_FILE).is_file() else FILE


def read_definition_file(root: Path) -> Any:
    """Return what ``package.yaml``, or the legacy ``module.yaml``, holds.

    Raises:
        FileError: both are missing, or as `read_yaml`.
    """
    file = definition_file(root)
    if not (root / file).is_file():
        raise FileError(FILE, "is missing", "every package has one: see docs/packages.md")
    return read_yaml(root, file)


def read_conversions(root: Path) -> tuple[Conversion, ...]:
    """Return the conversions of settings, oldest first (reference: deckhouse.md section 5).

    Raises:
        FileError: a version is missing in between, a file is called or says another version than the next one, or holds
            no programs; or as `read_mapping`.
    """
    found = {
        name: int(match[1])
        for name in (path.name for path in (root / CONVERSIONS).glob("*"))
        if (match := _CONVERSION.fullmatch(name))
    }
    conversions: list[Conversion] = []
    for wanted, (name, version) in enumerate(sorted(found.items(), key=lambda item: item[1]), start=2):
        file = f"{CONVERSIONS}/{name}"
        if version != wanted:
            raise FileError(file, f"v{wanted}.yaml is missing", "number the files from v2.yaml on, without gaps")
        document = read_mapping(root, file) or {}
        if document.get("version") != version:
            raise FileError(file, f"version: is not {version}", f"write `version: {version}`")
        programs = document.get("conversions")
        if not is_list(programs) or not programs or not all(isinstance(one, str) for one in programs):
            raise FileError(file, "conversions: is not a list of texts", "write jq programs, such as `del(.old)`")
        conversions.append(Conversion(version=version, programs=tuple(programs)))
    return tuple(conversions)


def has_enabled_script(root: Path) -> bool:
    """Say whether a module has a script that decides whether it is enabled; one that cannot be run is none."""
    path = root / ENABLED_SCRIPT
    return path.is_file() and bool(path.stat().st_mode & _EXECUTABLE)


def has_chart(root: Path) -> bool:
    """Say whether the package is something for Helm."""
    return (root / CHART).is_file() or (root / "templates").is_dir()


def settings_schema_file(root: Path) -> str:
    """Return the file that holds the settings schema: the legacy name counts only where the other is absent."""
    return SETTINGS_SCHEMA if (root / SETTINGS_SCHEMA).is_file() else LEGACY_SETTINGS_SCHEMA


def static_values(root: Path, key: str) -> tuple[Values, bool]:
    """Return ``values.yaml``; of one that has the package's own key on top only what is below it, and True.

    Raises:
        FileError: as `read_mapping`.
    """
    values = read_mapping(root, STATIC_VALUES, parse_helm) or {}
    inner = values.get(key)
    return (cast("Values", inner), True) if isinstance(inner, dict) else (values, False)


def read_images(root: Path) -> dict[str, str]:
    """Return the digests of images by name.

    Raises:
        FileError: one is no text, or as `read_mapping`.
    """
    images = read_mapping(root, IMAGES) or {}
    for name, digest in images.items():
        if not isinstance(digest, str):
            raise FileError(IMAGES, f"{name}: not text", "map image names to digests")
    return images


def hook_files(root: Path) -> tuple[str, ...]:
    """Return candidates for hooks, sorted (reference: hooks.md section 1): executable, not hidden, no data files."""
    return tuple(file for file in candidates(root) if (root / file).stat().st_mode & _EXECUTABLE)


def candidates(root: Path) -> list[str]:
    """Return what would be hooks if it were executable."""
    found: list[str] = []
    for folder, folders, names in os.walk(root / "hooks"):
        folders[:] = [name for name in folders if name not in _NOT_HOOKS and not name.startswith(".")]
        found += [
            Path(folder, name).relative_to(root).as_posix()
            for name in names
            if not name.startswith(".") and not name.endswith(_NOT_HOOK_ENDINGS)
        ]
    return sorted(found)
