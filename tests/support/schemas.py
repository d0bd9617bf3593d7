"""Schemas of packages in few words, for tests."""

from __future__ import annotations

from typing import Any

from windlass.domain.packages.model import Definition, Package, Values
from windlass.domain.settings.schema import Schema, Schemas, prepare_schemas, validate


def schemas(*, settings: Values | None = None, values: Values | None = None) -> Schemas:
    return prepare_schemas(
        Package(
            definition=Definition(name="web", version="1.0.0"),
            static_values={},
            settings_schema=settings,
            values_schema=values,
        )
    )


def prepared(schema: Values) -> Schema:
    found = schemas(settings=schema).settings
    assert found is not None
    return found


def of(**properties: Any) -> Values:
    return {"type": "object", "properties": properties}


def texts(values: Values, schema: Values, **more: Any) -> list[str]:
    return [str(violation) for violation in validate(values, prepared(schema), root="settings", **more)]
