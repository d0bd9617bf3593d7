"""`ports.Packages` on this machine's disk."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections import OrderedDict
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final

from windlass.adapters.packages import loader, source_file
from windlass.adapters.packages.cache import Cache
from windlass.adapters.packages.deployed import Deployed
from windlass.adapters.packages.digest import digest_of
from windlass.adapters.packages.unpack import Limits
from windlass.domain.errors import Reason, TransientError
from windlass.domain.package import Artifact, Package, Source
from windlass.ports import Repository

LOADED: Final = 256
"""Packages kept in memory as read; content never changes under its digest."""


class PackageStore:
    """Sources, cache and deployed links below one folder, which several processes may share.

    Args:
        root: made if it is missing.
        limits: of archives.
    """

    def __init__(self, root: Path, limits: Limits | None = None) -> None:
        self._cache = Cache(root / "cache")
        self._deployed = Deployed(root / "deployed")
        self._limits = limits or Limits()
        self._loaded: OrderedDict[str, Package] = OrderedDict()
        self._cache.prepare()

    async def resolve(self, repository: Repository, source: Source) -> Artifact:
        """Pin one version by its content; see `ports.Packages`."""
        return Artifact(source=source, digest=await asyncio.to_thread(self._digest, repository, source))

    async def ensure(self, repository: Repository, artifact: Artifact) -> Path:
        """Return the folder of ``artifact``, fetching it if it is missing; see `ports.Packages`."""
        found = self._cache.find(artifact.digest)
        if found is not None:
            return found
        return await asyncio.to_thread(self._fetch, repository, artifact)

    def cached(self, digest: str) -> Path | None:
        """Return the folder of ``digest`` if it is in the cache."""
        return self._cache.find(digest)

    async def install(self, package_id: str, digest: str) -> Path:
        """Switch the package's link to ``digest``; see `ports.Packages`."""
        return self._deployed.switch(package_id, self._cache.path(digest))

    async def load(self, digest: str) -> Package:
        """Read the content of ``digest``; see `ports.Packages`."""
        if digest in self._loaded:
            self._loaded.move_to_end(digest)
            return self._loaded[digest]
        root = self._cache.find(digest)
        if root is None:
            raise TransientError(
                Reason.CHECK_VERSION_FAILED, f"{digest} is not in the package cache", hint="it is fetched again"
            )
        package = self._loaded[digest] = await asyncio.to_thread(loader.load, root)
        if len(self._loaded) > LOADED:
            self._loaded.popitem(last=False)
        return package

    async def remove(self, package_id: str) -> None:
        """Drop the package's link; its content stays in the cache until `sweep`."""
        self._deployed.drop(package_id)

    async def sweep(self, keep: Sequence[str]) -> list[str]:
        """Drop content that nothing uses; return its digests."""
        return await asyncio.to_thread(self._cache.sweep, [*keep, *self._deployed.in_use()])

    def _digest(self, repository: Repository, source: Source) -> str:
        found = source_file.find(repository, source)
        try:
            if found.is_dir():
                return digest_of(found)
            with tempfile.TemporaryDirectory() as folder:
                source_file.copy(found, Path(folder), self._limits)
                return digest_of(Path(folder))
        except (OSError, shutil.Error) as error:
            raise _unreadable(repository, source, error) from error

    def _fetch(self, repository: Repository, artifact: Artifact) -> Path:
        found = source_file.find(repository, artifact.source)
        return self._cache.add(artifact.digest, partial(source_file.copy, found, limits=self._limits))


def _unreadable(repository: Repository, source: Source, error: Exception) -> TransientError:
    return TransientError(
        Reason.DOWNLOAD_FAILED,
        f"repository {repository.name}: {source.package} {source.version} cannot be read: {error}",
        hint="mend the rights of the files, or wait until they have been written",
    )
