"""Repositories of kind ``file``: a folder that every worker can read.

A version is, in this order, ``<path>/<package>/<version>/``, ``<path>/<package>/<version>.tgz`` or
``<path>/<package>-<version>.tgz``.
"""

from __future__ import annotations

import asyncio
import hashlib
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, cast

from windlass.adapters.packages.format.digest import files_of
from windlass.adapters.packages.format.entries import Limits
from windlass.adapters.packages.format.unpack import MODES, unpack
from windlass.adapters.packages.sources.source import Found, refuse_spec
from windlass.domain.errors import Reason, TransientError
from windlass.domain.ids import is_dns_label
from windlass.domain.packages.wanted import in_order, is_exact
from windlass.ports.packages import Offer, Repository

KIND: Final = "file"
"""What such a repository writes into ``spec.kind``."""

ARCHIVE: Final = ".tgz"
"""How the names of archives end."""


class FileSource:
    """One folder. Looking into it is done in threads: it may lie on a network."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository
        file = repository.spec.get("file")
        path = cast("Mapping[str, Any]", file).get("path") if isinstance(file, Mapping) else None
        if not isinstance(path, str) or not path.startswith("/"):
            refuse_spec(repository, "spec.file.path is missing or no absolute path")
        self._root = Path(path)

    async def versions(self, package: str) -> Sequence[Found]:
        """Return every folder and archive that is a version of the package."""
        return await asyncio.to_thread(self._all, package)

    async def find(self, package: str, version: str, digest: str) -> Found | None:
        """Return one version; a folder has no digest to ask for."""
        if digest:
            refuse_spec(self._repository, "kind file knows no digests: write the version alone")
        found = await asyncio.to_thread(self._find, package, version)
        return Found(version=version, locator=str(found)) if found else None

    async def fetch(self, package: str, found: Found, scratch: Path) -> Path:
        """Return the folder or archive where it is."""
        del package, scratch
        return Path(found.locator)

    async def scan(self, used: Sequence[str]) -> Sequence[Offer]:
        """List the folder."""
        del used
        return await asyncio.to_thread(self._scan)

    def _present(self) -> None:
        if not self._root.is_dir():
            raise TransientError(
                Reason.DOWNLOAD_FAILED,
                f"repository {self._repository.name}: there is no folder {self._root}",
                hint="mend spec.file.path of the PackageRepository, or mount the folder on the worker",
            )

    def _find(self, package: str, version: str) -> Path | None:
        self._present()
        folder = self._root / package / version
        if folder.is_dir():
            return folder
        inside = self._root / package / f"{version}{ARCHIVE}"
        beside = self._root / f"{package}-{version}{ARCHIVE}"
        return next((archive for archive in (inside, beside) if archive.is_file()), None)

    def _all(self, package: str) -> list[Found]:
        found = [(version, self._find(package, version)) for version in self._versions(package)]
        return [Found(version=version, locator=str(path)) for version, path in found if path is not None]

    def _versions(self, package: str) -> list[str]:
        self._present()
        folders = [path.name for path in (self._root / package).glob("*") if path.is_dir()]
        inside = [path.name.removesuffix(ARCHIVE) for path in (self._root / package).glob(f"*{ARCHIVE}")]
        beside = [
            path.name.removesuffix(ARCHIVE).removeprefix(f"{package}-")
            for path in self._root.glob(f"{package}-*{ARCHIVE}")
        ]
        return in_order(name for name in (*folders, *inside, *beside) if is_exact(name))

    def _scan(self) -> list[Offer]:
        self._present()
        names = {path.name for path in self._root.iterdir() if path.is_dir() and is_dns_label(path.name)}
        for path in self._root.glob(f"*{ARCHIVE}"):
            parts = path.name.removesuffix(ARCHIVE).split("-")
            for cut in range(1, len(parts)):  # a name may hold `-`, and so may a version
                name, version = "-".join(parts[:cut]), "-".join(parts[cut:])
                if is_dns_label(name) and is_exact(version):
                    names.add(name)
                    break
        offers: list[Offer] = []
        for name in sorted(names):
            versions = self._versions(name)
            if versions:
                stamps = [self._stamp(name, version) for version in versions]
                digest = hashlib.sha256("\n".join(stamps).encode()).hexdigest()[:32]
                offers.append(Offer(name=name, versions=tuple(versions), digest=digest))
        return offers

    def _stamp(self, package: str, version: str) -> str:
        """Return what changes when a version is written anew: a look at names alone, not at content."""
        found = self._find(package, version)
        info = found.stat() if found else None
        return f"{version} {info.st_mtime_ns} {info.st_size} {info.st_ino}" if info else version


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
