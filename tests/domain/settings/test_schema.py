from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.schemas import of, prepared, schemas, texts
from windlass.domain.errors import Actor, PermanentError, Reason
from windlass.domain.packages.model import Values
from windlass.domain.settings import openapi
from windlass.domain.settings.defaults import fill_defaults
from windlass.domain.settings.schema import (
    Schema,
    Schemas,
    check_schema,
    validate,
)

# -- preparation: references -----------------------------------------------------------------------------------------


def test_references_are_expanded_wherever_schemas_stand() -> None:
    schema = {
        **of(
            a={"$ref": "#/definitions/port"},
            list={"type": "array", "items": {"$ref": "#/components/schemas/Port"}},
            map={"type": "object", "additionalProperties": {"$ref": "#/definitions/alias"}},
            odd={"$ref": "#/definitions/we~1ird~0%20name"},
        ),
        "definitions": {
            "port": {"type": "integer", "maximum": 9},
            "alias": {"$ref": "#/definitions/port"},
            "we/ird~ name": {"type": "boolean"},
        },
        "components": {"schemas": {"Port": {"type": "integer", "minimum": 1}}},
    }
    before = copy.deepcopy(schema)
    document = prepared(schema).document
    assert "$ref" not in json.dumps(document)
    assert schema == before
    assert texts({"a": 10, "list": [0], "map": {"x": 11}, "odd": "y"}, schema) == [
        "settings.a: must be at most 9 (given 10)",
        "settings.list[0]: must be at least 1 (given 0)",
        "settings.map.x: must be at most 9 (given 11)",
        'settings.odd: must be boolean (given "y")',
    ]


def test_what_stands_beside_a_reference_wins() -> None:
    schema = {
        **of(a={"$ref": "#/definitions/x", "default": 7, "nullable": True}),
        "definitions": {"x": {"type": "integer", "default": 1}},
    }
    assert fill_defaults({}, prepared(schema).document) == {"a": 7}
    assert texts({"a": None}, schema) == []


def test_properties_may_be_called_like_keywords() -> None:
    schema = of(
        **{"$ref": {"type": "string"}, "properties": of(items={"type": "integer"}), "default": {"type": "null"}}
    )
    assert texts({"$ref": "x", "properties": {"items": 1}, "default": None}, schema) == []


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        (of(a={"$ref": "#/properties/a"}), "circle: #/properties/a -> #/properties/a"),
        (of(a={"$ref": "#"}), "circle: # -> #"),
        (
            {
                **of(a={"$ref": "#/definitions/x"}),
                "definitions": {"x": of(y={"$ref": "#/definitions/y"}), "y": of(x={"$ref": "#/definitions/x"})},
            },
            "circle: #/definitions/x -> #/definitions/y -> #/definitions/x",
        ),
        (of(a={"$ref": "https://example.com/x.json"}), "leaves the file"),
        (of(a={"$ref": "other.yaml#/definitions/x"}), "leaves the file"),
        (of(a={"$ref": 7}), "leaves the file"),
        (of(a={"$ref": "#/definitions/missing"}), "points to nothing"),
        (of(a={"$ref": "#/properties/a/$ref"}), "points to nothing"),
        (of(a={"$dynamicRef": "#x"}), "not supported"),
        (of(a={"type": "strin"}), "'strin'"),
        (of(a={"type": "string", "pattern": "("}), "does not compile"),
        (of(a={"type": "string", "pattern": "(?=x)"}), "invalid perl operator"),
        (of(a={"type": "string", "pattern": r"(x)\1"}), "invalid escape"),
        (of(a={"required": True}), "True is not of type 'array'"),
        ({"type": "object", "properties": ["a"]}, "is not of type 'object'"),
        ({"type": "object", "properties": {True: {"type": "string"}}}, "put it in quotes"),
        ({"type": "string"}, "must describe an object"),
        ({"x-extend": {"schema": "settings.yaml"}, **of()}, "no settings schema"),
        ({"x-extend": {"schema": "../x.yaml"}, **of()}, "must be {schema: settings.yaml}"),
        ({"x-extend": "settings.yaml", **of()}, "must be {schema: settings.yaml}"),
        ({"x-required-for-helm": {"a": 1}, **of()}, "a property name or a list"),
    ],
)
def test_schemas_that_cannot_be_used(schema: Values, told: str) -> None:
    with pytest.raises(PermanentError) as caught:
        schemas(values=schema)
    assert told in caught.value.message
    assert (caught.value.reason, caught.value.actor) == (Reason.LOAD_FAILED, Actor.AUTHOR)
    assert caught.value.message.startswith("openapi/values.yaml at /")
    [problem] = check_schema(schema)
    assert told in str(problem)


