"""Unpacks an archive into a folder."""

from __future__ import annotations

import shutil
from pathlib import Path, PurePosixPath
from typing import IO, Final

from windlass.adapters.packages.format.archive import read_archive
from windlass.adapters.packages.format.entries import Limits, refuse
from windlass.domain.packages.definition import FILE

MODES: Final = {True: 0o555, False: 0o444}
"""Modes of files in the cache, executable or not: content never changes under its digest."""


def unpack(archive: Path, target: Path, limits: Limits) -> Path:
    """Unpack the gzipped tar ``archive`` into ``target``, which exists and is empty.

    On error the caller throws ``target`` away.

    Returns:
        The package's folder: ``target``, or the only folder in it if that is how the archive was made (``helm
        package`` and plain ``tar`` do so).

    Raises:
        PermanentError: ARCHIVE_REJECTED, see `archive.read_archive`.
        OSError: the archive cannot be read or the disk does not take it.
    """

    def write(path: PurePosixPath, executable: bool, content: IO[bytes]) -> None:  # noqa: FBT001 - shape of a `Sink`
        file = target / path
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            with file.open("xb") as out:
                shutil.copyfileobj(content, out)
        except (FileExistsError, NotADirectoryError):
            refuse(str(path), "is a file where the archive has a folder as well")
        file.chmod(MODES[executable])

    read_archive(archive, limits, write)
    children = list(target.iterdir())
    if not (target / FILE).exists() and len(children) == 1 and children[0].is_dir():
        return children[0]
    return target
