"""JSON and YAML as programs write them, read strictly into plain JSON data.

Plain means: what comes out is what ``json.loads`` could have given. Dates stay text, keys become text as Kubernetes'
own YAML reader makes them, and NaN, infinities, binary values, repeated keys and alias bombs are refused.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator
from typing import Any, Final, TypeGuard

import yaml
from yaml.error import MarkedYAMLError
from yaml.reader import ReaderError

MAX_NODES: Final = 500_000
"""Values in one YAML text after its aliases are expanded; a few lines of aliases can name billions."""

MAX_YAML: Final = 512 * 1024
"""Characters of one YAML text; Python's parser takes seconds for so many. JSON has no such limit."""

MAX_DEPTH: Final = 200
"""Levels of nesting; the API server refuses objects far shallower than what would exhaust the stack here."""


class DocumentError(ValueError):
    """The text is not what it should be.

    Attributes:
        problem: what is wrong, in the parser's words; may quote single characters, keys, tags or alias names.
        position: where, as ``line L, column C (byte B)``; holds nothing of the content.
    """

    def __init__(self, problem: str, position: str) -> None:
        super().__init__(f"{position}: {problem}")
        self.problem = problem
        self.position = position


class DocumentTooLongError(DocumentError):
    """The text is YAML of more than `MAX_YAML` characters; ``problem`` says so and holds nothing of the content."""

    def __init__(self, length: int, position: str) -> None:
        super().__init__(
            f"has {length} characters; more than {MAX_YAML} characters of YAML are not read, write JSON", position
        )


def is_object(value: Any) -> TypeGuard[dict[str, Any]]:
    """Say whether a plain JSON value is an object."""
    return isinstance(value, dict)


def is_list(value: Any) -> TypeGuard[list[Any]]:
    """Say whether a plain JSON value is a list."""
    return isinstance(value, list)


def parse_document(text: str) -> Any:
    """Read one JSON or YAML document; empty text is None.

    JSON is tried first because JSON indented with tabs is not YAML.

    Raises:
        DocumentError: it is neither, or it is more than one document.
    """
    documents = parse_documents(text)
    if len(documents) > 1:
        raise DocumentError(f"{len(documents)} documents where one is expected", "line 1, column 1 (byte 0)")
    return documents[0] if documents else None


def parse_documents(text: str) -> list[Any]:
    """Read a stream: JSON documents one after another, or else YAML documents separated by ``---``.

    Empty YAML documents are left out.

    Raises:
        DocumentError: it is neither; the error is JSON's if the text looks like JSON.
    """
    try:
        return parse_json_stream(text)
    except DocumentError as json_error:
        try:
            return _parse_yaml_stream(text)
        except DocumentError as yaml_error:
            raise (json_error if text.lstrip()[:1] in ("{", "[") else yaml_error) from None


def parse_json_stream(text: str) -> list[Any]:
    """Read JSON documents that follow one another, with any white space or none between them.

    Raises:
        DocumentError: names the place where reading stopped.
    """
    documents: list[Any] = []
    position = _skip_space(text, 0)
    while position < len(text):
        try:
            document, position = _JSON.raw_decode(text, position)
        except json.JSONDecodeError as error:
            raise DocumentError(error.msg, _position(text, error.pos)) from None
        except RecursionError:
            raise DocumentError("nested too deeply", _position(text, position)) from None
        except _RefusedError as error:
            raise DocumentError(str(error), _position(text, position)) from None
        documents.append(document)
        position = _skip_space(text, position)
    return documents


class _RefusedError(Exception):
    """Valid syntax that means something we do not take; the caller knows where it stands."""


def _repeated_problem(keys: Iterable[str]) -> str:
    seen: set[str] = set()
    for key in keys:
        if key in seen:
            return f"key {key!r} stands twice in one object"
        seen.add(key)
    return ""


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping = dict(pairs)
    if len(mapping) < len(pairs):
        raise _RefusedError(_repeated_problem(key for key, _ in pairs))
    return mapping


