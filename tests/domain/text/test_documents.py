from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Callable
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from windlass.domain.text.documents import (
    ANSWER,
    TOO_DEEP,
    DocumentError,
    DocumentTooLargeError,
    Limits,
    parse_answer,
    parse_document,
    parse_documents,
    parse_helm,
    parse_json,
    parse_json_stream,
    parse_manifest,
)


def plain(integers: st.SearchStrategy[int]) -> st.SearchStrategy[Any]:
    return st.recursive(
        st.none() | st.booleans() | integers | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=20,
    )


PLAIN = plain(st.integers())
IN_64_BITS = plain(st.integers(-(1 << 63), (1 << 63) - 1))


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
        ('{"a": 1, "a": 2}', "line 1, column 1 (byte 0)", "a key stands twice in one object"),
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


def test_a_bomb_of_text_is_refused() -> None:
    text = f"a: &a {'x' * 100_000}\nb: [{', '.join(['*a'] * 100)}]"
    with pytest.raises(DocumentTooLargeError, match="characters once aliases are expanded"):
        parse_document(text)


def test_a_cycle_of_aliases_is_refused() -> None:
    with pytest.raises(DocumentError, match="contains itself"):
        parse_document("a: &a [*a]")


@pytest.mark.parametrize("read", [parse_document, parse_json, parse_helm, parse_manifest])
@pytest.mark.parametrize("text", ["[1, 2, 3]", '["aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"]', "[[[[]]]]"])
def test_limits_hold_for_every_way_to_read(read: Callable[[str, Limits], Any], text: str) -> None:
    with pytest.raises(DocumentTooLargeError):
        read(text, Limits(size=30, nodes=3, depth=3))


def test_brackets_in_texts_are_no_nesting() -> None:
    text = json.dumps(["[" * 500, '\\"[', "\\", {"a": "{" * 500}])
    assert parse_json(text) == json.loads(text)


def test_what_is_nested_too_deeply_does_not_hide_the_rest_of_an_answer() -> None:
    answer = parse_answer(f'{{"items": [{{"a": 1}}, {"[" * 5000}{"]" * 5000}]}}')
    assert answer["items"][0] == {"a": 1}
    assert TOO_DEEP in json.dumps(answer)


def test_half_a_surrogate_pair_is_replaced_as_by_go() -> None:
    assert parse_json('["\\ud800x", "\\ud83d\\ude00"]') == ["\ufffdx", "\U0001f600"]


def test_a_number_that_python_refuses_to_read_is_an_error_like_others() -> None:
    with pytest.raises(DocumentError, match="too large"):
        parse_json("9" * 5000)


def test_a_manifest_is_taken_apart_as_by_kubernetes() -> None:
    text = "a: 1\n---  # two\nb: 2\n...\nc: ignored\n---\n\n---\nd: |\n  ---\n  x\n"
    assert parse_manifest(text) == [{"a": 1}, {"b": 2}, {"d": "---\nx\n"}]


def test_errors_in_a_manifest_count_from_its_start() -> None:
    with pytest.raises(DocumentError) as caught:
        parse_manifest("a: 1\n---\nb: 2\n---\nc: [\n")
    assert caught.value.line == 6


def test_an_error_never_quotes_the_text() -> None:
    for text in ("hunter2: 1\nhunter2: 2", "hunter2: [", "*hunter2", "!hunter2!x y", "a: !!int hunter2", "%hunter2"):
        with pytest.raises(DocumentError) as caught:
            parse_document(text)
        assert "hunter2" not in str(caught.value)


def test_only_wanted_parts_are_built() -> None:
    text = "keep: [{a: 1, b: [{c: d}]}, {a: 2}]\ndrop: {x: {y: z}}\nlast: 1\n"
    wanted = (frozenset({"keep", "last"}), frozenset[str](), frozenset({"a"}))
    assert parse_helm(text, wanted=wanted) == {"keep": [{"a": 1}, {"a": 2}], "last": 1}


def as_read(read: Any, written: Any) -> Any:
    """Return ``read`` with a double wherever one was written: JSON of Go says 61046741683512930, not 6.1...e+16."""
    if isinstance(read, dict) and isinstance(written, dict) and read.keys() == written.keys():
        return {key: as_read(one, written[key]) for key, one in read.items()}
    if isinstance(read, list) and isinstance(written, list) and len(read) == len(written):
        return [as_read(*pair) for pair in zip(read, written, strict=True)]
    return float(read) if isinstance(read, int) and isinstance(written, float) else read


@given(st.lists(IN_64_BITS, max_size=3))
def test_yaml_reads_back_what_was_written(documents: list[Any]) -> None:
    # Without quotes, y and 0o7 would be bare. Kubernetes allows nothing behind --- on its line.
    texts = [yaml.safe_dump(one, allow_unicode=True, default_style='"') for one in documents]
    written = [one for one in documents if one is not None]
    assert as_read(parse_manifest("---\n".join(texts)), written) == written


@pytest.mark.parametrize("text", ["6.56866173469471e+16", "!!float 6.56866173469471e+16"])
def test_a_large_double_becomes_the_integer_that_go_writes(text: str) -> None:
    assert parse_manifest(text) == [65686617346947100]


def test_an_integer_beyond_64_bits_is_no_integer_to_helm() -> None:
    with pytest.raises(DocumentError, match="tagged as int and is none"):
        parse_manifest("!!int -16921030415791708160")


@given(PLAIN)
def test_every_way_reads_json_alike(document: Any) -> None:
    text = json.dumps(document)
    assert parse_json(text) == parse_answer(text, ANSWER) == document
    if isinstance(document, dict | list):
        assert parse_helm(text) == parse_document(text) == document


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused_with_a_document_error(raw: bytes) -> None:
    for read in (parse_document, parse_json, parse_helm, parse_answer):
        with contextlib.suppress(DocumentError):
            json.dumps(read(raw), allow_nan=False).encode()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: 2024-01-02", {"a": "2024-01-02"}),
        ("1: a\ntrue: b\n1.5: c", {"1": "a", "true": "b", "1.5": "c"}),
        ("base: &b {x: 1, z: 2}\nmore: {<<: *b, z: 3}", {"base": {"x": 1, "z": 2}, "more": {"x": 1, "z": 3}}),
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
        "? [1]\n: x",
        "a: 1\na: 2",
        "a: \x07",
        "a\tb:\n\t- c",
    ],
    ids=["infinity", "list-as-key", "repeated-key", "control", "tab"],
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
