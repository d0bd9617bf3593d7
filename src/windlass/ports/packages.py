"""Package sources and the cache by digest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from windlass.domain.packages.model import Artifact, Package, Source
from windlass.domain.packages.registry_login import Login


@dataclass(frozen=True, kw_only=True)
class Access:
    """What a repository's Secrets hold. Never printed: all of it stays out of ``repr``.

    Attributes:
        login: who we are to the repository.
        authorities: PEM certificates that its certificate may come from, besides the system's.
        certificate: our own certificate and its key, PEM.
        trusted: PEM public keys, one of which has to have signed what is taken.
    """

    login: Login | None = field(default=None, repr=False)
    authorities: bytes = field(default=b"", repr=False)
    certificate: tuple[bytes, bytes] | None = field(default=None, repr=False)
    trusted: tuple[bytes, ...] = field(default=(), repr=False)


@dataclass(frozen=True, kw_only=True)
class Repository:
    """A PackageRepository as sources need it; ``spec`` is the object's spec."""

    name: str
    spec: Mapping[str, Any]
    access: Access = Access()


@dataclass(frozen=True, kw_only=True)
class Offer:
    """What a repository has of one package.

    Attributes:
        name: of the package.
        versions: exact, oldest first.
        digest: changes whenever what it has of the package changes, as far as the repository tells without fetching.
    """

    name: str
    versions: tuple[str, ...]
    digest: str = ""


class Packages(Protocol):
    """Package sources, the cache by digest and the deployed links.

    Everything is idempotent; a digest once in the cache is complete (unpack to a temporary folder and rename).
    """

    async def resolve(self, repository: Repository, source: Source) -> Artifact:
        """Pin one version by its content: the newest one that ``source`` admits.

        Raises:
            TransientError: the repository or version is not there (yet), or cannot be read.
            PermanentError: the repository's spec is wrong, UNAUTHORIZED, SIGNATURE_INVALID, DIGEST_MISMATCH (what
                comes is not what the repository promises), or the archive is refused.
        """
        ...

    async def at_hand(self, repository: Repository, source: Source) -> Artifact | None:
        """Pin one version as `resolve` does, if that takes no network and its content is in the cache; else None.

        Raises:
            TransientError, PermanentError: as `resolve`.
        """
        ...

    async def ensure(self, repository: Repository, artifact: Artifact) -> Path:
        """Return the folder of ``artifact`` in the cache; fetch it if it is missing.

        Raises:
            PermanentError: DIGEST_MISMATCH, the repository now holds other content under this version.
            TransientError, PermanentError: as `resolve`.
        """
        ...

    async def scan(self, repository: Repository, used: Sequence[str]) -> Sequence[Offer]:
        """Say what a repository has.

        Args:
            repository: which.
            used: packages to look for also where the repository does not list its packages.

        Returns:
            Packages in the order of their names; those of ``used`` that it does not have are left out.

        Raises:
            TransientError, PermanentError: it cannot be read; as `resolve`.
        """
        ...

    def cached(self, digest: str) -> Path | None:
        """Return the folder of ``digest`` if it is in the cache."""
        ...

    async def install(self, package_id: str, digest: str) -> Path:
        """Switch the package's deployed link to ``digest`` atomically; works for up- and downgrades."""
        ...

    async def load(self, digest: str) -> Package:
        """Read the package's folder.

        Raises:
            PermanentError: LOAD_FAILED with file, line or field, and what is expected there.
        """
        ...

    async def remove(self, package_id: str) -> None:
        """Drop the deployed link; what no package id uses may then be dropped from the cache by `sweep`."""
        ...

    async def sweep(self, keep: Sequence[str]) -> list[str]:
        """Drop cached digests that are neither deployed nor in ``keep``; return what was dropped."""
        ...