def test_references_that_multiply_each_other_are_stopped() -> None:
    bomb: Values = {
        f"d{i}": of(a={"$ref": f"#/definitions/d{i + 1}"}, b={"$ref": f"#/definitions/d{i + 1}"}) for i in range(30)
    }
    bomb["d30"] = {"type": "string"}
    with pytest.raises(PermanentError, match="multiply each other"):
        prepared({**of(a={"$ref": "#/definitions/d0"}), "definitions": bomb})


def test_schemas_nested_too_deep_are_refused() -> None:
    deep: Values = {"type": "string"}
    for _ in range(5000):
        deep = {"type": "array", "items": deep}
    with pytest.raises(PermanentError, match="nested more than"):
        prepared(of(a=deep))
    looped: Values = {"type": "array"}
    looped["items"] = looped
    with pytest.raises(PermanentError, match="nested more than"):
        prepared(of(a=looped))
    chain: Values = {f"d{i}": {"$ref": f"#/definitions/d{i + 1}"} for i in range(5000)}
    with pytest.raises(PermanentError, match="nested more than"):
        prepared({**of(a={"$ref": "#/definitions/d0"}), "definitions": chain})


def test_the_deepest_schema_that_is_taken_can_be_validated_with() -> None:
    deep: Values = {"type": "string"}
    value: Any = 1
    for _ in range(30):
        deep, value = of(a=deep), {"a": value}
    assert len(validate(value, prepared(deep), root="settings")) == 1


# -- preparation: unknown keys ---------------------------------------------------------------------------------------


def test_unknown_keys_are_refused_where_nothing_is_said() -> None:
    schema = of(
        plain=of(known={"type": "string"}),
        open={**of(), "additionalProperties": True},
        map={"type": "object", "additionalProperties": {"type": "integer"}},
        list={"type": "array", "items": of(name={"type": "string"})},
        untyped={},
    )
    values = {
        "plain": {"knwon": 1},
        "open": {"x": 1},
        "map": {"x": 1},
        "list": [{"name": "a", "nmae": 1}],
        "untyped": {"x": 1},
        "extra": 1,
    }
    assert texts(values, schema) == [
        "settings.extra: is not known (allowed list, map, open, plain, untyped)",
        "settings.list[0].nmae: is not known; did you mean name? (allowed name)",
        "settings.plain.knwon: is not known; did you mean known? (allowed known)",
    ]


def test_keys_named_by_alternatives_are_known() -> None:
    schema = {
        **of(kind={"type": "string"}),
        "oneOf": [
            {"properties": {"kind": {"enum": ["s3"]}, "bucket": {"type": "string"}}, "required": ["bucket"]},
            {"properties": {"kind": {"enum": ["nfs"]}, "server": {"type": "string"}}, "required": ["server"]},
        ],
    }
    assert texts({"kind": "s3", "bucket": "b"}, schema) == []
    assert texts({"kind": "nfs", "server": "s"}, schema) == []
    assert [text.split(" (")[0] for text in texts({"kind": "nfs", "server": "s", "x": 1}, schema)] == [
        "settings.x: is not known"
    ]
    [text] = texts({"kind": "nfs"}, schema)
    assert text == (
        "settings: fits none of the alternatives: kind is not one of the allowed values and bucket is required; "
        "or server is required (given an object with 1 keys)"
    )


# -- preparation: x-extend, x-required-for-helm ----------------------------------------------------------------------

BASE = {
    "type": "object",
    "title": "base",
    "required": ["a"],
    "definitions": {"port": {"type": "integer", "maximum": 9}, "own": {"type": "string"}},
    "properties": {"a": {"$ref": "#/definitions/own"}, "b": {"type": "string"}, "p": {"$ref": "#/definitions/port"}},
    "x-base": 1,
}


