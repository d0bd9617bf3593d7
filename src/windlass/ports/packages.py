"""Package sources and the cache by digest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from windlass.domain.package import Artifact, Package, Source


@dataclass(frozen=True, kw_only=True)
class Repository:
    """A PackageRepository as sources need it; ``spec`` is the object's spec."""

    name: str
    spec: Mapping[str, Any]


class Packages(Protocol):
    """Package sources, the cache by digest and the deployed links.

    Everything is idempotent; a digest once in the cache is complete (unpack to a temporary folder and rename).
    """

    async def resolve(self, repository: Repository, source: Source) -> Artifact:
        """Pin one version by its content.

        Raises:
            TransientError: the repository or version is not there (yet), or cannot be read.
            PermanentError: the repository's spec is wrong, or the archive is refused.
        """
        ...

    async def ensure(self, repository: Repository, artifact: Artifact) -> Path:
        """Return the folder of ``artifact`` in the cache; fetch it if it is missing.

        Raises:
            PermanentError: DIGEST_MISMATCH, the repository now holds other content under this version.
            TransientError, PermanentError: as `resolve`.
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
