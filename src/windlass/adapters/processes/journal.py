"""A file that says what a process is doing, for whoever comes after it.

Each entry has a slot of its own, written in place with one system call (about 2 us). Nothing is flushed to the disk:
what a process has written survives that process, whatever ends it, and after a loss of power nobody needs to know.
"""

from __future__ import annotations

import json
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, cast

SLOT: Final = 1024
"""Bytes of one entry; package ids and names of parts have at most a few hundred."""

SLOTS: Final = 512
"""Entries at a time; more than a process has activities. What finds no slot is done without being noted."""

_EMPTY: Final = b"\0"

type Entry = tuple[str, str]
"""Package id and part."""


class Journal:
    """Notes entries in the file at ``path``; `left` is what an earlier process had under way when it ended."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self.left: tuple[Entry, ...] = tuple(_entries(os.pread(self._file, SLOT * SLOTS, 0)))
        os.ftruncate(self._file, 0)
        self._free = list(range(SLOTS - 1, -1, -1))

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)

    @contextmanager
    def noted(self, package: str, part: str) -> Generator[None]:
        """Have an entry in the file while the context is open, however it ends."""
        text = json.dumps([package, part]).encode() + b"\n"
        if not self._free or len(text) > SLOT:
            yield
            return
        slot = self._free.pop()
        os.pwrite(self._file, text, slot * SLOT)
        try:
            yield
        finally:
            os.pwrite(self._file, _EMPTY, slot * SLOT)
            self._free.append(slot)


def _entries(raw: bytes) -> Generator[Entry]:
    for start in range(0, len(raw), SLOT):
        text = raw[start : start + SLOT].partition(b"\n")[0]
        if text[:1] in {b"", _EMPTY}:
            continue
        try:
            found = cast("object", json.loads(text))
        except ValueError:  # the process ended within the write
            continue
        match found:
            case [str(package), str(part)]:
                yield package, part
            case _:
                continue
