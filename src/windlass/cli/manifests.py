"""Reads manifests that people name on the command line."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn, cast

from windlass.domain.errors import Actor, PermanentError, Reason
from windlass.domain.text.documents import DocumentError, DocumentTooLargeError, parse_documents

_LIST: Final = "List"


@dataclass(frozen=True)
class Manifest:
    """One object as written, and where: ``apps.yaml, document 2``, in a list ``apps.yaml, document 2, item 1``."""

    place: str
    object: dict[str, Any]


def read_manifests(name: str) -> Iterator[Manifest]:
    """Yield the objects in a file, in every ``.yaml``, ``.yml`` and ``.json`` file of a folder, or in standard input.

    Lists are taken apart: their items are objects like any other.

    Raises:
        PermanentError: VALIDATION_FAILED with file, place, and what is missing.
    """
    if name == "-":
        yield from _objects("standard input", _text("standard input", sys.stdin.buffer.read()))
        return
    path = Path(name)
    if not path.exists():
        _refuse(name, "does not exist", "name a file, a folder, or - for standard input")
    files = [path]
    if path.is_dir():
        files = sorted(one for one in path.iterdir() if one.suffix in {".yaml", ".yml", ".json"})
        if not files:
            _refuse(name, "holds no .yaml, .yml or .json file", "name the file itself")
    for file in files:
        try:
            content = file.read_bytes()
        except OSError as error:
            _refuse(str(file), f"cannot be read: {error.strerror}", "check what it is and who may read it")
        yield from _objects(str(file), _text(str(file), content))


def _text(where: str, content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        _refuse(where, f"is not UTF-8 (byte {error.start})", "save it as UTF-8")


def _objects(where: str, text: str) -> Iterator[Manifest]:
    try:
        documents = parse_documents(text)
    except DocumentTooLargeError as error:
        _refuse(where, error.problem, "split it into several files")
    except DocumentError as error:
        _refuse(where, error.message, "correct the text at that place")
    for number, document in enumerate(documents, start=1):
        place = f"{where}, document {number}"
        if not isinstance(document, dict):
            _refuse(place, "is no object", "write apiVersion, kind and metadata")
        yield from _unpacked(place, cast("dict[str, Any]", document))


def _unpacked(place: str, obj: dict[str, Any]) -> Iterator[Manifest]:
    """Yield an object, or those of a list of objects: ``kubectl get -o yaml`` prints one ``List``.

    Items of a list that names its kind (``ServiceSetList``) need not say what they are.
    """
    kind, items = obj.get("kind"), obj.get("items")
    if kind == _LIST and not isinstance(items, list):
        _refuse(place, "lacks items", "write the objects under items")
    if not isinstance(kind, str) or not kind.endswith(_LIST) or not isinstance(items, list):
        yield _checked(place, obj)
        return
    said = {"apiVersion": obj.get("apiVersion"), "kind": kind.removesuffix(_LIST)} if kind != _LIST else {}
    for number, item in enumerate(cast("list[Any]", items), start=1):
        where = f"{place}, item {number}"
        if not isinstance(item, dict):
            _refuse(where, "is no object", "write apiVersion, kind and metadata")
        yield from _unpacked(where, {**said, **cast("dict[str, Any]", item)})


def _checked(place: str, obj: dict[str, Any]) -> Manifest:
    metadata = obj.get("metadata")
    name = cast("dict[str, Any]", metadata).get("name") if isinstance(metadata, dict) else None
    required = {"apiVersion": obj.get("apiVersion"), "kind": obj.get("kind"), "metadata.name": name}
    if missing := [field for field, value in required.items() if value is None or value == ""]:
        _refuse(place, f"lacks {', '.join(missing)}", "add it")
    if odd := [field for field, value in required.items() if not isinstance(value, str)]:
        _refuse(place, f"{', '.join(odd)} is not text", "put it in quotes")
    return Manifest(place, obj)


def _refuse(where: str, problem: str, hint: str) -> NoReturn:
    raise PermanentError(Reason.VALIDATION_FAILED, f"{where}: {problem}", hint=hint, actor=Actor.USER)


def brought(manifests: Sequence[Manifest]) -> tuple[set[str], set[tuple[str, str]]]:
    """Return what the manifests make room for: names of Namespaces, and (group, kind) of CustomResourceDefinitions."""
    objects = [one.object for one in manifests]
    namespaces = {one["metadata"]["name"] for one in objects if (one["apiVersion"], one["kind"]) == ("v1", "Namespace")}
    specs = [_part(one, "spec") for one in objects if one["kind"] == "CustomResourceDefinition"]
    return namespaces, {(str(one.get("group")), str(_part(one, "names").get("kind"))) for one in specs}


def _part(obj: dict[str, Any], name: str) -> dict[str, Any]:
    """Return a field that should be an object; what else stands there, the API server refuses by itself."""
    value = obj.get(name)
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}
