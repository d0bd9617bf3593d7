"""Plain Helm charts: folders with a ``Chart.yaml`` and nothing of ours. They are packages without hooks.

Whatever a chart's author put there stays as it is: ``values.yaml`` is not unwrapped, ``hooks/`` and ``openapi/`` are
the chart's own affair, and any settings are taken that ``values.schema.json`` admits.
"""

from __future__ import annotations

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
from windlass.domain.packages.definition import FILE, LEGACY_FILE
from windlass.domain.packages.model import Definition, Package, Values
from windlass.domain.packages.wanted import canonical
from windlass.domain.text.documents import is_object

_ANYTHING: Final[Values] = {"type": "object", "additionalProperties": True}


def is_plain_chart(root: Path) -> bool:
    """Say whether a folder is a chart that says nothing to Windlass."""
    return (root / CHART).is_file() and not any((root / name).exists() for name in (FILE, LEGACY_FILE))


def read_plain_chart(root: Path) -> Package:
    """Read a chart as a package.

    Raises:
        FileError: ``Chart.yaml`` is not what Helm takes, or ``values.yaml`` is no mapping.
        OSError: a file cannot be read.
    """
    return Package(
        definition=_definition(read_yaml(root, CHART)),
        static_values=read_mapping(root, STATIC_VALUES) or {},
        settings_schema=_ANYTHING,
        chart_schema=read_chart_schema(root),
        chart_has_hooks=has_helm_hooks(root),
    )


def _definition(document: Any) -> Definition:
    if not is_object(document):
        raise FileError(CHART, "holds no mapping", "write name and version")
    name, version = document.get("name"), document.get("version")
    if not isinstance(name, str) or not name:
        raise FileError(CHART, "name: is missing", "name the chart")
    exact = canonical(version) if isinstance(version, str) else None
    if exact is None:
        raise FileError(CHART, "version: is no semantic version", "write one, such as 1.4.2, in quotes")
    if document.get("type") == "library":
        raise FileError(CHART, "type: a library chart cannot be installed", "name an application chart")
    description = document.get("description")
    return Definition(
        name=name,
        version=exact,
        descriptions={"en": description} if isinstance(description, str) else {},
        kubernetes=str(cast("object", document.get("kubeVersion")) or ""),
    )
