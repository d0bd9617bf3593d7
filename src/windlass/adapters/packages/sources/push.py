"""Pushes packages to a registry as charts are pushed (HIP-6), so that Helm can pull them too."""

from __future__ import annotations

import asyncio
import hashlib
import json
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from windlass.adapters.packages.format import loader
from windlass.adapters.packages.format.entries import Limits
from windlass.adapters.packages.format.pack import pack
from windlass.adapters.packages.format.unpack import unpack
from windlass.adapters.packages.sources.oci import CHART_CONFIG, CHART_CONTENT, registry_at, tag_of
from windlass.adapters.packages.sources.registry import OCI_MANIFEST, Registry
from windlass.adapters.packages.sources.source import Remote, remote_of
from windlass.adapters.packages.sources.transport import FetchLimits, connected
from windlass.ports.packages import Repository

PACKAGE_CONFIG = "application/vnd.windlass.package.config.v1+json"
"""Media type of the configuration of a package without a chart; Helm does not take it for one."""


@dataclass(frozen=True, kw_only=True)
class Pushed:
    """What was pushed: reference, digest of the manifest, content digest of the package."""

    reference: str
    manifest: str
    digest: str


async def push(repository: Repository, package: Path, limits: Limits | None = None) -> Pushed:
    """Push a package's folder or archive under its name and version.

    Raises:
        PermanentError: it is no package; UNAUTHORIZED; the registry does not take it.
        TransientError: DOWNLOAD_FAILED, the registry does not answer.
        OSError: it cannot be read.
    """
    bounds = limits or Limits()
    remote = remote_of(repository)
    with tempfile.TemporaryDirectory(prefix="windlass-push-") as folder:
        root = await asyncio.to_thread(_folder, package, Path(folder, "content"), bounds)
        packed = await asyncio.to_thread(pack, root, Path(folder, "packed"), bounds, top=True)
        definition = loader.load(root).definition
        chart = loader.has_chart(root)
        config = {"name": definition.name, "version": definition.version, "apiVersion": "v2"}
        async with _registry(repository, remote) as (registry, path):
            name = f"{path}/{definition.name}" if path else definition.name
            described = json.dumps(config, sort_keys=True).encode()
            layer = hashlib.sha256(await asyncio.to_thread(packed.path.read_bytes)).hexdigest()
            about = hashlib.sha256(described).hexdigest()
            await registry.push_blob(name, packed.path, f"sha256:{layer}")
            await registry.push_blob(name, described, f"sha256:{about}")
            manifest = await registry.push_manifest(
                name,
                tag_of(definition.version),
                {
                    "schemaVersion": 2,
                    "mediaType": OCI_MANIFEST,
                    "config": {
                        "mediaType": CHART_CONFIG if chart else PACKAGE_CONFIG,
                        "digest": f"sha256:{about}",
                        "size": len(described),
                    },
                    "layers": [{"mediaType": CHART_CONTENT, "digest": f"sha256:{layer}", "size": packed.size}],
                    "annotations": {
                        "org.opencontainers.image.title": definition.name,
                        "org.opencontainers.image.version": definition.version,
                    },
                },
            )
    reference = f"{remote.url}/{definition.name}:{tag_of(definition.version)}"
    return Pushed(reference=reference, manifest=manifest, digest=packed.digest)


def _folder(package: Path, target: Path, limits: Limits) -> Path:
    if not package.is_file():
        return package
    target.mkdir()
    return unpack(package, target, limits)


@asynccontextmanager
async def _registry(repository: Repository, remote: Remote) -> AsyncGenerator[tuple[Registry, str]]:
    async with connected(
        where=f"repository {repository.name}",
        origin=remote.web,
        access=repository.access,
        insecure=remote.insecure,
        limits=FetchLimits(),
    ) as transport:
        yield registry_at(repository, transport, remote)
