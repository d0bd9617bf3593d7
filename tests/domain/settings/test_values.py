from __future__ import annotations

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.domain.ids import Kind
from windlass.domain.packages.model import Definition, Package, Values
from windlass.domain.settings.schema import prepare_schemas
from windlass.domain.settings.values import (
    base_values,
    camel_key,
    check_settings,
    compute_values,
    release_values,
    settings_with_defaults,
)
from windlass.domain.text.tree import deeper_than, merge

scalars = st.none() | st.booleans() | st.integers() | st.text(max_size=5)
trees = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner), max_leaves=12
)
objects = st.dictionaries(st.sampled_from("abcd"), trees, max_size=4)


def package(
    *, static: Values | None = None, settings: Values | None = None, values: Values | None = None, name: str = "web-app"
) -> Package:
    return Package(
        definition=Definition(name=name, version="1.0.0"),
        static_values=static or {},
        settings_schema=settings,
        values_schema=values,
    )


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("web", "web"),
        ("simple-module", "simpleModule"),
        ("l2-load-balancer", "l2LoadBalancer"),
        ("cert-manager-crd", "certManagerCrd"),
        ("node-2-b", "node2B"),
    ],
)
def test_key_of_a_package(name: str, key: str) -> None:
    assert camel_key(name) == key


def test_objects_merge_and_the_rest_is_replaced() -> None:
    low = {"a": {"x": 1, "y": [1, 2]}, "b": {"gone": 1}, "c": 1, "d": {"k": 1}}
    high = {"a": {"y": [3]}, "b": 5, "c": {"now": "object"}, "d": None}
    assert merge(low, high) == {"a": {"x": 1, "y": [3]}, "b": 5, "c": {"now": "object"}, "d": None}


@given(objects, objects)
def test_merge_leaves_its_arguments_alone_and_shares_nothing(low: Values, high: Values) -> None:
    before = copy.deepcopy((low, high))
    merged = merge(low, high)
    assert (low, high) == before
    merged["a"] = {"changed": True}
    for value in merged.values():
        if isinstance(value, list):
            value.append("changed")
        if isinstance(value, dict):
            value["changed"] = True
    assert (low, high) == before


@given(objects, objects, objects)
def test_merge_with_nothing_and_with_itself(first: Values, second: Values, third: Values) -> None:
    assert merge(first, {}) == first
    assert merge({}, first) == first
    assert merge(first, first) == first
    # The highest layer's own keys always win.
    merged = merge(merge(first, second), third)
    assert all(merged[key] == value for key, value in third.items() if not isinstance(value, dict))


def test_depth_is_counted_without_recursion() -> None:
    deep: Values = {}
    for _ in range(100_000):
        deep = {"a": deep}
    assert deeper_than(deep)
    assert not deeper_than({"a": [{"b": 1}]}, 3)
    assert deeper_than({"a": [{"b": 1}]}, 2)
    # The interpreter would overflow its stack when it frees this recursively nested value at once.
    while deep:
        deep = deep.pop("a")


SETTINGS = {
    "type": "object",
    "properties": {
        "replicas": {"type": "integer", "default": 3},
        "mode": {"type": "string", "default": "fast"},
        "probe": {"type": "object", "default": {}, "properties": {"path": {"type": "string", "default": "/live"}}},
        "hosts": {"type": "array", "items": {"type": "object", "properties": {"port": {"default": 80}}}},
        "tls": {"type": "object", "properties": {"days": {"type": "integer", "default": 90}}},
    },
}
VALUES = {
    "x-extend": {"schema": "settings.yaml"},
    "type": "object",
    "properties": {
        "internal": {"type": "object", "default": {}, "properties": {"token": {"type": "string", "default": "none"}}},
        "mode": {"type": "string", "default": "from-values-schema"},
    },
}


