"""Repositories of kind ``oci``: the image ``<url>/<package>``, one tag for each version.

Charts as Helm pushes them (HIP-6): one layer of Helm's media type. Tags cannot hold ``+``: Helm writes ``_`` for it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from windlass.adapters.packages.format.entries import Limits
from windlass.adapters.packages.sources import cosign
from windlass.adapters.packages.sources.registry import Blob, Manifest, Registry
from windlass.adapters.packages.sources.source import Found, Remote, gone, mismatch
from windlass.adapters.packages.sources.transport import Transport
from windlass.domain.errors import Actor, PermanentError, Reason
from windlass.domain.packages.wanted import canonical, in_order, newest
from windlass.ports.packages import Offer, Repository

CHART_CONFIG: Final = "application/vnd.cncf.helm.config.v1+json"
CHART_CONTENT: Final = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
ARCHIVES: Final = (
    CHART_CONTENT,
    "application/tar+gzip",
    "application/vnd.oci.image.layer.v1.tar+gzip",
    "application/vnd.docker.image.rootfs.diff.tar.gzip",
)
"""Media types of layers that are taken for a package; the first of them that is there."""


def make(repository: Repository, transport: Transport, remote: Remote, limits: Limits) -> OciSource:
    """Build the source; ``remote`` is where the object says."""
    registry, path = registry_at(repository, transport, remote)
    return OciSource(repository, registry, path, limits)


def registry_at(repository: Repository, transport: Transport, remote: Remote) -> tuple[Registry, str]:
    """Return the registry at an address, and the path below which its repositories are."""
    scheme, _, rest = remote.web.partition("://")
    host, _, path = rest.partition("/")
    return Registry(transport, f"{scheme}://{host}", repository.access.login), path


class OciSource:
    """One registry, below one path."""

    def __init__(self, repository: Repository, registry: Registry, path: str, limits: Limits) -> None:
        self._repository = repository
        self._registry = registry
        self._path = path
        self._limits = limits
        self._manifests: dict[str, Manifest] = {}

    async def versions(self, package: str) -> Sequence[Found]:
        """Return every tag that is a version."""
        found: dict[str, Found] = {}
        for tag in await self._registry.tags(self._name(package)):
            version = canonical(tag.replace("_", "+"))
            if version is not None:
                # `v1.2.0` and `1.2.0` are one version: the plain spelling wins.
                known = found.get(version)
                if known is None or tag == tag_of(version):
                    found[version] = Found(version=version, locator=tag)
        return [found[version] for version in in_order(found)]

    async def find(self, package: str, version: str, digest: str) -> Found | None:
        """Return a version by its tag, or by the digest of its manifest, whatever the tag says now."""
        for reference in [digest] if digest else [tag_of(version), f"v{tag_of(version)}"]:
            manifest = await self._manifest(package, reference)
            if manifest is not None:
                return Found(version=version, locator=reference, digest=manifest.digest)
        return None

    async def fetch(self, package: str, found: Found, scratch: Path) -> Path:
        """Verify the signature if one is asked for, then fetch the archive."""
        manifest = await self._manifest(package, found.locator)
        if manifest is None:
            raise gone(self._repository, f"{package}:{found.locator}")
        if found.digest and manifest.digest != found.digest:
            raise mismatch(self._repository, f"{package} {found.version}", found.digest, manifest.digest)
        if self._repository.spec.get("verify"):
            await cosign.verify(self._registry, self._name(package), manifest.digest, self._repository.access.trusted)
        layer = self._layer(package, manifest)
        archive = scratch / f"{package}-{found.version}.tgz"
        await self._registry.fetch(self._name(package), layer, archive, limit=self._limits.packed)
        return archive

    async def scan(self, used: Sequence[str]) -> Sequence[Offer]:
        """Look at what the registry lists, and at what is used."""
        await self._registry.ping()
        prefix = f"{self._path}/" if self._path else ""
        listed = await self._registry.names() or []
        below = {name.removeprefix(prefix) for name in listed if name.startswith(prefix)}
        offers: list[Offer] = []
        for package in sorted({name for name in below if "/" not in name} | set(used)):
            found = await self.versions(package)
            if found:
                offers.append(await self._offer(package, found))
        return offers

    async def _offer(self, package: str, found: Sequence[Found]) -> Offer:
        versions = tuple(one.version for one in found)
        # One request tells whether the newest tag has moved; older ones that move are noticed when they are fetched.
        latest = next(one for one in found if one.version == newest(versions))
        digest = await self._registry.digest(self._name(package), latest.locator)
        text = "\n".join((*versions, digest))
        return Offer(name=package, versions=versions, digest=hashlib.sha256(text.encode()).hexdigest()[:32])

    async def _manifest(self, package: str, reference: str) -> Manifest | None:
        key = f"{package}:{reference}"
        if key not in self._manifests:
            manifest = await self._registry.manifest(self._name(package), reference)
            if manifest is None:
                return None
            self._manifests[key] = manifest
        return self._manifests[key]

    def _layer(self, package: str, manifest: Manifest) -> Blob:
        for media_type in ARCHIVES:
            for layer in manifest.layers:
                if layer.media_type == media_type:
                    return layer
        raise PermanentError(
            Reason.DOWNLOAD_FAILED,
            f"repository {self._repository.name}: {package}@{manifest.digest} holds neither a chart nor a package",
            hint="push it with `windlass package push` or `helm push`",
            actor=Actor.AUTHOR,
        )

    def _name(self, package: str) -> str:
        return f"{self._path}/{package}" if self._path else package


def tag_of(version: str) -> str:
    """Return the tag of an exact version."""
    return version.replace("+", "_")
