"""Reads gzipped tar archives that nobody has vetted, in one pass and with bounded memory.

`tarfile` alone is not enough: it reads extended headers of any size into memory, takes an archive whose headers break
off for one that has ended, and never looks at what follows the last entry.
"""

from __future__ import annotations

import gzip
import io
import tarfile
import zlib
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import IO, Final, override

from windlass.adapters.packages.format.entries import MAX_PACKED, MAX_UNPACKED, Limits, Vetting, refuse

type Sink = Callable[[PurePosixPath, bool, IO[bytes]], None]
"""Takes one file: path, whether it is executable, content (to be read at once)."""

_EXECUTABLE: Final = 0o111
_BLOCK: Final = tarfile.BLOCKSIZE
_HEADERS: Final = 64 << 10
"""Bytes of extended headers before one entry; its path has at most a few hundred."""
_OVERHEAD: Final = 4 << 10
"""Bytes of headers and padding for one entry, on average."""
_AHEAD: Final = 32 << 10
"""Bytes that `tarfile` reads ahead and skips at most: two of its records."""
_CLOSING: Final = 1 << 20
"""Bytes of zeros after the last entry; tar writes up to one record."""


def read_archive(archive: Path, limits: Limits, sink: Sink) -> None:
    """Give every file in ``archive`` to ``sink``, in its order.

    Modes but "executable", owners and times are dropped, so set-user-id bits never reach the disk.

    Raises:
        PermanentError: ARCHIVE_REJECTED naming the entry and the rule or limit it breaks; ``sink`` may have been given
            other files before.
        OSError: the file cannot be read, or whatever ``sink`` raises.
    """
    packed = archive.stat().st_size
    if packed > limits.packed:
        refuse(
            archive.name, f"has {packed} bytes; at most {limits.packed} are allowed in an archive", raised=MAX_PACKED
        )
    try:
        with archive.open("rb") as raw, gzip.GzipFile(fileobj=raw) as unzipped:
            _Reading(_Metered(unzipped, archive.name, packed, limits), limits, sink).run()
    except (tarfile.TarError, zlib.error, EOFError, OSError, ValueError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # the disk's fault, not the archive's
        refuse(archive.name, f"is not a whole gzipped tar archive ({error})")


class _Metered(io.BufferedIOBase):
    """The unzipped stream; gives out no more than was allowed, so that nothing hostile is ever held in memory."""

    def __init__(self, stream: io.BufferedIOBase, archive: str, packed: int, limits: Limits) -> None:
        super().__init__()
        self._stream = stream
        self._packed = packed
        self._limits = limits
        self._allowed = 0
        self._recent = b""
        self.archive = archive
        self.total = 0

    def allow(self, size: int) -> None:
        """Let the next ``size`` bytes pass, and what is read ahead with them."""
        self._allowed = self.total + size + _AHEAD

    @override
    def read(self, size: int | None = -1) -> bytes:
        """Read as a file does."""
        chunk = self._stream.read(size)
        self.total += len(chunk)
        if self.total > self._allowed:
            refuse(self.archive, f"has more than {_HEADERS} bytes of headers for one entry")
        if self.total > self._limits.unpacked + self._limits.entries * _OVERHEAD:  # `Vetting` counts files alone
            refuse(
                self.archive, f"unpacks to more than {self._limits.unpacked} bytes and its headers", raised=MAX_UNPACKED
            )
        if self.total > max(self._limits.ratio_floor, self._packed * self._limits.ratio):
            refuse(self.archive, f"unpacks to more than {self._limits.ratio} times its size")
        self._recent = (self._recent + chunk)[-_AHEAD:]
        return chunk

    def since(self, position: int) -> bytes:
        """Return what was read from ``position`` on, which is at most a record back."""
        return self._recent[position - self.total :] if position < self.total else b""


class _Reading:
    def __init__(self, stream: _Metered, limits: Limits, sink: Sink) -> None:
        self._stream = stream
        self._vetting = Vetting(limits)
        self._sink = sink

    def run(self) -> None:
        self._stream.allow(_HEADERS)
        with tarfile.open(fileobj=self._stream, mode="r|") as tar:
            while (member := tar.next()) is not None:
                self._take(tar, member)
                self._stream.allow(_HEADERS)
            end = tar.offset
        self._check_end(end)

    def _take(self, tar: tarfile.TarFile, member: tarfile.TarInfo) -> None:
        path = self._vetting.path(member.name)
        if member.isdir():
            return
        if not member.isreg() or member.issparse():
            refuse(member.name, "is neither a plain file nor a folder (a link, a device or a sparse file)")
        self._vetting.size(member.name, member.size)
        self._stream.allow(member.size)
        content = tar.extractfile(member)
        if content is None:
            refuse(member.name, "has no content")
        with content:
            if path is None:
                while content.read(_AHEAD):  # `tarfile` would skip it later, past what is allowed by then
                    pass
                return
            self._vetting.file(path)
            self._sink(path, bool(member.mode & _EXECUTABLE), content)

    def _check_end(self, end: int) -> None:
        """See that the last entry is followed by a block of zeros and nothing but zeros."""
        self._stream.allow(_CLOSING)
        if any(self._stream.since(end)):
            refuse(self._stream.archive, f"has no entry where one should start (byte {end} of the tar archive)")
        while chunk := self._stream.read(_AHEAD):
            if any(chunk):
                refuse(self._stream.archive, "goes on after its end")
        if self._stream.total - end < _BLOCK:
            refuse(self._stream.archive, "is cut off: its closing mark is missing")