def test_five_layers_the_later_wins() -> None:
    pack = package(
        static={"replicas": 1, "mode": "static", "image": {"tag": "1", "name": "web"}},
        settings=SETTINGS,
        values=VALUES,
    )
    schemas = prepare_schemas(pack)
    settings = {"replicas": 5, "hosts": [{}, {"port": 1}]}
    patches = [
        {"op": "add", "path": "/webApp/internal/token", "value": "hook"},
        {"op": "add", "path": "/webApp/not/there", "value": 1},
        {"op": "remove", "path": "/webApp/image/tag"},
    ]
    assert compute_values(pack, schemas, settings, patches) == {
        "replicas": 5,  # user settings over default over static
        "mode": "fast",  # default of the settings schema over static, and kept by the values schema's
        "image": {"name": "web"},  # static, one key removed by a hook
        "probe": {"path": "/live"},  # default of an object, filled from inside
        "hosts": [{"port": 80}, {"port": 1}],  # defaults inside list items
        "internal": {"token": "hook"},
    }


def test_settings_with_defaults_are_settings_only() -> None:
    pack = package(static={"image": "x"}, settings=SETTINGS)
    schemas = prepare_schemas(pack)
    assert settings_with_defaults(schemas, {"tls": {}}) == {
        "replicas": 3,
        "mode": "fast",
        "probe": {"path": "/live"},
        "tls": {"days": 90},
    }
    assert settings_with_defaults(prepare_schemas(package()), {}) == {}


def test_a_given_null_is_neither_filled_nor_dropped() -> None:
    pack = package(static={"mode": "static"}, settings=SETTINGS)
    assert base_values(pack, prepare_schemas(pack), {"mode": None})["mode"] is None


def test_settings_defaults_reach_into_static_objects() -> None:
    pack = package(static={"tls": {"issuer": "x"}}, settings=SETTINGS)
    assert base_values(pack, prepare_schemas(pack), {})["tls"] == {"issuer": "x", "days": 90}


def test_nothing_is_changed_in_place() -> None:
    pack = package(static={"image": {"tag": "1"}}, settings=SETTINGS, values=VALUES)
    before = copy.deepcopy(pack)
    schemas = prepare_schemas(pack)
    documents = copy.deepcopy(schemas)
    settings = {"hosts": [{}]}
    patches = [
        {"op": "add", "path": "/webApp/internal", "value": {"list": []}},
        {"op": "add", "path": "/webApp/internal/list/-", "value": 1},
    ]
    stored = copy.deepcopy(patches)
    first = compute_values(pack, schemas, settings, patches)
    first["probe"]["path"] = first["internal"]["list"] = "changed"
    assert compute_values(pack, schemas, settings, patches)["probe"] == {"path": "/live"}
    assert (pack, schemas, settings, patches) == (before, documents, {"hosts": [{}]}, stored)


def test_settings_need_a_settings_schema() -> None:
    schemas = prepare_schemas(package())
    assert check_settings(schemas, {}) == ()
    [violation] = check_settings(schemas, {"replicas": 1})
    assert "no settings schema" in str(violation)


def test_settings_are_checked_as_given() -> None:
    schemas = prepare_schemas(package(settings={**SETTINGS, "required": ["mode"]}))
    [violation] = check_settings(schemas, {"replicas": 1})
    assert violation.path == "settings.mode"


def test_helm_gets_a_null_for_what_a_hook_removed() -> None:
    pack = package(static={"image": {"tag": "1", "name": "web"}, "probe": {"path": "/"}, "list": [1]})
    values = {"image": {"name": "web"}, "list": [], "new": 1}
    assert release_values(pack, values) == {
        "image": {"tag": None, "name": "web"},
        "probe": None,
        "list": [],
        "new": 1,
    }
    assert values == {"image": {"name": "web"}, "list": [], "new": 1}


@pytest.mark.parametrize(
    ("scoped", "expected"),
    [
        (False, {"size": 1, "gone": None, "web": {"size": 1}}),
        (True, {"size": 1, "web": {"size": 1, "gone": None}}),
    ],
)
def test_charts_of_modules_see_the_values_below_their_key_too(scoped: bool, expected: Values) -> None:
    module = Package(
        definition=Definition(name="web", version="1.0.0", type=Kind.MODULE),
        static_values={"size": 0, "gone": 1},
        scoped=scoped,
    )
    assert release_values(module, {"size": 1}) == expected
