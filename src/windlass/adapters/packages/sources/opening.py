"""Which kind of source an object of kind PackageRepository names."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial

from windlass.adapters.packages.format.entries import Limits
from windlass.adapters.packages.sources import file as source_file
from windlass.adapters.packages.sources import helm as source_helm
from windlass.adapters.packages.sources import http as source_http
from windlass.adapters.packages.sources import oci as source_oci
from windlass.adapters.packages.sources.indexes import Indexes
from windlass.adapters.packages.sources.source import PackageSource, refuse_spec, remote_of
from windlass.adapters.packages.sources.transport import FetchLimits, connected
from windlass.ports.packages import Repository


@asynccontextmanager
async def opened(
    repository: Repository, limits: Limits, fetch: FetchLimits, indexes: Indexes
) -> AsyncGenerator[PackageSource]:
    """Yield the source that an object of kind PackageRepository names; ``indexes`` of Helm repositories are shared.

    Raises:
        PermanentError: DOWNLOAD_FAILED, its spec is wrong.
    """
    kind = repository.spec.get("kind")
    if repository.spec.get("verify") and kind != "oci":
        refuse_spec(repository, "spec.verify is for kind oci only")
    if kind == "file":
        yield source_file.FileSource(repository)
        return
    makers = {
        "oci": source_oci.make,
        source_helm.KIND: partial(source_helm.make, indexes=indexes),
        "http": source_http.make,
    }
    maker = makers.get(str(kind))
    if maker is None:
        refuse_spec(repository, f"spec.kind {kind!r} is not served; write one of file, helm, http, oci")
    remote = remote_of(repository)
    async with connected(
        where=f"repository {repository.name}",
        origin=remote.web,
        access=repository.access,
        insecure=remote.insecure,
        limits=fetch,
        hosts=source_helm.hosts_of(repository, remote) if kind == source_helm.KIND else None,
    ) as transport:
        yield maker(repository, transport, remote, limits)
