"""`ports.Packages` on this machine's disk."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final, cast
from weakref import WeakValueDictionary

from windlass.adapters.packages.cache.contents import Cache
from windlass.adapters.packages.cache.deployed import Deployed
from windlass.adapters.packages.format import loader
from windlass.adapters.packages.format.digest import digest_of
from windlass.adapters.packages.format.entries import UNBOUNDED, Limits
from windlass.adapters.packages.format.files import CHART, FileError, read_yaml
from windlass.adapters.packages.format.plain_chart import is_plain_chart
from windlass.adapters.packages.sources import file as source_file
from windlass.adapters.packages.sources.indexes import Indexes
from windlass.adapters.packages.sources.opening import opened
from windlass.adapters.packages.sources.source import Found, PackageSource
from windlass.adapters.packages.sources.transport import FetchLimits
from windlass.domain.errors import Actor, PermanentError, Reason, TransientError
from windlass.domain.ids import is_dns_label
from windlass.domain.packages.definition import LEGACY_FILE
from windlass.domain.packages.model import Artifact, Package, Source
from windlass.domain.packages.versions import VersionRangeError
from windlass.domain.packages.wanted import Wanted, canonical, choose
from windlass.ports.packages import Offer, Repository

LOADED: Final = 256
"""Packages kept in memory as read; content never changes under its digest."""

_TOLD: Final = 10
"""Versions named in an error."""


class PackageStore:
    """Sources, cache and deployed links below one folder, which several processes may share.

    Everything that may take more than some system calls runs in threads, and waits there for nobody: of many that ask
    for one digest at a time, one fetches it and the others wait in the event loop.

    Args:
        root: made if it is missing.
        limits: of packages.
        fetch: of requests to repositories.
    """

    def __init__(self, root: Path, limits: Limits | None = None, fetch: FetchLimits | None = None) -> None:
        self._cache = Cache(root / "cache")
        self._deployed = Deployed(root / "deployed")
        self._limits = limits or Limits()
        self._fetch_limits = fetch or FetchLimits()
        self._loaded: OrderedDict[str, Package] = OrderedDict()
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._indexes = Indexes()
        self._cache.prepare()

    async def resolve(self, repository: Repository, source: Source) -> Artifact:
        """Pin one version by its content; see `ports.Packages`. The content of an archive gets into the cache by it."""
        wanted = _wanted(source)
        async with self._turn(f"{repository.name}/{source}"), self._opened(repository) as place:
            found = await _found(place, repository, source, wanted)
            exact = replace(source, version=found.version)
            async with self._fetched(place, exact, found) as content:
                digest = await asyncio.to_thread(self._pin, repository, exact, content)
            return Artifact(source=source, digest=digest, version=found.version)

    async def at_hand(self, repository: Repository, source: Source) -> Artifact | None:
        """Pin one version of a folder whose content is in the cache; see `ports.Packages`."""
        if repository.spec.get("kind") != source_file.KIND:
            return None
        artifact = await self.resolve(repository, source)
        return artifact if self._cache.find(artifact.digest) is not None else None

    async def ensure(self, repository: Repository, artifact: Artifact) -> Path:
        """Return the folder of ``artifact``, fetching it if it is missing; see `ports.Packages`."""
        async with self._turn(artifact.digest):
            known = self._cache.find(artifact.digest)
            if known is not None:
                return known
            # The exact version that was pinned, also if a range admits a newer one by now.
            wanted = _wanted(artifact.source)
            wanted = wanted if wanted.digest else replace(wanted, version=artifact.exact, range=None)
            exact = replace(artifact.source, version=artifact.exact)
            async with self._opened(repository) as place:
                found = await _found(place, repository, artifact.source, wanted)
                async with self._fetched(place, exact, found) as content:
                    fill = partial(source_file.copy, content, limits=self._limits)
                    return await asyncio.to_thread(self._cache.add, artifact.digest, fill)

    async def scan(self, repository: Repository, used: Sequence[str]) -> Sequence[Offer]:
        """Say what a repository has; see `ports.Packages`."""
        async with self._opened(repository) as place:
            return await place.scan([name for name in used if is_dns_label(name)])

    async def versions(self, repository: Repository, package: str) -> list[str]:
        """Return the exact versions that a repository has of a package, oldest first.

        Raises:
            TransientError, PermanentError: as `resolve`.
        """
        async with self._opened(repository) as place:
            return [found.version for found in await place.versions(package)]

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

    def _opened(self, repository: Repository) -> AbstractAsyncContextManager[PackageSource]:
        return opened(repository, self._limits, self._fetch_limits, self._indexes)

    @asynccontextmanager
    async def _fetched(self, place: PackageSource, source: Source, found: Found) -> AsyncGenerator[Path]:
        """Yield the folder or archive of a version; what had to be fetched goes with the context."""
        try:
            with self._cache.scratch() as scratch:
                yield await place.fetch(source.package, found, scratch)
        except OSError as error:
            raise TransientError(
                Reason.DOWNLOAD_FAILED,
                f"{source} cannot be stored: {error.strerror or error}: {error.filename}",
                hint="make room, or mend the rights of that path",
            ) from error

    def _pin(self, repository: Repository, source: Source, found: Path) -> str:
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

    def _load(self, digest: str) -> Package:
        root = self._cache.find(digest)
        if root is None:
            raise TransientError(
                Reason.CHECK_VERSION_FAILED, f"{digest} is not in the package cache", hint="it is fetched again"
            )
        try:
            if digest_of(root, UNBOUNDED) == digest:
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


def _wanted(source: Source) -> Wanted:
    """Read what is wanted. Names and versions become paths and addresses: nothing but names and versions may."""
    try:
        wanted = Wanted.parse(source.version)
    except VersionRangeError as error:
        raise _unusable(f"spec.package.version: {error}") from None
    if not is_dns_label(source.package):
        raise _unusable(f"spec.package.name: {source.package[:80]!r} is no DNS label")
    return wanted


def _unusable(problem: str) -> PermanentError:
    return PermanentError(
        Reason.PACKAGE_NOT_FOUND,
        problem,
        hint="write a DNS label and an exact version or a range into spec.package",
        actor=Actor.USER,
    )


async def _found(place: PackageSource, repository: Repository, source: Source, wanted: Wanted) -> Found:
    """Return the version that answers a wish.

    Raises:
        TransientError: PACKAGE_NOT_FOUND; the versions that are there are named.
    """
    known: Sequence[Found] = ()
    if wanted.range is None:
        found = await place.find(source.package, wanted.version, wanted.digest)
        if found is not None:
            return found
        with suppress(PermanentError):  # a repository that lists nothing has nothing to name
            known = await place.versions(source.package)
    else:
        known = await place.versions(source.package)
        best = choose(wanted, [one.version for one in known])
        if best is not None:
            return next(one for one in known if one.version == best)
    names = [one.version for one in known]
    told = f"it has {', '.join(names[-_TOLD:])}" if names else "it has no version of that package"
    raise TransientError(
        Reason.PACKAGE_NOT_FOUND,
        f"repository {repository.name} has no {source.package} {source.version}; {told}",
        hint="ask for a version that is there, or publish this one",
    )


def _check_identity(root: Path, source: Source) -> None:
    """See that the package is what its place in the repository says; whatever else is wrong, `load` tells."""
    try:
        file = CHART if is_plain_chart(root) else loader.definition_file(root)
        document = read_yaml(root, file)
    except (FileNotFoundError, FileError):
        return
    if not isinstance(document, dict):
        return
    definition = cast("dict[str, object]", document)
    for field, wanted in (("name", source.package), ("version", source.version)):
        given = definition.get(field)
        if file == LEGACY_FILE and field == "version":
            continue
        same = given == wanted or (file == CHART and field == "version" and canonical(str(given)) == wanted)
        if isinstance(given, str) and not same:
            raise PermanentError(
                Reason.LOAD_FAILED,
                f"{file}, {field}: is {given!r}, but the repository holds this package as {source.package} "
                f"{source.version}",
                hint=f"mend {file}, or the name of the folder or archive",
                actor=Actor.AUTHOR,
            )
