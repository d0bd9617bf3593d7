from __future__ import annotations

from typing import Any

import pytest

from support.schemas import of, schemas
from windlass.domain.text.secret_texts import marked_texts, secret_texts


@pytest.mark.parametrize("value", ["abc", "true", "False", "null", "", 8080, 12345.5, True, None])
def test_short_and_trivial_values_are_no_secrets(value: Any) -> None:
    assert secret_texts({"a": value, "b": [value]}) == frozenset()


def test_texts_at_any_depth_are_found() -> None:
    assert secret_texts({"a": "hunter2!", "b": [{"c": "abcd"}, 7]}) == {"hunter2!", "abcd"}


def test_only_what_a_schema_marks_is_secret() -> None:
    schema = of(
        image={"type": "string", "default": "redis"},
        password={"type": "string", "x-windlass-secret": True},
        users={"type": "array", "items": of(name={"type": "string"}, token={"type": "string", "format": "password"})},
        vault={"type": "object", "x-windlass-secret": True, "additionalProperties": True},
    )
    values = {
        "image": "redis",
        "password": "hunter2!",
        "users": [{"name": "alice", "token": "t0ken"}],
        "vault": {"a": {"b": "inside"}, "short": "abc"},
    }
    assert marked_texts(values, schemas(values=schema)) == {"hunter2!", "t0ken", "inside"}
    assert marked_texts(values, schemas(settings=schema)) == {"hunter2!", "t0ken", "inside"}


def test_without_schemas_nothing_is_marked() -> None:
    assert marked_texts({"password": "hunter2!"}, schemas()) == frozenset()
