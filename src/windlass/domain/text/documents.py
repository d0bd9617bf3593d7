"""The one reader of YAML and JSON that others wrote: within limits, into plain JSON data.

Plain means: what comes out is what ``json.loads`` could have returned. Size, depth, number of nodes and the expansion
of aliases are bounded before anything is built (`domain.text.document_limits`). Every failure is a `DocumentError`.

YAML means what it means to Helm and Kubernetes (`windlass.domain.text.yaml_scalars`): dates stay text, unknown tags are
ignored, a merge key overrides the keys before it. What people and hooks write for us is read strictly: a repeated key
is refused. What Helm renders, stores or reads itself is read as Helm does: the last one wins.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, Final, TypeGuard, cast

from windlass.domain.text.document_limits import (
    ANSWER,
    DOCUMENT,
    INDEX,
    MANIFEST,
    DocumentError,
    DocumentTooLargeError,
    Limits,
    decode_text,
    error_at,
)
from windlass.domain.text.json_reading import read_json_stream
from windlass.domain.text.yaml_reading import Budget, Wanted, read_yaml
from windlass.domain.text.yaml_scalars import resolve, resolve_words

__all__ = [
    "ANSWER",
    "DOCUMENT",
    "INDEX",
    "MANIFEST",
    "TOO_DEEP",
    "DocumentError",
    "DocumentTooLargeError",
    "Limits",
    "is_list",
    "is_object",
    "parse_answer",
    "parse_document",
    "parse_documents",
    "parse_helm",
    "parse_json",
    "parse_json_stream",
    "parse_manifest",
]

TOO_DEEP: Final = "(nested too deeply)"
"""Stands in an answer for what exceeds the limit on depth."""

_DEEPEST_ANSWER: Final = 9_000  # Python's decoder stops at 10,000 levels

_SEPARATOR: Final = re.compile(r"^---([^\n]*)(?:\n|\Z)", re.MULTILINE)
"""What Kubernetes takes a stream apart by (``YAMLReader`` of apimachinery), before it reads each part as YAML."""


def is_object(value: Any) -> TypeGuard[dict[str, Any]]:
    """Say whether a plain JSON value is an object."""
    return isinstance(value, dict)


def is_list(value: Any) -> TypeGuard[list[Any]]:
    """Say whether a plain JSON value is a list."""
    return isinstance(value, list)


def parse_document(text: str | bytes, limits: Limits = DOCUMENT) -> Any:
    """Read one JSON or YAML document strictly; empty text is None.

    Raises:
        DocumentError: it is neither, it exceeds the limits, or it is more than one document.
    """
    documents = parse_documents(text, limits)
    if len(documents) > 1:
        raise DocumentError(f"{len(documents)} documents where one is expected")
    return documents[0] if documents else None


def parse_documents(text: str | bytes, limits: Limits = DOCUMENT) -> list[Any]:
    """Read a stream strictly: JSON documents one after another, or else YAML documents separated by ``---``.

    Empty YAML documents are left out. Text that starts like JSON is tried as JSON first, because JSON that is indented
    with tabs is not YAML.

    Raises:
        DocumentError: it is neither, or exceeds the limits; the error is JSON's if the text looks like JSON.
    """
    text = decode_text(text, limits)
    refused: DocumentError | None = None
    if _looks_like_json(text):
        try:
            return read_json_stream(text, limits, unique=True)
        except DocumentError as error:
            refused = error
    try:
        return [document for document in read_yaml(text, Budget(limits), unique=True) if document is not None]
    except DocumentError as error:
        raise refused or error from None


def parse_json_stream(text: str | bytes, limits: Limits = DOCUMENT) -> list[Any]:
    """Read JSON documents that follow one another strictly, with any white space or none between them.

    Raises:
        DocumentError: names the place where reading stopped, or the limit.
    """
    return read_json_stream(decode_text(text, limits), limits, unique=True)


def parse_json(text: str | bytes, limits: Limits = DOCUMENT) -> Any:
    """Read one JSON document as a program wrote it; of a key that stands twice the last one wins.

    Raises:
        DocumentError: it is not one JSON document, or exceeds the limits.
    """
    text = decode_text(text, limits)
    documents = read_json_stream(text, limits, unique=False)
    if len(documents) != 1:
        raise error_at(text, 0, f"{len(documents)} documents where one is expected")
    return documents[0]


def parse_answer(text: str | bytes, limits: Limits = ANSWER) -> Any:
    """Read a server's answer, one JSON document. What is nested too deeply in it is replaced by `TOO_DEEP`.

    One odd object must not hide the others of a list. Kubernetes takes objects that are nested 10,000 levels deep.

    Raises:
        DocumentError: it is not one JSON document, or exceeds the limits.
    """
    try:
        return parse_json(text, limits)
    except DocumentTooLargeError:
        document = parse_json(text, replace(limits, depth=_DEEPEST_ANSWER))
    rows: list[Any] = [document]
    for _ in range(limits.depth - 1):
        rows = [one for row in rows for one in _members(row)]
    for row in rows:
        places: list[tuple[Any, Any]] = list(row.items() if is_object(row) else enumerate(cast("list[Any]", row)))
        for place, one in places:
            if isinstance(one, dict | list):
                row[place] = TOO_DEEP
    return document


def _members(value: Any) -> Iterator[Any]:
    """Yield the collections in a collection."""
    inside: Iterable[Any] = value.values() if is_object(value) else value
    for one in inside:
        if isinstance(one, dict | list):
            yield cast("Any", one)


def parse_helm(text: str | bytes, limits: Limits = DOCUMENT, *, typed: bool = True, wanted: Wanted = ()) -> Any:
    """Read the first document of a YAML or JSON text as Helm does; empty text is None.

    Args:
        text: a chart's file, or an index.
        limits: for it.
        typed: False leaves numbers the texts they are: version ``1.10`` must not become 1.1.
        wanted: which keys of each level of nesting to build, an empty set for all; the others are scanned only.

    Raises:
        DocumentError: it is not YAML, or exceeds the limits.
    """
    text = decode_text(text, limits)
    if (typed or wanted) and _looks_like_json(text):
        try:
            found = read_json_stream(text, limits, unique=False)
        except DocumentError:
            found = []  # YAML in flow style, or text behind the JSON
        if len(found) == 1:
            return found[0]
    resolver = resolve if typed else resolve_words
    documents = read_yaml(text, Budget(limits), resolver=resolver, wanted=wanted, first_only=True)
    return documents[0] if documents else None


def parse_manifest(text: str, limits: Limits = MANIFEST) -> list[Any]:
    """Read a rendered manifest as Kubernetes does: parts between lines of ``---``, of each the first document.

    Empty documents are left out.

    Raises:
        DocumentError: a part is not YAML, or all together exceed the limits. Lines count from the manifest's start.
    """
    text = decode_text(text, limits)
    budget = Budget(limits)
    documents: list[Any] = []
    start = 0
    for end, after in _parts(text):
        try:
            found = read_yaml(text[start:end], budget, first_only=True)
        except DocumentTooLargeError:
            raise
        except DocumentError as error:
            raise error.moved(text.count("\n", 0, start), len(text[:start].encode(errors="replace"))) from None
        documents += [one for one in found if one is not None]
        start = after
    return documents


def _parts(text: str) -> Iterator[tuple[int, int]]:
    """Yield where each part ends and where the next one starts."""
    for found in _SEPARATOR.finditer(text):
        behind = found[1].strip()
        if behind and not behind.startswith("#"):
            raise error_at(text, found.start(), "only a comment may follow --- on its line")
        yield found.start(), found.end()
    yield len(text), len(text)


def _looks_like_json(text: str) -> bool:
    return text.lstrip()[:1] in ("{", "[", '"')
