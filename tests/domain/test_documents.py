from __future__ import annotations

import contextlib
import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.domain.documents import MAX_YAML, DocumentError, parse_document, parse_documents, parse_json_stream

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(st.lists(PLAIN), st.sampled_from(["", "\n", " \t\r\n"]))
def test_a_json_stream_reads_back_what_was_written(documents: list[Any], gap: str) -> None:
    texts = [json.dumps(document, indent="\t") for document in documents]
    # Numbers and words need a gap to stay apart; objects, lists and texts do not.
    text = (gap or " ").join(texts)
    assert parse_json_stream(text) == documents


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused_with_a_document_error(text: str) -> None:
    with contextlib.suppress(DocumentError):
        documents = parse_documents(text)
        assert json.loads(json.dumps(documents, allow_nan=False)) == documents


def test_objects_follow_one_another_without_a_gap() -> None:
    assert parse_json_stream('{"a":1}{"b":2}[3]\n') == [{"a": 1}, {"b": 2}, [3]]


@pytest.mark.parametrize(
    ("text", "position", "problem"),
    [
        ('{"a": 1}\n{"b": ', "line 2, column 7 (byte 15)", "Expecting value"),
        ('"é" {"b" 1}', "line 1, column 10 (byte 10)", "Expecting ':' delimiter"),
        ('{"a": 1, "a": 2}', "line 1, column 1 (byte 0)", "key 'a' stands twice in one object"),
        ("[1e999]", "line 1, column 1 (byte 0)", "a number is too large"),
        ("[NaN]", "line 1, column 1 (byte 0)", "NaN is not JSON"),
    ],
)
def test_json_errors_say_where_and_what(text: str, position: str, problem: str) -> None:
    with pytest.raises(DocumentError) as caught:
        parse_json_stream(text)
    assert (caught.value.position, caught.value.problem) == (position, problem)


@pytest.mark.parametrize("text", ["[" * 20_000, "- " * 20_000, '{"a":' * 20_000], ids=["flow", "block", "objects"])
def test_deep_nesting_is_an_error_and_not_the_end_of_the_process(text: str) -> None:
    with pytest.raises(DocumentError, match="nested too deeply"):
        parse_documents(text)


def test_an_alias_bomb_is_refused() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)]
    with pytest.raises(DocumentError, match="once aliases are expanded"):
        parse_document("\n".join(lines))


def test_a_cycle_of_aliases_is_refused() -> None:
    with pytest.raises(DocumentError, match="nested too deeply"):
        parse_document("a: &a [*a]")


def test_yaml_that_would_take_seconds_is_refused() -> None:
    with pytest.raises(DocumentError, match="write JSON"):
        parse_document("a: 1\n" * (MAX_YAML // 4))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: 2024-01-02", {"a": "2024-01-02"}),
        ("1: x\ntrue: y\n1.5: z", {"1": "x", "true": "y", "1.5": "z"}),
        ("base: &b {x: 1, y: 2}\nmore: {<<: *b, y: 3}", {"base": {"x": 1, "y": 2}, "more": {"x": 1, "y": 3}}),
        ('{\n\t"a": 1\n}', {"a": 1}),
        ("", None),
    ],
    ids=["date", "keys", "merge", "tabs", "empty"],
)
def test_yaml_becomes_plain_json_data(text: str, expected: Any) -> None:
    assert parse_document(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "a: .inf",
        "a: !!binary aGk=",
        "? [1]\n: x",
        "a: 1\na: 2",
        "a: !!python/object:os.system x",
        "a: \x07",
        "a\tb:\n\t- c",
    ],
    ids=["infinity", "binary", "list-as-key", "repeated-key", "foreign-tag", "control", "tab"],
)
def test_what_json_cannot_say_is_refused(text: str) -> None:
    with pytest.raises(DocumentError):
        parse_document(text)


def test_yaml_documents_are_a_stream_and_empty_ones_are_left_out() -> None:
    assert parse_documents("a: 1\n---\n---\nb: 2\n") == [{"a": 1}, {"b": 2}]


def test_one_document_means_one() -> None:
    with pytest.raises(DocumentError, match="2 documents where one is expected"):
        parse_document("{}{}")


def test_a_float_keeps_its_value() -> None:
    assert math.isclose(parse_json_stream("[0.25]")[0][0], 0.25)
