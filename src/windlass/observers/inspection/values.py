"""The values of a release: read from what Helm has stored, with what is secret hidden.

The source is the newest stored revision and nothing else: it holds the values its chart was rendered with, layers and
hook patches included, and the schemas they belong to. What is wanted but not released yet does not stand there.
"""

from __future__ import annotations

import base64
from typing import Any, Final, cast

from windlass.adapters.helm import record
from windlass.contracts.objects import PackageObject
from windlass.domain.errors import Actor, PermanentError, Reason
from windlass.domain.packages.model import Values
from windlass.domain.settings import openapi
from windlass.domain.settings.defaults import fill_defaults
from windlass.domain.settings.schema import SETTINGS_SCHEMA, VALUES_SCHEMA
from windlass.domain.settings.subschemas import composed, subschemas
from windlass.domain.settings.violations import SECRET_MARK
from windlass.domain.text.documents import is_object, parse_helm
from windlass.domain.text.tree import merge
from windlass.ports.helm import ReleaseRef
from windlass.ports.kube import Kube

HIDDEN: Final = "(hidden: --show-secrets)"

_ANYTHING: Final = object()
"""Stands for a value about whose origin there is no doubt."""

_SECRET_ENDINGS: Final = ("password", "passwd", "passphrase", "token", "apikey", "privatekey", "credentials")


async def release_values(
    kube: Kube, release: ReleaseRef, package: PackageObject, *, show_secrets: bool = False
) -> Values:
    """Return the values of the newest stored revision, as its chart saw them.

    Hidden unless ``show_secrets``, which is for callers that read with rights of their own: fields that the package's
    schemas mark as secret, fields called like a password or token, and, if any settings come from a Secret, everything
    that is neither in ``spec.settings`` nor a default. The last rule does not look at the Secret: it may hold something
    else by now than what was released.

    Raises:
        PermanentError: PACKAGE_NOT_FOUND, there is no release yet.
    """
    stored = await _newest(kube, release, package)
    chart: Values = stored.get("chart") or {}
    static: Values = chart.get("values") or {}
    values = cast("Values", _without_nulls(merge(static, stored.get("config") or {})))
    if show_secrets:
        return values
    schemas = _schemas(chart)
    expected: Any = _ANYTHING
    if any(source.kind == "Secret" for source in package.spec.values_from):
        expected = merge(static, package.spec.settings)
        for schema in schemas:
            expected = fill_defaults(expected, schema)
    return cast("Values", _masked(values, expected, schemas, name=""))


async def _newest(kube: Kube, release: ReleaseRef, package: PackageObject) -> Values:
    found = await kube.list(
        "v1", "Secret", namespace=release.namespace, label_selector=f"owner=helm,name={release.name}"
    )
    if not found.items:
        raise PermanentError(
            Reason.PACKAGE_NOT_FOUND,
            f"{package.metadata.name} has no release yet",
            hint=f"see `windlass describe {_named(package)}`",
            actor=Actor.USER,
        )
    secret = max(found.items, key=lambda one: int(one["metadata"]["labels"]["version"]))
    return record.content(secret)


def _named(package: PackageObject) -> str:
    """Return how a command names the package: ``web -n prod``, ``module/ingress``."""
    metadata = package.metadata
    return f"{metadata.name} -n {metadata.namespace}" if metadata.namespace else f"module/{metadata.name}"


def _schemas(chart: Values) -> list[Values]:
    """Return the package's schemas, which Helm stores with the other files of the chart."""
    stored: list[dict[str, str]] = chart.get("files") or []
    files = {one["name"]: one["data"] for one in stored}
    settings, values = (_parsed(files.get(name)) for name in (SETTINGS_SCHEMA, VALUES_SCHEMA))
    prepared: list[Values] = []
    if settings:
        prepared.append(openapi.expand(settings))
    if values:
        prepared.append(openapi.expand(values, fallback=settings))
    return prepared


def _parsed(data: str | None) -> Values | None:
    """Return a schema as the record holds it, whoever wrote it; None if it is no mapping."""
    found = parse_helm(base64.b64decode(data)) if data else None
    return found if is_object(found) else None


def _without_nulls(value: Any) -> Any:
    """Leave out what is null: that is how Helm drops one of the chart's own values."""
    if isinstance(value, dict):
        return {key: _without_nulls(one) for key, one in cast("Values", value).items() if one is not None}
    return value


def _masked(value: Any, expected: Any, schemas: list[Values], *, name: str) -> Any:
    """Hide what is secret in ``value``; ``expected`` is what may be shown at this place."""
    here = [schema for one in schemas for schema in (one, *composed(one))]
    if any(_marked(schema) for schema in here) or name.lower().replace("_", "").endswith(_SECRET_ENDINGS):
        return HIDDEN
    if isinstance(value, dict):
        known = cast("Values", expected) if isinstance(expected, dict) else {}
        return {
            key: _masked(
                one,
                _ANYTHING if expected is _ANYTHING else known.get(key),
                [sub for schema in here for sub in _member(schema, key)],
                name=key,
            )
            for key, one in cast("Values", value).items()
        }
    if isinstance(value, list):
        items = [sub for schema in here for pointer, sub in subschemas(schema) if pointer == "/items"]
        whole = _ANYTHING if expected is _ANYTHING or value == expected else None
        return [_masked(one, whole, items, name="") for one in cast("list[Any]", value)]
    return value if expected is _ANYTHING or value == expected else HIDDEN


def _member(schema: Values, key: str) -> list[Values]:
    """Return the schemas that speak about the member ``key``; those that only may are included."""
    named: Values = schema.get("properties") or {}
    found = [named[key]] if isinstance(named.get(key), dict) else []
    general = ("patternProperties", "additionalProperties")
    return found + [sub for pointer, sub in subschemas(schema) if pointer.split("/")[1] in general]


def _marked(schema: Values) -> bool:
    return schema.get(SECRET_MARK) is True or schema.get("format") == "password"
