"""Repositories of kind ``file``: a folder that every worker can read.

A version is, in this order, ``<path>/<package>/<version>/``, ``<path>/<package>/<version>.tgz`` or
``<path>/<package>-<version>.tgz``.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from windlass.adapters.packages.digest import JUNK, files_of
from windlass.adapters.packages.unpack import Limits, unpack
from windlass.domain.errors import Reason, TransientError
from windlass.domain.package import Source
from windlass.ports import Repository


def find(repository: Repository, source: Source) -> Path:
    """Return the folder or archive of a version.

    Raises:
        TransientError: DOWNLOAD_FAILED, the repository's folder is not there; PACKAGE_NOT_FOUND, it holds no such
            version; the versions that are there are named.
    """
    root = Path(repository.spec["file"]["path"])
    if not root.is_dir():
        raise TransientError(
            Reason.DOWNLOAD_FAILED,
            f"repository {repository.name}: there is no folder {root}",
            hint="mend spec.file.path of the PackageRepository, or mount the folder on the worker",
        )
    folder = root / source.package / source.version
    archives = (root / source.package / f"{source.version}.tgz", root / f"{source.package}-{source.version}.tgz")
    for candidate in (folder, *archives):
        if candidate.is_dir() or (candidate in archives and candidate.is_file()):
            return candidate
    known = versions(root, source.package)
    there = f"it has {', '.join(known[-10:])}" if known else "it has no version of that package"
    raise TransientError(
        Reason.PACKAGE_NOT_FOUND,
        f"repository {repository.name} has no {source.package} {source.version}; {there}",
        hint="mend spec.package of the Application, or publish the version",
    )


def versions(root: Path, package: str) -> list[str]:
    """Return the versions of ``package`` below ``root``, sorted as text."""
    inside = [path for path in (root / package).glob("*") if path.is_dir() or path.suffix == ".tgz"]
    beside = root.glob(f"{package}-*.tgz")
    names = [path.name.removesuffix(".tgz") for path in inside if path.name not in JUNK]
    return sorted({*names, *(path.name.removesuffix(".tgz").removeprefix(f"{package}-") for path in beside)})


def copy(found: Path, target: Path, limits: Limits) -> None:
    """Bring the content of a folder or archive into the empty folder ``target``."""
    if found.is_file():
        unpack(found, target, limits)
        return
    for relative, path, info in files_of(found):
        copied = target / relative
        copied.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copied)
        copied.chmod(0o755 if info.st_mode & 0o111 else 0o644)
