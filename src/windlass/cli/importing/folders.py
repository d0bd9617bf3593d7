"""Finds the objects of one API group in a folder that may hold anything: charts, settings, other manifests."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn, cast

from windlass.domain.errors import Actor, PermanentError, Reason
from windlass.domain.text.documents import DocumentError, parse_documents

_SUFFIXES: Final = frozenset({".yaml", ".yml", ".json"})
FILE_BYTES: Final = 8 * 1024 * 1024
"""Bytes of one file that are read."""


@dataclass(frozen=True)
class Found:
    """An object and where it is: ``clusters/edge.yaml, document 2``."""

    place: str
    object: dict[str, Any]


@dataclass(frozen=True)
class Folder:
    """What a folder holds.

    Attributes:
        objects: those of the group, in the order of their paths.
        others: objects of other groups.
        unread: why files that name the group were not read, as ``file: reason``.
    """

    objects: tuple[Found, ...]
    others: int
    unread: tuple[str, ...]


def objects_in(path: Path, group: str) -> Folder:
    """Read a file, or every ``.yaml``, ``.yml`` and ``.json`` file below a folder; links are not followed.

    Files that cannot be read as YAML (charts hold such) matter only if they name the group.

    Raises:
        PermanentError: VALIDATION_FAILED; there is no such file or folder.
    """
    if not path.exists():
        _refuse(str(path), "does not exist", "name a file or a folder")
    found: list[Found] = []
    others = 0
    unread: list[str] = []
    for file in _files(path):
        try:
            documents = _documents(file)
        except (DocumentError, OSError, UnicodeDecodeError, _TooLargeError) as error:
            if _names(file, group):
                unread.append(f"{file}: not read: {error}")
            continue
        for number, document in enumerate(documents, start=1):
            for place, one in _unpacked(f"{file}, document {number}", document):
                if str(one.get("apiVersion", "")).partition("/")[0] == group:
                    found.append(Found(place, one))
                elif "apiVersion" in one and "kind" in one:
                    others += 1
    return Folder(tuple(found), others, tuple(unread))


class _TooLargeError(Exception):
    """A file has more bytes than are read."""

    def __init__(self, size: int) -> None:
        super().__init__(f"it has {size} bytes, at most {FILE_BYTES} are read")


def _files(path: Path) -> Iterable[Path]:
    if path.is_file():
        return [path]
    found: list[Path] = []
    for folder, folders, names in os.walk(path):
        folders[:] = [one for one in folders if not one.startswith(".")]
        found += [Path(folder, name) for name in names if Path(name).suffix in _SUFFIXES]
    return sorted(one for one in found if one.is_file() and not one.is_symlink())


def _documents(file: Path) -> list[Any]:
    size = file.stat().st_size
    if size > FILE_BYTES:
        raise _TooLargeError(size)
    return parse_documents(file.read_text(encoding="utf-8"))


def _names(file: Path, group: str) -> bool:
    try:
        with file.open("rb") as opened:
            return group.encode() in opened.read(FILE_BYTES)
    except OSError:
        return True


def _unpacked(place: str, document: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield an object, or those of a list as ``kubectl get -o yaml`` prints it."""
    if not isinstance(document, dict):
        return
    one = cast("dict[str, Any]", document)
    items, kind = one.get("items"), one.get("kind")
    if not isinstance(items, list) or not isinstance(kind, str) or not kind.endswith("List"):
        yield place, one
        return
    said = {} if kind == "List" else {"apiVersion": one.get("apiVersion"), "kind": kind.removesuffix("List")}
    for number, item in enumerate(cast("list[Any]", items), start=1):
        if isinstance(item, dict):
            yield f"{place}, item {number}", {**said, **cast("dict[str, Any]", item)}


def _refuse(where: str, problem: str, hint: str) -> NoReturn:
    raise PermanentError(Reason.VALIDATION_FAILED, f"{where}: {problem}", hint=hint, actor=Actor.USER)
