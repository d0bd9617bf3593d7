"""The content digest of a package: the same for a folder and for an archive of it.

SHA-256 over one line for each file, sorted by path: path, whether it is executable, size, and the file's own SHA-256.
Owner, times and all other mode bits do not count. `JUNK` never belongs to a package.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from windlass.domain.errors import Actor, PermanentError, Reason

JUNK: Final = frozenset({".git", ".hg", ".svn", ".DS_Store", "__pycache__", "__MACOSX"})
"""Names left out at every level: what version control and desktops drop into folders."""


def files_of(root: Path) -> Iterator[tuple[str, Path, os.stat_result]]:
    """Yield every regular file below ``root`` as (relative path, path, stat), sorted by relative path.

    Raises:
        PermanentError: ARCHIVE_REJECTED, there is something else than files and folders (a link, a device).
    """
    found: list[tuple[str, Path, os.stat_result]] = []
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if name not in JUNK]
        for name in [*names, *folders]:
            path = Path(folder, name)
            info = path.lstat()
            if stat.S_ISDIR(info.st_mode):
                continue
            if name in JUNK:
                continue
            relative = path.relative_to(root).as_posix()
            if not stat.S_ISREG(info.st_mode):
                raise PermanentError(
                    Reason.ARCHIVE_REJECTED,
                    f"{relative} is neither a file nor a folder",
                    hint="packages hold regular files only: replace links by what they point to",
                    actor=Actor.AUTHOR,
                )
            found.append((relative, path, info))
    yield from sorted(found, key=lambda entry: entry[0])


def digest_of(root: Path) -> str:
    """Return ``sha256:<64 hex>`` of the package folder ``root``."""
    total = hashlib.sha256()
    for relative, path, info in files_of(root):
        with path.open("rb") as file:
            content = hashlib.file_digest(file, "sha256").hexdigest()
        executable = "x" if info.st_mode & 0o111 else "-"
        total.update(f"{relative}\0{executable}\0{info.st_size}\0{content}\n".encode())
    return f"sha256:{total.hexdigest()}"