def test_values_schema_extends_the_settings_schema() -> None:
    values = {
        "x-extend": {"schema": "config-values.yaml"},
        "type": "object",
        "required": ["i"],
        "definitions": {"own": {"type": "boolean"}},
        "properties": {
            "b": {"type": "integer"},
            "i": {"$ref": "#/definitions/port"},
            "j": {"$ref": "#/definitions/own"},
        },
    }
    both = schemas(settings=BASE, values=values)
    assert both.values is not None
    document = both.values.document
    assert (document["title"], document["x-base"], document["required"]) == ("base", 1, ["a", "i"])
    assert validate({"a": "x", "b": 1, "i": 9, "p": 9, "j": True}, both.values, root="web") == ()
    found = [str(v) for v in validate({"a": True, "b": "x", "p": 10, "i": 10, "j": "x"}, both.values, root="web")]
    assert found == [
        "web.a: must be string (given true)",  # the parent's own definition, not the child's of that name
        'web.b: must be integer (given "x")',  # the child wins
        "web.i: must be at most 9 (given 10)",  # a definition of the parent, used by the child
        'web.j: must be boolean (given "x")',
        "web.p: must be at most 9 (given 10)",
    ]


def test_without_the_mark_nothing_is_extended() -> None:
    both = schemas(settings=BASE, values=of(i={"type": "integer"}))
    assert both.values is not None
    assert [v.path for v in validate({"a": "x"}, both.values, root="web")] == ["web.a"]


def test_required_for_helm_holds_for_helm_only() -> None:
    values = {
        **of(
            internal={
                **of(token={"type": "string"}, ca={"type": "string"}),
                "required": ["ca"],
                "x-required-for-helm": "token",
            }
        ),
        "x-required-for-helm": ["internal"],
    }
    all_of_them = schemas(values=values)
    assert all_of_them.values is not None
    assert all_of_them.helm is not None
    assert validate({}, all_of_them.values, root="web") == ()
    assert [v.path for v in validate({}, all_of_them.helm, root="web")] == ["web.internal"]
    found = validate({"internal": {}}, all_of_them.helm, root="web")
    assert [v.path for v in found] == ["web.internal.ca", "web.internal.token"]


def test_empty_schemas_are_no_schemas() -> None:
    assert schemas(settings={}, values={}) == Schemas()


# -- dialect ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        ({"type": "integer", "minimum": 1, "exclusiveMinimum": True}, [2], [1]),
        ({"type": "integer", "minimum": 1, "exclusiveMinimum": False}, [1], [0]),
        ({"type": "integer", "maximum": 1, "exclusiveMaximum": True}, [0], [1]),
        ({"type": "integer", "exclusiveMinimum": 1}, [2], [1]),
        ({"type": "integer", "exclusiveMinimum": True}, [-5], []),
        ({"type": "string", "nullable": True}, [None, "x"], [1]),
        ({"type": "string"}, ["x"], [None]),
        ({"type": "string", "nullable": True, "enum": ["a"], "pattern": "a", "minLength": 1}, [None, "a"], ["ba"]),
        ({"nullable": True, "oneOf": [{"type": "string"}, {"type": "integer"}]}, [None, "x", 1], [[]]),
        ({"nullable": False, "type": "string"}, ["x"], [None]),
        ({"type": "string", "pattern": "^[a-z]+$"}, ["abc"], ["abc\n", "ABC", ""]),
        ({"type": "string", "pattern": r"^\d+\z"}, ["12"], ["١٢", "12\n"]),
        ({"type": "string", "pattern": r"^[]$a]+\$$"}, ["]$a$"], ["b$"]),
        ({"type": "string", "format": "ipv4"}, ["10.0.0.1"], ["10.0.0.256"]),
        ({"type": "string", "format": "ipv6"}, ["::1"], ["10.0.0.1"]),
        ({"type": "string", "format": "date-time"}, ["2026-01-02T03:04:05Z"], ["2026-01-02", "2026-01-02T03:04:05"]),
        ({"type": "string", "format": "date"}, ["2026-01-02"], ["2026-13-02"]),
        ({"type": "string", "format": "email"}, ["a@b.c"], ["a b@c", "@c", "a@"]),
        ({"type": "string", "format": "uuid"}, ["12345678-1234-5678-1234-567812345678"], ["x"]),
        ({"type": "integer", "format": "int32"}, [2**31 - 1, -(2**31)], [2**31]),
        ({"type": "integer", "format": "int64"}, [2**63 - 1], [2**63]),
        ({"type": "string", "format": "hostname-of-mine"}, ["anything"], []),
        ({"type": "string", "x-anything": {"$ref": 1}, "example": {"$ref": 2}}, ["x"], []),
        ({"type": "integer"}, [1, 1.0], [True, 1.5, "1"]),
        (
            {"type": "object", "patternProperties": {"^x-[a-z]$": {"type": "integer"}}},
            [{"x-a": 1}],
            [{"x-a": "1"}, {"x-a\n": 1}, {"y": 1}],
        ),
    ],
)
def test_dialect(schema: Values, good: list[Any], bad: list[Any]) -> None:
    usable = prepared(of(field=schema))
    for value in good:
        assert validate({"field": value}, usable, root="") == ()
    for value in bad:
        assert len(validate({"field": value}, usable, root="")) == 1


