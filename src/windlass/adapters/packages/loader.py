"""Reads a package's folder (reference: deckhouse.md section 1.1)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NoReturn, cast

from windlass.adapters.packages.helm_hooks import has_helm_hooks
from windlass.domain.definition import FILE, parse_definition
from windlass.domain.documents import DocumentError, parse_document
from windlass.domain.errors import Actor, PermanentError, Reason
from windlass.domain.package import Package, Values
from windlass.domain.schema import SETTINGS_SCHEMA, VALUES_SCHEMA, prepare_schemas
from windlass.domain.values import camel_key

LEGACY_SETTINGS_SCHEMA: Final = "openapi/config-values.yaml"
STATIC_VALUES: Final = "values.yaml"
IMAGES: Final = "images_digests.json"
CHART: Final = "Chart.yaml"

MAX_FILE: Final = 5 << 20
"""Bytes of one file that is read as a whole; larger ones are data. YAML has a narrower limit (`documents.MAX_YAML`)."""

_NOT_HOOKS: Final = frozenset({"lib", "venv"})
_NOT_HOOK_ENDINGS: Final = (".yaml", ".json", ".md", ".txt")
_EXECUTABLE: Final = 0o111
_BOM: Final = "\ufeff"


def load(root: Path) -> Package:
    """Read everything but the chart's templates, which are only searched for Helm hooks.

    Raises:
        PermanentError: LOAD_FAILED with file, place, and what is expected there.
        OSError: a file cannot be read.
    """
    if not (root / FILE).is_file():
        _refuse(FILE, "is missing", "every package has one: see docs/packages.md")
    definition = parse_definition(read_yaml(root, FILE))
    package = Package(
        definition=definition,
        static_values=_static_values(root, camel_key(definition.name)),
        settings_schema=_mapping(root, settings_schema_file(root)),
        values_schema=_mapping(root, VALUES_SCHEMA),
        images=_images(root),
        has_chart=has_chart(root),
        chart_has_hooks=has_helm_hooks(root),
        hook_files=tuple(sorted(_hook_files(root))),
    )
    prepare_schemas(package)
    return package


def has_chart(root: Path) -> bool:
    """Say whether the package is something for Helm."""
    return (root / CHART).is_file() or (root / "templates").is_dir()


def settings_schema_file(root: Path) -> str:
    """Return the file that holds the settings schema: the legacy name counts only where the other is absent."""
    return SETTINGS_SCHEMA if (root / SETTINGS_SCHEMA).is_file() else LEGACY_SETTINGS_SCHEMA


def read_yaml(root: Path, name: str) -> Any:
    """Return what one YAML or JSON file of the package holds, None if it is empty. A byte order mark is passed over.

    Raises:
        PermanentError: LOAD_FAILED with the file and the place in it.
        OSError: the file cannot be read.
    """
    path = root / name
    if (size := path.stat().st_size) > MAX_FILE:
        _refuse(name, f"has {size} bytes; at most {MAX_FILE} are allowed", "keep data out of it")
    raw = path.read_bytes()
    try:
        text = raw.decode().removeprefix(_BOM)
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        _refuse(name, f"line {line} (byte {error.start}): not UTF-8", "save the file as UTF-8")
    try:
        return parse_document(text)
    except DocumentError as error:
        _refuse(name, str(error), "mend it at that place")


def _static_values(root: Path, key: str) -> Values:
    values = _mapping(root, STATIC_VALUES) or {}
    inner = values.get(key)
    return cast("Values", inner) if isinstance(inner, dict) else values


def _images(root: Path) -> dict[str, str]:
    images = _mapping(root, IMAGES) or {}
    for name, digest in images.items():
        if not isinstance(digest, str):
            _refuse(IMAGES, f"{name}: not text", "map image names to digests")
    return images


def _mapping(root: Path, name: str) -> Values | None:
    """Return the mapping in a file, None if the file is missing or empty."""
    document = read_yaml(root, name) if (root / name).is_file() else None
    if document is None:
        return None
    if not isinstance(document, dict):
        _refuse(name, f"holds a {type(document).__name__}, not a mapping", "write `name: value` lines")
    return cast("Values", document)


def _hook_files(root: Path) -> Iterator[str]:
    """Yield candidates for hooks (reference: hooks.md section 1): executable, not hidden, no data files."""
    for folder, folders, names in os.walk(root / "hooks"):
        folders[:] = [name for name in folders if name not in _NOT_HOOKS and not name.startswith(".")]
        for name in names:
            path = Path(folder, name)
            if not name.startswith(".") and not name.endswith(_NOT_HOOK_ENDINGS) and path.stat().st_mode & _EXECUTABLE:
                yield path.relative_to(root).as_posix()


def _refuse(name: str, problem: str, hint: str) -> NoReturn:
    raise PermanentError(Reason.LOAD_FAILED, f"{name}: {problem}", hint=hint, actor=Actor.AUTHOR)
