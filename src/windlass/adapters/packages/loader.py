"""Reads a package's folder (reference: deckhouse.md section 1.1)."""

from __future__ import annotations

import os
import re
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NoReturn, cast

from windlass.domain.definition import FILE, parse_definition
from windlass.domain.documents import DocumentError, parse_document
from windlass.domain.errors import Actor, PermanentError, Reason
from windlass.domain.package import Package, Values
from windlass.domain.schema import prepare_schemas
from windlass.domain.values import camel_key

MAX_FILE: Final = 5 << 20
"""Bytes of one YAML file; larger ones are data, not settings."""

_HELM_HOOK: Final = re.compile(rb"""["']?helm\.sh/hook["']?\s*:""")
_NOT_HOOKS: Final = frozenset({"lib", "venv"})
_NOT_HOOK_ENDINGS: Final = (".yaml", ".json", ".md", ".txt")
_BOM: Final = "\ufeff"


def load(root: Path) -> Package:
    """Read everything but the chart's templates.

    Raises:
        PermanentError: LOAD_FAILED with file, place, and what is expected there.
    """
    if not (root / FILE).is_file():
        _refuse(FILE, "is missing", "every package has one: see docs/packages.md")
    definition = parse_definition(_yaml(root, FILE))
    settings = "openapi/settings.yaml" if (root / "openapi/settings.yaml").is_file() else "openapi/config-values.yaml"
    package = Package(
        definition=definition,
        static_values=_static_values(root, camel_key(definition.name)),
        settings_schema=_mapping(root, settings),
        values_schema=_mapping(root, "openapi/values.yaml"),
        images=_images(root),
        has_chart=(root / "Chart.yaml").is_file() or (root / "templates").is_dir(),
        chart_has_hooks=_has_helm_hooks(root),
        hook_files=tuple(_hook_files(root)),
    )
    prepare_schemas(package)
    return package


def _static_values(root: Path, key: str) -> Values:
    values = _mapping(root, "values.yaml") or {}
    inner = values.get(key)
    return cast("Values", inner) if isinstance(inner, dict) else values


def _images(root: Path) -> dict[str, str]:
    images = _mapping(root, "images_digests.json") or {}
    for name, digest in images.items():
        if not isinstance(digest, str):
            _refuse("images_digests.json", f"{name} is no text", "map image names to digests")
    return images


def _mapping(root: Path, name: str) -> Values | None:
    """Return the mapping in a file, None if the file is missing or empty."""
    document = _yaml(root, name) if (root / name).is_file() else None
    if document is None:
        return None
    if not isinstance(document, dict):
        _refuse(name, "is no mapping", "write `name: value` lines")
    return cast("Values", document)


def _yaml(root: Path, name: str) -> Any:
    path = root / name
    if path.stat().st_size > MAX_FILE:
        _refuse(name, f"has more than {MAX_FILE} bytes", "keep data out of it")
    try:
        text = path.read_bytes().decode().removeprefix(_BOM)
    except UnicodeDecodeError as error:
        _refuse(name, f"is not UTF-8 (byte {error.start})", "save it as UTF-8")
    try:
        return parse_document(text)
    except DocumentError as error:
        _refuse(name, str(error), "mend it at that place")


def _hook_files(root: Path) -> Iterator[str]:
    """Yield candidates for hooks, sorted (reference: hooks.md section 1): executable, not hidden, no data files."""
    found: list[str] = []
    for folder, folders, names in os.walk(root / "hooks"):
        folders[:] = [name for name in folders if name not in _NOT_HOOKS and not name.startswith(".")]
        for name in names:
            path = Path(folder, name)
            if name.startswith(".") or name.endswith(_NOT_HOOK_ENDINGS) or not path.stat().st_mode & 0o111:
                continue
            found.append(path.relative_to(root).as_posix())
    yield from sorted(found)


def _has_helm_hooks(root: Path) -> bool:
    """Say whether any template of the chart or of its subcharts carries a Helm hook annotation."""
    for path in root.rglob("*"):
        parts = path.relative_to(root).parts
        if not path.is_file() or not ({"templates", "charts"} & set(parts)):
            continue
        if path.suffix == ".tgz" and "charts" in parts:
            if _archive_has_helm_hooks(path):
                return True
        elif _HELM_HOOK.search(path.read_bytes()):
            return True
    return False


def _archive_has_helm_hooks(path: Path) -> bool:
    try:
        with tarfile.open(path, mode="r:gz") as tar:
            for member in tar:
                file = tar.extractfile(member) if member.isreg() and member.size <= MAX_FILE else None
                if file is not None and _HELM_HOOK.search(file.read()):
                    return True
    except (tarfile.TarError, EOFError, OSError) as error:
        name = path.name
        _refuse(f"charts/{name}", f"is not a chart archive ({error})", "package the subchart again")
    return False


def _refuse(name: str, problem: str, hint: str) -> NoReturn:
    raise PermanentError(Reason.LOAD_FAILED, f"{name}: {problem}", hint=hint, actor=Actor.AUTHOR)
