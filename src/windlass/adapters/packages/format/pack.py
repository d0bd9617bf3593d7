"""Packs a folder into an archive that depends on nothing but its content."""

from __future__ import annotations

import gzip
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path

from windlass.adapters.packages.format.digest import digest_of, files_of
from windlass.adapters.packages.format.entries import Limits
from windlass.adapters.packages.format.loader import load
from windlass.adapters.packages.format.unpack import unpack
from windlass.adapters.packages.sources.file import ARCHIVE


@dataclass(frozen=True)
class Packed:
    """An archive: where it lies, the content digest of the package in it, and its size in bytes."""

    path: Path
    digest: str
    size: int


def pack(root: Path, target: Path, limits: Limits | None = None, *, top: bool = False) -> Packed:
    """Write ``<target>/<name>-<version>.tgz``, which is where a repository of kind ``file`` looks for it.

    Files stand in sorted order without owner and time, so one content gives one archive (as long as the zlib
    library is the same). It is read back before it gets its name; an archive of that name is replaced.

    Args:
        root: a package's folder; it has to load.
        target: made if it is missing.
        limits: of packages.
        top: whether everything stands in one folder with the package's name, as Helm wants it.

    Raises:
        PermanentError: LOAD_FAILED or ARCHIVE_REJECTED, the folder is no package or breaks a limit.
        OSError: something cannot be read or written.
    """
    bounds = limits or Limits()
    files = files_of(root, bounds)
    definition = load(root).definition
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".packing-", dir=target) as folder:
        archive = Path(folder, "package")
        with (
            archive.open("wb") as raw,
            gzip.GzipFile(filename="", fileobj=raw, mode="wb", mtime=0) as zipped,
            tarfile.open(fileobj=zipped, mode="w", format=tarfile.PAX_FORMAT) as tar,
        ):
            for file in files:
                info = tarfile.TarInfo(f"{definition.name}/{file.relative}" if top else file.relative)
                info.size = file.size
                info.mode = 0o755 if file.executable else 0o644
                with file.open() as content:
                    tar.addfile(info, content)
        content_folder = Path(folder, "content")
        content_folder.mkdir()
        digest = digest_of(unpack(archive, content_folder, bounds), bounds)
        path = archive.replace(target / f"{definition.name}-{definition.version}{ARCHIVE}")
    return Packed(path=path, digest=digest, size=path.stat().st_size)
