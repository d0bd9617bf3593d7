"""Schemas of a package, prepared once and validated with often."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final

from windlass.domain.errors import Actor, PermanentError, Reason
from windlass.domain.packages.model import Package, Values
from windlass.domain.settings import openapi
from windlass.domain.settings.defaults import fill_defaults
from windlass.domain.settings.subschemas import subschemas
from windlass.domain.settings.violations import Violation, explain
from windlass.domain.settings.vocabulary import errors
from windlass.domain.text.tree import MAX_DEPTH, deeper_than

MAX_VIOLATIONS: Final = 20
"""Violations that are looked for; more do not help anybody, and each costs work on hostile input."""

SETTINGS_SCHEMA: Final = "openapi/settings.yaml"
VALUES_SCHEMA: Final = "openapi/values.yaml"


@dataclass(frozen=True)
class Schema:
    """A prepared schema. ``document`` is JSON Schema 2020-12 (plus ``nullable``) and must not be changed."""

    document: Values


@dataclass(frozen=True, kw_only=True)
class Schemas:
    """The schemas of one package content; None where it has none.

    ``helm`` is ``values`` with ``x-required-for-helm`` in force: what the values must fulfil just before Helm.
    """

    settings: Schema | None = None
    values: Schema | None = None
    helm: Schema | None = None


def prepare_schemas(package: Package) -> Schemas:
    """Prepare the schemas of a package: about 0.4 ms for each property, so callers keep the result by digest.

    Raises:
        PermanentError: LOAD_FAILED with the file and the place in it.
    """
    file = SETTINGS_SCHEMA
    try:
        settings = openapi.expand(package.settings_schema) if package.settings_schema else None
        closed = Schema(openapi.close(settings)) if settings is not None else None
        file = VALUES_SCHEMA
        if not package.values_schema:
            return Schemas(settings=closed)
        values = openapi.expand(package.values_schema, fallback=package.settings_schema)
        document = openapi.close(openapi.extend(values, settings))
        return Schemas(settings=closed, values=Schema(document), helm=Schema(openapi.require_for_helm(document)))
    except openapi.SchemaError as error:
        raise PermanentError(
            Reason.LOAD_FAILED,
            f"{file} at {error.where or '/'}: {error.problem}",
            hint="mend the schema in the package",
            actor=Actor.AUTHOR,
        ) from error


def check_schema(schema: Values, *, settings: Values | None = None) -> tuple[Violation, ...]:
    """Return what a lint should say about a schema file: what makes it unusable, and defaults it refuses itself.

    Args:
        schema: the parsed file.
        settings: the parsed settings schema, if ``schema`` is the values schema.
    """
    try:
        base = openapi.expand(settings) if settings else None
        document = openapi.close(openapi.extend(openapi.expand(schema, fallback=settings), base))
        openapi.require_for_helm(document)
    except openapi.SchemaError as error:
        return (Violation(path=error.where or "/", message=error.problem),)
    return tuple(islice(_bad_defaults(document, ""), MAX_VIOLATIONS))


def validate(values: Values, schema: Schema, *, root: str, concealed: Values | None = None) -> tuple[Violation, ...]:
    """Return up to `MAX_VIOLATIONS` violations, sorted by path; empty if the values are valid.

    Args:
        values: the JSON object to check.
        schema: what it must fulfil.
        root: what paths start with (``settings``).
        concealed: values that came from Secrets, in the same shape: whatever stands in them is never shown.
    """
    if deeper_than(values):
        return (Violation(path=root, message=f"is nested more than {MAX_DEPTH} levels deep"),)
    found = islice(errors(schema.document, values), MAX_VIOLATIONS)
    violations = [explain(error, schema.document, root=root, concealed=concealed or {}) for error in found]
    return tuple(sorted(dict.fromkeys(violations), key=lambda violation: (violation.path, violation.message)))


def raise_if_invalid(violations: tuple[Violation, ...], *, what: str = "settings", actor: Actor = Actor.USER) -> None:
    """Raise if there are violations; one line for each.

    Raises:
        PermanentError: VALIDATION_FAILED.
    """
    if not violations:
        return
    count = len(violations)
    more = " or more" if count == MAX_VIOLATIONS else ""
    lines = "\n".join(str(violation) for violation in violations)
    hint = f"correct the {what}" if actor is Actor.USER else "mend the package"
    raise PermanentError(
        Reason.VALIDATION_FAILED,
        f"the {what} break {count}{more} rule{'s' if count > 1 else ''} of the package's schema:\n{lines}",
        hint=hint,
        actor=actor,
    )


def _bad_defaults(schema: Values, where: str) -> Iterator[Violation]:
    if "default" in schema:
        default = schema["default"]
        filled = fill_defaults({"default": default}, {"properties": {"default": schema}})
        wrapper = {"type": "object", "properties": {"default": schema}}
        for error in errors(wrapper, filled):
            found = explain(error, wrapper, root="", concealed={})
            yield Violation(
                path=f"{where}/{found.path.replace('.', '/')}",
                message=f"the default {found.message}",
                given=found.given,
                allowed=found.allowed,
            )
    for pointer, sub in subschemas(schema):
        yield from _bad_defaults(sub, where + pointer)
