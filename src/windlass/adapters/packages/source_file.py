"""Repositories of kind ``file``: a folder that every worker can read.

A version is, in this order, ``<path>/<package>/<version>/``, ``<path>/<package>/<version>.tgz`` or
``<path>/<package>-<version>.tgz``.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NoReturn, cast

from windlass.adapters.packages.digest import files_of
from windlass.adapters.packages.entries import Limits
from windlass.adapters.packages.unpack import MODES, unpack
from windlass.domain.errors import Actor, PermanentError, Reason, TransientError
from windlass.domain.ids import is_dns_label
from windlass.domain.package import Source
from windlass.domain.versions import VersionRangeError, parse_exact
from windlass.ports.packages import Repository

ARCHIVE: Final = ".tgz"
"""How the names of archives end."""

_TOLD: Final = 10
"""Versions named in an error."""


def find(repository: Repository, source: Source) -> Path:
    """Return the folder or archive of a version.

    Raises:
        PermanentError: DOWNLOAD_FAILED, the repository's spec is wrong; PACKAGE_NOT_FOUND, that is no package name or
            version.
        TransientError: DOWNLOAD_FAILED, the repository's folder is not there; PACKAGE_NOT_FOUND, it holds no such
            version; the versions that are there are named.
    """
    root = _root(repository)
    _check(source)
    if not root.is_dir():
        raise TransientError(
            Reason.DOWNLOAD_FAILED,
            f"repository {repository.name}: there is no folder {root}",
            hint="mend spec.file.path of the PackageRepository, or mount the folder on the worker",
        )
    folder = root / source.package / source.version
    if folder.is_dir():
        return folder
    inside = root / source.package / f"{source.version}{ARCHIVE}"
    beside = root / f"{source.package}-{source.version}{ARCHIVE}"
    for archive in (inside, beside):
        if archive.is_file():
            return archive
    known = versions(root, source.package)
    there = f"it has {', '.join(known[-_TOLD:])}" if known else "it has no version of that package"
    raise TransientError(
        Reason.PACKAGE_NOT_FOUND,
        f"repository {repository.name} has no {source.package} {source.version}; {there}",
        hint="mend spec.package of the Application, or publish the version",
    )


def versions(root: Path, package: str) -> list[str]:
    """Return the versions of ``package`` below ``root``, oldest first."""
    folders = [path.name for path in (root / package).glob("*") if path.is_dir()]
    inside = [path.name.removesuffix(ARCHIVE) for path in (root / package).glob(f"*{ARCHIVE}")]
    beside = [
        path.name.removesuffix(ARCHIVE).removeprefix(f"{package}-") for path in root.glob(f"{package}-*{ARCHIVE}")
    ]
    return sorted({name for name in (*folders, *inside, *beside) if _is_version(name)}, key=parse_exact)


def copy(found: Path, target: Path, limits: Limits) -> Path:
    """Bring the content of a folder or archive into the empty folder ``target``; return the package's folder.

    Raises:
        PermanentError: ARCHIVE_REJECTED naming the entry and the rule or limit it breaks.
        OSError: it cannot be read, or the disk does not take it.
    """
    if found.is_file():
        return unpack(found, target, limits)
    for file in files_of(found, limits):
        copied = target / file.relative
        copied.parent.mkdir(parents=True, exist_ok=True)
        with file.open() as content, copied.open("xb") as out:
            shutil.copyfileobj(content, out)
        copied.chmod(MODES[file.executable])
    return target


def _root(repository: Repository) -> Path:
    kind = repository.spec.get("kind")
    if kind != "file":
        _refuse_spec(repository, f"spec.kind {kind!r} is not served; write `kind: file`")
    file = repository.spec.get("file")
    path = cast("Mapping[str, Any]", file).get("path") if isinstance(file, Mapping) else None
    if not isinstance(path, str) or not path.startswith("/"):
        _refuse_spec(repository, "spec.file.path is missing or no absolute path")
    return Path(path)


def _check(source: Source) -> None:
    """Names and versions become paths: nothing but names and versions may."""
    if not is_dns_label(source.package) or not _is_version(source.version):
        raise PermanentError(
            Reason.PACKAGE_NOT_FOUND,
            f"{source.package!r} {source.version!r} cannot name a package and its version",
            hint="write a DNS label and an exact semantic version into spec.package of the Application",
            actor=Actor.USER,
        )


def _is_version(text: str) -> bool:
    try:
        parse_exact(text)
    except VersionRangeError:
        return False
    return True


def _refuse_spec(repository: Repository, problem: str) -> NoReturn:
    raise PermanentError(
        Reason.DOWNLOAD_FAILED,
        f"repository {repository.name}: {problem}",
        hint="mend the PackageRepository",
        actor=Actor.ADMIN,
    )
