"""What may stand in a package, whether it comes as a folder or as an archive: one set of rules for both."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final, NoReturn

from windlass.domain.errors import Actor, PermanentError, Reason

JUNK: Final = frozenset({".git", ".hg", ".svn", ".DS_Store", "__pycache__", "__MACOSX"})
"""Names left out at every level: what version control, interpreters and desktops drop into folders."""

APPLE_DOUBLE: Final = "._"
"""Start of the names of files in which macOS' tar keeps attributes; Helm would take them for templates."""

MAX_PACKED: Final = "WINDLASS_MAX_ARCHIVE_MIB"
MAX_UNPACKED: Final = "WINDLASS_MAX_PACKAGE_MIB"
MAX_FILES: Final = "WINDLASS_MAX_PACKAGE_FILES"
"""Variables by which who runs a worker sets limits; named in errors that they would have prevented."""

MAX_NAME: Final = 255
"""Bytes of one name in a path: what Linux file systems take."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What a package may at most be; sizes in bytes.

    The defaults leave a package of thousands of manifests room and keep a bomb from filling disk or memory.

    Attributes:
        packed: size of an archive.
        unpacked: size of all files together.
        file: size of one file.
        entries: files and folders.
        depth: names in one path.
        path: bytes of one path.
        ratio: unpacked to packed size, looked at above ``ratio_floor``.
        ratio_floor: bytes that any archive may unpack to.
    """

    packed: int = 64 << 20
    unpacked: int = 256 << 20
    file: int = 64 << 20
    entries: int = 20_000
    depth: int = 32
    path: int = 512
    ratio: int = 200
    ratio_floor: int = 8 << 20


UNBOUNDED: Final = Limits(
    packed=sys.maxsize,
    unpacked=sys.maxsize,
    file=sys.maxsize,
    entries=sys.maxsize,
    depth=sys.maxsize,
    path=sys.maxsize,
    ratio=sys.maxsize,
    ratio_floor=sys.maxsize,
)
"""For content that was held against the limits when it was taken in: those of today may be narrower."""


def is_junk(name: str) -> bool:
    """Say whether a file or folder of this name never belongs to a package."""
    return name in JUNK or name.startswith(APPLE_DOUBLE)


class Vetting:
    """Looks at the entries of one package in turn, and refuses the first that breaks a rule or a limit."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._entries = 0
        self._total = 0
        self._files: set[PurePosixPath] = set()

    def path(self, name: str) -> PurePosixPath | None:
        """Count an entry and return its path inside the package; None if it is left out.

        Raises:
            PermanentError: ARCHIVE_REJECTED naming the entry and the rule or limit.
        """
        self._entries += 1
        if self._entries > self._limits.entries:
            refuse(name, f"is entry {self._entries}; at most {self._limits.entries} are allowed", raised=MAX_FILES)
        try:
            length = len(name.encode())
        except UnicodeEncodeError:
            refuse(name, "has a name that is not UTF-8")
        if length > self._limits.path:
            refuse(name, f"has a path of {length} bytes; at most {self._limits.path} are allowed")
        if "\\" in name or any(ord(character) < 0x20 or ord(character) == 0x7F for character in name):
            refuse(name, "has a character in its path that no package needs")
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts:
            refuse(name, "leads out of the package")
        if len(path.parts) > self._limits.depth:
            refuse(name, f"lies {len(path.parts)} levels deep; at most {self._limits.depth} are allowed")
        if any(len(part.encode()) > MAX_NAME for part in path.parts):
            refuse(name, f"has a name of more than {MAX_NAME} bytes")
        return None if any(is_junk(part) for part in path.parts) else path

    def file(self, path: PurePosixPath) -> None:
        """Take note of a file.

        Raises:
            PermanentError: ARCHIVE_REJECTED, it stands there twice, or is the package's own folder.
        """
        if not path.parts:
            refuse("a file", "has no name")
        if path in self._files:
            refuse(str(path), "stands twice in the package")
        self._files.add(path)

    def size(self, name: str, size: int) -> None:
        """Count the ``size`` bytes of a file.

        Raises:
            PermanentError: ARCHIVE_REJECTED, the file or the package becomes too large.
        """
        if not 0 <= size <= self._limits.file:
            refuse(name, f"has {size} bytes; at most {self._limits.file} are allowed in one file")
        self._total += size
        if self._total > self._limits.unpacked:
            refuse(name, f"brings the package over {self._limits.unpacked} bytes", raised=MAX_UNPACKED)


def refuse(entry: str, problem: str, *, raised: str = "") -> NoReturn:
    """Raise ARCHIVE_REJECTED for ``entry``, whose name is shown in a form that no terminal trips over.

    ``raised`` is the variable of the workers that moves the limit, if there is one.
    """
    hint = "mend the package's files and pack it again with `windlass package pack`"
    shown = entry if entry.isprintable() else ascii(entry)
    raise PermanentError(
        Reason.ARCHIVE_REJECTED,
        f"the package is refused: {shown if len(shown) <= 120 else shown[:120] + '…'} {problem}",
        hint=f"{hint}, or set {raised} of the workers higher" if raised else hint,
        actor=Actor.AUTHOR,
    )