def test_long_texts_are_not_matched() -> None:
    [text] = texts({"a": "x" * 100_000}, of(a={"type": "string", "pattern": "^x+$"}))
    assert "is longer than the 65536 characters" in text


@pytest.mark.timeout(5)
def test_a_pattern_that_explodes_elsewhere_is_matched_in_linear_time() -> None:
    [text] = texts({"a": "x" * 10_000}, of(a={"type": "string", "pattern": "^(x+x+)+y$"}))
    assert "does not match the pattern" in text


# -- lint ------------------------------------------------------------------------------------------------------------


def test_lint_accepts_a_good_schema() -> None:
    assert check_schema(BASE) == ()
    assert (
        check_schema({"x-extend": {"schema": "settings.yaml"}, **of(a={"$ref": "#/definitions/own"})}, settings=BASE)
        == ()
    )


def test_lint_finds_defaults_that_break_their_own_schema() -> None:
    schema = of(
        a={"type": "integer", "default": "x"},
        o={"default": {}, **of(b={"type": "string", "default": "b"}), "required": ["b"]},
        list={"type": "array", "items": of(c={"const": 1, "default": 2})},
        n={"type": "string", "nullable": True, "default": None},
    )
    assert [str(problem) for problem in check_schema(schema)] == [
        '/properties/a/default: the default must be integer (given "x")',
        "/properties/list/items/properties/c/default: the default has a fixed value (given 2; allowed 1)",
    ]


# -- properties over arbitrary input ---------------------------------------------------------------------------------

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.floats(allow_nan=False) | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "$ref", "x y"]), inner, max_size=3)
    ),
    max_leaves=8,
)
KEYWORDS = st.sampled_from(
    ["type", "properties", "items", "required", "enum", "default", "$ref", "allOf", "oneOf", "additionalProperties",
     "patternProperties", "pattern", "minimum", "exclusiveMinimum", "nullable", "x-extend", "x-required-for-helm",
     "definitions", "if", "then", "not", "format"]
)  # fmt: skip
LEAVES = st.sampled_from(
    [
        "object",
        "string",
        "integer",
        "array",
        "#/definitions/a",
        "#",
        "a",
        "^a$",
        "(",
        True,
        False,
        None,
        1,
        {},
        [],
        ["a"],
    ]
)
SCHEMAS = st.recursive(
    LEAVES,
    lambda inner: (
        st.dictionaries(KEYWORDS | st.sampled_from(["a", "b"]), inner, max_size=4) | st.lists(inner, max_size=2)
    ),
    max_leaves=12,
)


@settings(max_examples=300)
@given(st.dictionaries(KEYWORDS, SCHEMAS, max_size=4), st.dictionaries(st.sampled_from(["a", "b"]), JSON, max_size=2))
def test_any_schema_is_refused_in_our_terms_or_works(schema: Values, values: Values) -> None:
    before = copy.deepcopy((schema, values))
    try:
        document = openapi.require_for_helm(openapi.close(openapi.extend(openapi.expand(schema), None)))
    except openapi.SchemaError:
        return
    usable = Schema(document)
    validate(values, usable, root="")
    filled = fill_defaults(values, document)
    assert fill_defaults(filled, document) == filled
    assert all(filled[key] == value for key, value in values.items() if not isinstance(value, dict | list))
    check_schema(schema)
    assert (schema, values) == before
