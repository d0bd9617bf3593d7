"""The content digest of a package: the same for a folder and for an archive of it.

SHA-256 over one line for each file, sorted by path: path, whether it is executable, size, and the file's own SHA-256.
Owner, times, empty folders and all other mode bits do not count, nor does what `entries.is_junk` names.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import stat
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import Final, NoReturn

from windlass.adapters.packages.format.entries import Limits, Vetting, is_junk, refuse

PATTERN: Final = re.compile(r"sha256:[0-9a-f]{64}")
"""How a digest is written."""

_EXECUTABLE: Final = 0o111


@dataclass(frozen=True)
class PackageFile:
    """One regular file: its path in the package with ``/``, where it lies, its size, and whether it may be run."""

    relative: str
    path: Path
    size: int
    executable: bool

    def open(self) -> BufferedReader:
        """Open the content.

        Raises:
            OSError: something that is no file has taken its place meanwhile; a pipe would block for ever.
        """
        descriptor = os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise OSError(errno.EINVAL, "is no file any more", str(self.path))
        return os.fdopen(descriptor, "rb")


def files_of(root: Path, limits: Limits | None = None) -> list[PackageFile]:
    """Return every regular file below ``root``, sorted by relative path.

    Raises:
        PermanentError: ARCHIVE_REJECTED, there is something else than files and folders (a link, a device), or a rule
            or limit of `entries.Vetting` is broken.
        OSError: a folder cannot be read.
    """
    vetting = Vetting(limits or Limits())
    found: list[PackageFile] = []
    for folder, folders, names in os.walk(root, onerror=_raise):
        folders[:] = [name for name in folders if not is_junk(name)]
        for name in [*folders, *(name for name in names if not is_junk(name))]:
            path = Path(folder, name)
            info = path.lstat()
            relative = path.relative_to(root).as_posix()
            vetted = vetting.path(relative)
            if vetted is None or stat.S_ISDIR(info.st_mode):
                continue
            if not stat.S_ISREG(info.st_mode):
                refuse(relative, "is neither a file nor a folder (a link or a device)")
            vetting.file(vetted)
            vetting.size(relative, info.st_size)
            found.append(PackageFile(relative, path, info.st_size, bool(info.st_mode & _EXECUTABLE)))
    return sorted(found, key=lambda file: file.relative)


def digest_of(root: Path, limits: Limits | None = None) -> str:
    """Return ``sha256:<64 hex>`` of the package folder ``root``.

    Raises:
        PermanentError, OSError: as `files_of`.
    """
    total = hashlib.sha256()
    for file in files_of(root, limits):
        with file.open() as content:
            digest = hashlib.file_digest(content, "sha256").hexdigest()
        total.update(f"{file.relative}\0{'x' if file.executable else '-'}\0{file.size}\0{digest}\n".encode())
    return f"sha256:{total.hexdigest()}"


def _raise(error: OSError) -> NoReturn:
    """`os.walk` passes over what it cannot read; a digest of half a package is worth nothing."""
    raise error
