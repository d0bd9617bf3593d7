from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.schemas import of, prepared, texts
from windlass.domain.errors import Actor, PermanentError, Reason
from windlass.domain.packages.model import Values
from windlass.domain.settings.schema import (
    MAX_VIOLATIONS,
    raise_if_invalid,
    validate,
)


def test_violations_say_path_given_and_allowed() -> None:
    schema = {
        **of(
            replicas={"type": "integer", "minimum": 1},
            mode={"type": "string", "enum": ["fast", "safe"]},
            nodes={"type": "array", "minItems": 1, "items": of(size={"type": "integer"})},
            name={"type": "string", "pattern": "^[a-z]+$", "maxLength": 3},
            map={"type": "object", "additionalProperties": {"type": "integer"}},
            many={"type": "array", "uniqueItems": True},
            fixed={"const": 1},
            step={"type": "integer", "multipleOf": 5},
        ),
        "required": ["version"],
    }
    schema["properties"]["version"] = {"type": "string"}
    values = {
        "replicas": 0,
        "mode": "slow",
        "nodes": [{"size": 1}, {"size": "big"}],
        "name": "UPPER",
        "map": {"odd.key": "x", "": "y"},
        "many": [1, 1],
        "fixed": 2,
        "step": 3,
    }
    assert texts(values, schema) == [
        "settings.fixed: has a fixed value (given 2; allowed 1)",
        "settings.many: must not hold an item twice (given a list of 2 items)",
        'settings.map[""]: must be integer (given "y")',
        'settings.map["odd.key"]: must be integer (given "x")',
        'settings.mode: is not one of the allowed values (given "slow"; allowed "fast", "safe")',
        'settings.name: does not match the pattern (given "UPPER"; allowed text that matches ^[a-z]+$)',
        "settings.name: must have at most 3 characters (given a text of 5 characters)",
        'settings.nodes[1].size: must be integer (given "big")',
        "settings.replicas: must be at least 1 (given 0)",
        "settings.step: must be a multiple of 5 (given 3)",
        "settings.version: is required (allowed string)",
    ]


def test_violations_are_bounded_in_number_and_length() -> None:
    schema = of(list={"type": "array", "items": {"type": "integer"}}, mode={"enum": [f"m{i}" for i in range(500)]})
    found = texts({"list": ["y" * 5000] * 1000, "mode": "z" * 5000}, schema)
    assert len(found) == MAX_VIOLATIONS
    assert max(len(text) for text in found) < 300


def test_deep_values_are_a_violation_not_a_crash() -> None:
    deep: Any = 1
    for _ in range(5000):
        deep = {"a": deep}
    [text] = texts({"open": deep}, of(open={"type": "object", "additionalProperties": True}))
    assert "nested more than 64" in text


def test_raising_puts_a_violation_on_each_line() -> None:
    usable = prepared(of(a={"type": "integer"}, b={"type": "integer"}))
    found = validate({"a": "x", "b": "y"}, usable, root="settings")
    with pytest.raises(PermanentError) as caught:
        raise_if_invalid(found)
    assert (caught.value.reason, caught.value.actor) == (Reason.VALIDATION_FAILED, Actor.USER)
    assert caught.value.message.splitlines() == [
        "the settings break 2 rules of the package's schema:",
        'settings.a: must be integer (given "x")',
        'settings.b: must be integer (given "y")',
    ]
    raise_if_invalid(())


# -- secrets ---------------------------------------------------------------------------------------------------------

CANARY = "canary-7f3a"

SECRET_SCHEMAS: list[tuple[str, Values, Values]] = [
    ("marked", of(p={"type": "integer", "x-windlass-secret": True}), {"p": CANARY}),
    ("format", of(p={"type": "string", "format": "password", "maxLength": 3}), {"p": CANARY}),
    ("enum", of(p={"enum": ["a"], "format": "password"}), {"p": CANARY}),
    ("const", of(p={"const": "a", "format": "password"}), {"p": CANARY}),
    ("pattern", of(p={"type": "string", "format": "password", "pattern": "^x"}), {"p": CANARY}),
    ("inside a marked object", of(o={"x-windlass-secret": True, **of(p={"type": "integer"})}), {"o": {"p": CANARY}}),
    ("around a marked field", of(o=of(p={"format": "password"})), {"o": CANARY}),
    ("list", of(o={"type": "array", "items": {"type": "integer", "format": "password"}}), {"o": [CANARY]}),
    (
        "map",
        of(o={"type": "object", "additionalProperties": {"type": "integer", "format": "password"}}),
        {"o": {"x": CANARY}},
    ),
    (
        "the mark in another branch than the rule",
        {**of(p={"format": "password"}), "allOf": [{"properties": {"p": {"type": "integer"}}}]},
        {"p": CANARY},
    ),
    (
        "the mark in a branch",
        {**of(p={"type": "integer"}), "anyOf": [{"properties": {"p": {"format": "password"}}}]},
        {"p": CANARY},
    ),
    ("alternatives", of(p={"oneOf": [{"type": "integer"}, {"enum": ["x"]}], "format": "password"}), {"p": CANARY}),
    ("a structure is wanted", of(url=of(host={"type": "string"})), {"url": f"db://me:{CANARY}@host"}),
    ("an unknown key", of(password={"format": "password"}), {"pasword": CANARY}),
    ("an unknown rule", of(p={"not": {"type": "string"}}), {"p": CANARY}),
    ("false", of(p=False), {"p": CANARY}),
    ("property names", of(o={"type": "object", "propertyNames": {"maxLength": 2}}), {"o": {"xxx": CANARY}}),
    ("contains", of(o={"type": "array", "contains": {"type": "integer"}}), {"o": [CANARY]}),
    ("dependent", of(p={"type": "string"}, q={}) | {"dependentRequired": {"p": ["q"]}}, {"p": CANARY}),
]


@pytest.mark.parametrize(("schema", "values"), [pytest.param(s, v, id=name) for name, s, v in SECRET_SCHEMAS])
def test_secrets_are_not_quoted(schema: Values, values: Values) -> None:
    found = validate(values, prepared(schema), root="settings")
    assert found
    assert CANARY not in "\n".join(map(str, found))
    with pytest.raises(PermanentError) as caught:
        raise_if_invalid(found)
    assert CANARY not in str(caught.value)


def test_what_came_from_a_secret_is_not_quoted_whatever_the_schema_says() -> None:
    schema = of(
        a={"type": "integer"}, b={"type": "integer"}, o=of(list={"type": "array", "items": {"type": "integer"}})
    )
    values = {"a": "shown", "b": CANARY, "o": {"list": [CANARY]}}
    found = texts(values, schema, concealed={"b": CANARY, "o": {"list": [CANARY]}})
    assert found == [
        'settings.a: must be integer (given "shown")',
        "settings.b: must be integer (given (hidden))",
        "settings.o.list[0]: must be integer (given (hidden))",
    ]


@settings(max_examples=200)
@given(
    st.recursive(
        st.sampled_from([CANARY, CANARY * 20]),
        lambda inner: (
            st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["p", "o", "zz"]), inner, max_size=2)
        ),
        max_leaves=4,
    ),
    st.sampled_from([schema for _, schema, _ in SECRET_SCHEMAS]),
)
def test_no_shape_of_concealed_values_is_quoted(value: Any, schema: Values) -> None:
    values = {"p": value, "o": value, "url": value}
    found = validate(values, prepared(schema), root="settings", concealed=values)
    assert CANARY not in "\n".join(map(str, found))