def _finite(literal: str) -> float:
    number = float(literal)
    if not math.isfinite(number):
        raise _RefusedError("a number is too large")
    return number


def _no_constant(literal: str) -> float:
    raise _RefusedError(f"{literal} is not JSON")


_JSON: Final = json.JSONDecoder(object_pairs_hook=_unique, parse_float=_finite, parse_constant=_no_constant)


_SPACE: Final = re.compile(r"[ \t\r\n]*")


def _skip_space(text: str, position: int) -> int:
    space = _SPACE.match(text, position)
    return space.end() if space else position


def _position(text: str, index: int) -> str:
    line = text.count("\n", 0, index) + 1
    column = index - (text.rfind("\n", 0, index) + 1) + 1
    return f"line {line}, column {column} (byte {len(text[:index].encode(errors='replace'))})"


_TAGS: Final = "tag:yaml.org,2002:"


class _Loader(yaml.SafeLoader):
    """YAML 1.1 without dates. Python's own parser: deep nesting overflows libyaml's stack and ends the process."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != f"{_TAGS}timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def _parse_yaml_stream(text: str) -> list[Any]:
    if len(text) > MAX_YAML:
        raise DocumentTooLongError(len(text), _position(text, 0))
    budget = iter(range(MAX_NODES))
    try:
        return [_plain(document, budget, MAX_DEPTH) for document in _load_all(text) if document is not None]
    except MarkedYAMLError as error:
        index = error.problem_mark.index if error.problem_mark else 0
        raise DocumentError(error.problem or "not YAML", _position(text, index)) from None
    except ReaderError as error:
        raise DocumentError("a character that YAML does not allow", _position(text, error.position)) from None
    except RecursionError:
        raise DocumentError("nested too deeply", _position(text, 0)) from None
    except _RefusedError as error:
        raise DocumentError(str(error), _position(text, 0)) from None


def _load_all(text: str) -> Iterator[Any]:
    loader: Any = _Loader(text)  # PyYAML's stubs leave its constructors untyped
    try:
        while loader.check_node():
            node = loader.get_node()
            if node is not None:
                _settle_keys(node, set())
                yield loader.construct_document(node)
    finally:
        loader.dispose()


def _settle_keys(node: yaml.Node, seen: set[int]) -> None:
    """Make keys text and refuse repeated ones, before a dict takes 1 and true for the same key."""
    if id(node) in seen:  # reached through an alias
        return
    seen.add(id(node))
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            _make_text(key)
            _settle_keys(value, seen)
        problem = _repeated_problem(key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode))
        if problem:
            raise MarkedYAMLError(None, None, problem, node.start_mark)
    elif isinstance(node, yaml.SequenceNode):
        for item in node.value:
            _settle_keys(item, seen)


def _make_text(key: yaml.Node) -> None:
    if isinstance(key, yaml.ScalarNode) and key.tag in (f"{_TAGS}int", f"{_TAGS}float", f"{_TAGS}bool"):
        if key.tag == f"{_TAGS}bool":
            key.value = "true" if key.value.lower() in ("true", "yes", "on") else "false"
        key.tag = f"{_TAGS}str"


def _plain(value: Any, budget: Iterator[int], depth: int) -> Any:
    """Copy ``value`` as plain JSON data. Expanding aliases uses up ``budget``, so bombs and cycles end."""
    if next(budget, None) is None:
        raise _RefusedError(f"more than {MAX_NODES} values once aliases are expanded")
    if depth == 0:
        raise _RefusedError("nested too deeply")
    if is_object(value):
        if any(type(key) is not str for key in value):
            raise _RefusedError("a key is not text")
        return {key: _plain(item, budget, depth - 1) for key, item in value.items()}
    if is_list(value):
        return [_plain(item, budget, depth - 1) for item in value]
    match value:
        case float() if not math.isfinite(value):
            raise _RefusedError("infinities and NaN are not JSON")
        case None | bool() | int() | float() | str():
            return value
        case _:
            raise _RefusedError(f"a {type(value).__name__} is not JSON")
