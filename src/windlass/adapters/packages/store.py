"""`ports.Packages` on this machine's disk."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final, cast
from weakref import WeakValueDictionary

from windlass.adapters.packages import loader, source_file
from windlass.adapters.packages.cache import Cache
from windlass.adapters.packages.deployed import Deployed
from windlass.adapters.packages.digest import digest_of
from windlass.adapters.packages.entries import Limits
from windlass.domain.definition import LEGACY_FILE
from windlass.domain.errors import Actor, PermanentError, Reason, TransientError
from windlass.domain.package import Artifact, Package, Source
from windlass.ports.packages import Repository

LOADED: Final = 256
"""Packages kept in memory as read; content never changes under its digest."""


class PackageStore:
    """Sources, cache and deployed links below one folder, which several processes may share.

    Everything that may take more than some system calls runs in threads, and waits there for nobody: of many that ask
    for one digest at a time, one fetches it and the others wait in the event loop.

    Args:
        root: made if it is missing.
        limits: of packages.
    """

    def __init__(self, root: Path, limits: Limits | None = None) -> None:
        self._cache = Cache(root / "cache")
        self._deployed = Deployed(root / "deployed")
        self._limits = limits or Limits()
        self._loaded: OrderedDict[str, Package] = OrderedDict()
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._cache.prepare()

    async def resolve(self, repository: Repository, source: Source) -> Artifact:
        """Pin one version by its content; see `ports.Packages`. The content of an archive gets into the cache by it."""
        async with self._turn(f"{repository.name}/{source}"):
            return Artifact(source=source, digest=await asyncio.to_thread(self._resolve, repository, source))

    async def ensure(self, repository: Repository, artifact: Artifact) -> Path:
        """Return the folder of ``artifact``, fetching it if it is missing; see `ports.Packages`."""
        async with self._turn(artifact.digest):
            found = self._cache.find(artifact.digest)
            return found or await asyncio.to_thread(self._fetch, repository, artifact)

    def cached(self, digest: str) -> Path | None:
        """Return the folder of ``digest`` if it is in the cache."""
        return self._cache.find(digest)

    async def install(self, package_id: str, digest: str) -> Path:
        """Switch the package's link to ``digest``; see `ports.Packages`."""
        with self._cache.locked():  # no sweep between the look and the link
            return self._deployed.switch(package_id, self._cache.path(digest))

    async def load(self, digest: str) -> Package:
        """Read the content of ``digest``; see `ports.Packages`.

        The first time, it is held against its digest: a power cut or a hook that writes into its own folder may have
        damaged it.

        Raises:
            TransientError: CHECK_VERSION_FAILED, the content is not there, or was damaged and has been dropped.
        """
        async with self._turn(f"load {digest}"):
            if digest not in self._loaded:
                self._loaded[digest] = await asyncio.to_thread(self._load, digest)
                if len(self._loaded) > LOADED:
                    self._loaded.popitem(last=False)
            self._loaded.move_to_end(digest)
            return self._loaded[digest]

    async def remove(self, package_id: str) -> None:
        """Drop the package's link; its content stays in the cache until `sweep`."""
        self._deployed.drop(package_id)

    async def sweep(self, keep: Sequence[str]) -> list[str]:
        """Drop content that nothing uses; return its digests."""
        dropped = await asyncio.to_thread(self._cache.sweep, lambda: (*keep, *self._deployed.in_use()))
        for digest in dropped:
            self._loaded.pop(digest, None)
        return dropped

    def _turn(self, key: str) -> asyncio.Lock:
        """Return the lock of all who are after the same thing; it goes with the last of them."""
        lock = self._turns.get(key)
        if lock is None:
            lock = self._turns[key] = asyncio.Lock()
        return lock

    def _resolve(self, repository: Repository, source: Source) -> str:
        found = source_file.find(repository, source)
        if found.is_file():
            digest = self._cache.admit(partial(source_file.copy, found, limits=self._limits))
            _check_identity(self._cache.path(digest), source)
            return digest
        try:
            _check_identity(found, source)
            return digest_of(found, self._limits)
        except OSError as error:
            raise TransientError(
                Reason.DOWNLOAD_FAILED,
                f"repository {repository.name}: {source.package} {source.version} cannot be read: "
                f"{error.strerror or error}: {error.filename}",
                hint="mend the rights of the files, or wait until they have been written",
            ) from error

    def _fetch(self, repository: Repository, artifact: Artifact) -> Path:
        found = source_file.find(repository, artifact.source)
        return self._cache.add(artifact.digest, partial(source_file.copy, found, limits=self._limits))

    def _load(self, digest: str) -> Package:
        root = self._cache.find(digest)
        if root is None:
            raise TransientError(
                Reason.CHECK_VERSION_FAILED, f"{digest} is not in the package cache", hint="it is fetched again"
            )
        try:
            if digest_of(root) == digest:
                return loader.load(root)
        except OSError as error:
            raise TransientError(
                Reason.CHECK_VERSION_FAILED,
                f"{digest} cannot be read from the package cache: {error.strerror or error}: {error.filename}",
                hint="mend the rights of that path",
            ) from error
        self._cache.discard(digest)
        raise TransientError(
            Reason.CHECK_VERSION_FAILED,
            f"{digest} was damaged in the package cache and has been dropped",
            hint="it is fetched again; if it happens again, see whether a hook writes into the package's folder",
        )


def _check_identity(root: Path, source: Source) -> None:
    """See that the package is what its place in the repository says; whatever else is wrong, `load` tells."""
    try:
        file = loader.definition_file(root)
        document = loader.read_yaml(root, file)
    except (FileNotFoundError, loader.FileError):
        return
    if not isinstance(document, dict):
        return
    definition = cast("dict[str, object]", document)
    for field, wanted in (("name", source.package), ("version", source.version)):
        given = definition.get(field)
        if file == LEGACY_FILE and field == "version":
            continue
        if isinstance(given, str) and given != wanted:
            raise PermanentError(
                Reason.LOAD_FAILED,
                f"{file}, {field}: is {given!r}, but the repository holds this package as {source.package} "
                f"{source.version}",
                hint=f"mend {file}, or the name of the folder or archive",
                actor=Actor.AUTHOR,
            )
