from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.domain.digests import canonical_json, content_digest, keyed_digest, seen_digest, settings_digest

KEY = b"k" * 32
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


def shuffled(content: Any) -> Any:
    """Return an equal value whose keys stand in the opposite order."""
    if isinstance(content, dict):
        return {key: shuffled(content[key]) for key in reversed(list(content))}
    return [shuffled(item) for item in content] if isinstance(content, list) else content


def test_canonical_json() -> None:
    assert canonical_json({"b": [1, None, True], "a": "ü"}) == '{"a":"ü","b":[1,null,true]}'.encode()


@given(JSON)
def test_key_order_does_not_matter(content: Any) -> None:
    assert content_digest(shuffled(content), KEY) == content_digest(content, KEY)


@given(JSON, JSON)
def test_different_content_has_different_digests(first: Any, second: Any) -> None:
    same = content_digest(first, KEY) == content_digest(second, KEY)
    assert same == (canonical_json(first) == canonical_json(second))


def test_digests_are_keyed_and_stable() -> None:
    # A digest that changes with a release of Windlass would make every package look changed.
    digest = content_digest({"password": "hunter2"}, KEY)
    assert digest == "797e9f7ccc55b686dc275066fa880b09c727cc2b397f781a33beb6179e11fd25"
    assert content_digest({"password": "hunter2"}, b"other" * 10) != digest


def test_kinds_of_digests_are_apart() -> None:
    empty = {
        content_digest([{}, {}], KEY),
        settings_digest({}, {}, KEY),
        content_digest([{}, {}, {}], KEY),
        seen_digest({}, {}, {}, KEY),
    }
    assert len(empty) == 4


def test_layers_of_settings_do_not_run_into_each_other() -> None:
    assert settings_digest({"a": 1}, {}, KEY) != settings_digest({}, {"a": 1}, KEY)


def test_everything_seen_counts() -> None:
    plain = seen_digest({"a": "1"}, {"Secret/x": {"k": "v"}}, {"repo": {"kind": "file"}}, KEY)
    others = [
        seen_digest({"a": "2"}, {"Secret/x": {"k": "v"}}, {"repo": {"kind": "file"}}, KEY),
        seen_digest({"a": "1"}, {"Secret/x": {"k": "w"}}, {"repo": {"kind": "file"}}, KEY),
        seen_digest({"a": "1"}, {"ConfigMap/x": {"k": "v"}}, {"repo": {"kind": "file"}}, KEY),
        seen_digest({"a": "1"}, {}, {"repo": {"kind": "file"}}, KEY),
        seen_digest({"a": "1"}, {"Secret/x": {"k": "v"}}, {"repo": {"kind": "oci"}}, KEY),
        seen_digest({"a": "1"}, {"Secret/x": {"k": "v"}}, {}, KEY),
    ]
    assert plain not in others
    assert len(set(others)) == len(others)


def test_weak_keys_and_odd_content_are_refused() -> None:
    with pytest.raises(ValueError, match="needs at least 16"):
        keyed_digest("x", b"", b"short")
    with pytest.raises(TypeError):
        content_digest({"day": dt.date(2026, 1, 1)}, KEY)
    with pytest.raises(ValueError, match="Out of range"):
        content_digest(float("nan"), KEY)
