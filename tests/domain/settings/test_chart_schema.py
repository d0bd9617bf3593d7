"""Values against a chart's own schema: what Helm would refuse too, told earlier and with its path."""

from __future__ import annotations

from typing import Any

import pytest

from windlass.domain.ids import Kind
from windlass.domain.packages.model import Definition, Package, Values
from windlass.domain.settings.chart_schema import check_chart
from windlass.domain.settings.schema import prepare_schemas
from windlass.domain.settings.values import compute_values

ANYTHING: Values = {"type": "object", "additionalProperties": True}


def plain(schema: Values | None, static: Values | None = None) -> Package:
    return Package(
        definition=Definition(name="web", version="1.0.0"),
        static_values=static or {},
        settings_schema=ANYTHING,
        chart_schema=schema,
    )


def told(package: Package, settings: Values, concealed: Values | None = None) -> list[str]:
    values = compute_values(package, prepare_schemas(package), settings, [])
    found = check_chart(package, values, settings=settings, concealed=concealed or {})
    return [str(violation) for violation in found]


@pytest.mark.parametrize(
    ("schema", "settings", "says"),
    [
        ({"properties": {"n": {"type": "integer"}}}, {"n": "x"}, 'settings.n: must be integer (given "x")'),
        ({"properties": {"a": {"required": ["b"]}}}, {"a": {}}, "settings.a.b: is required"),
        ({"required": ["a"]}, {}, "settings.a: is required"),
        ({"additionalProperties": False, "properties": {"a": {}}}, {"b": 1}, "settings.b: is not known"),
        ({"properties": {"a": {"pattern": "^x$"}}}, {"a": "y"}, "settings.a: "),
        ({"patternProperties": {"^x": {"type": "string"}}}, {"xa": 1}, "settings.xa: must be string"),
        ({"properties": {"a": {"items": {"minimum": 1}}}}, {"a": [1, 0]}, "settings.a[1]: "),
        ({"$ref": "#/$defs/all", "$defs": {"all": {"required": ["a"]}}}, {}, "settings.a: is required"),
        ({"properties": {"a": {"multipleOf": 5}}}, {"a": 7}, "settings.a: "),
        ({"properties": {"a": {"anyOf": [{"type": "string"}, {"type": "null"}]}}}, {"a": 7}, "settings.a: fits none"),
    ],
)
@pytest.mark.parametrize(
    "dialect",
    [
        None,
        "http://json-schema.org/draft-07/schema#",
        "http://json-schema.org/draft-06/schema#",
        "https://json-schema.org/draft/2019-09/schema",
        "https://json-schema.org/draft/2020-12/schema",
    ],
)
def test_what_is_wrong_stands_at_the_path_that_the_user_wrote(
    schema: Values, settings: Values, says: str, dialect: str | None
) -> None:
    marked = {"$schema": dialect, **schema} if dialect else schema
    [found] = told(plain(marked), settings)
    assert found.startswith(says)


DRAFT_4 = "http://json-schema.org/draft-04/schema#"


@pytest.mark.parametrize(
    ("schema", "settings"),
    [
        ({"properties": {"n": {"type": "integer"}}}, {"n": 1.0}),
        ({"$schema": DRAFT_4, "properties": {"n": {"type": "integer"}}}, {"n": 1.0}),
        ({"$schema": DRAFT_4, "properties": {"n": {"minimum": 1, "exclusiveMinimum": False}}}, {"n": 1}),
        ({"properties": {"n": {"multipleOf": 0.1}}}, {"n": 0.3}),
        ({"properties": {"a": {"format": "email"}}}, {"a": "none"}),
        ({"properties": {"a": {"type": "string"}}}, {"a": None}),
        ({"required": ["a"]}, {"a": None}),
        ({"properties": {"a": {"required": ["b"]}}}, {"a": {"b": None}}),
        ({"$schema": "http://json-schema.org/draft-07/schema#", "$ref": "#/d", "d": {}, "required": ["a"]}, {}),
        ({"$ref": "https://example.com/schema.json"}, {}),
        ({"$ref": "#/nowhere"}, {}),
        ({"$ref": "#"}, {}),
        ({"type": "nonsense"}, {}),
        ({"$schema": "http://json-schema.org/draft-03/schema#", "required": ["a"]}, {}),
        ({"properties": {"a": {"pattern": "(?=x)y"}}}, {"a": "z"}),
        ({"properties": {"a": {"pattern": "^x$"}}}, {"a": "y" * 100_000}),
        ({"unevaluatedProperties": False}, {"a": 1}),
    ],
)
def test_what_helm_may_take_is_left_to_helm(schema: Values, settings: Values) -> None:
    assert told(plain(schema), settings) == []


def test_no_schema_refuses_nothing() -> None:
    assert told(plain(None), {"a": 1}) == []


def test_values_of_the_chart_count_and_nulls_take_them_away() -> None:
    schema: Values = {"required": ["a"], "properties": {"a": {"type": "string"}}}
    assert told(plain(schema, {"a": "x"}), {}) == []
    assert told(plain(schema, {"a": "x"}), {"a": None}) == []


def test_schemas_that_multiply_are_left_to_helm() -> None:
    levels: dict[str, Any] = {f"l{n}": {"allOf": [{"$ref": f"#/$defs/l{n + 1}"}] * 10} for n in range(12)}
    schema: Values = {"$ref": "#/$defs/l0", "$defs": {**levels, "l12": {"type": "object"}}}
    assert told(plain(schema), {"a": 1}) == []


def test_what_is_secret_is_not_shown() -> None:
    schema: Values = {"properties": {"a": {"type": "integer"}, "b": {"type": "integer", "format": "password"}}}
    settings = {"a": "s3cret", "b": "s3cret"}
    assert "s3cret" not in "".join(told(plain(schema), settings, {"a": "s3cret"}))
    behind: Values = {"$defs": {"n": {"type": "integer"}}, "properties": {"a": {"$ref": "#/$defs/n"}}}
    assert told(plain(behind), {"a": "s3cret"}) == ["settings.a: must be integer (given (hidden))"]


def test_where_settings_and_values_are_two_things_paths_say_which() -> None:
    package = Package(
        definition=Definition(name="web", version="1.0.0", type=Kind.APPLICATION),
        static_values={"n": 1},
        settings_schema={"type": "object", "properties": {"a": {}}},
        values_schema={"type": "object", "properties": {"a": {}, "n": {}}},
        chart_schema={"properties": {"a": {"type": "string"}, "n": {"type": "string"}}},
    )
    assert [text.partition(":")[0] for text in told(package, {"a": 1})] == ["settings.a", "values.n"]


def test_a_modules_values_are_seen_as_helm_sees_them() -> None:
    package = Package(
        definition=Definition(name="web", version="1.0.0", type=Kind.MODULE),
        static_values={},
        settings_schema=ANYTHING,
        chart_schema={"properties": {"web": {"properties": {"a": {"type": "string"}}}, "a": {}}},
    )
    assert told(package, {"a": 1}) == ["settings.web.a: must be string (given (hidden))"]
