"""What answers about packages are made from: the parts of a worker that read."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial

from temporalio.client import Client

from windlass.activities.content import Contents
from windlass.activities.inputs import Inputs, inputs_of
from windlass.activities.references import References
from windlass.contracts.objects import PackageObject
from windlass.ports.helm import Helm, ReleaseRef, Renderer
from windlass.ports.kube import Kube
from windlass.ports.packages import Packages
from windlass.ports.targets import Role, Targets
from windlass.runtime.packages import PackageLifecycles


@dataclass(frozen=True, kw_only=True)
class Surroundings:
    """Where a worker reads.

    Attributes:
        installation: the installation id.
        kube: Windlass' own client of the management cluster: its own kinds, and nothing of packages.
        references: reads what objects refer to, as their packages.
        targets: the clusters of packages, as their identities.
        helm: reads stored releases.
        renderer: renders charts.
        contents: of packages.
        packages: repositories and cache.
        client: connected to Temporal.
        lifecycles: answers queries.
    """

    installation: str
    kube: Kube
    references: References
    targets: Targets
    helm: Helm
    renderer: Renderer
    contents: Contents
    packages: Packages
    client: Client
    lifecycles: PackageLifecycles

    def release(self, package: PackageObject) -> ReleaseRef:
        """Return the package's release: the one in use, else the one it is going to have.

        Raises:
            PermanentError: TARGET_REFUSED, the package may not be where it wants to be.
        """
        placement, status = self.references.placement(package), package.status
        name = status.release.name if status and status.release else placement.release
        return ReleaseRef(target=placement.target, name=name)

    @asynccontextmanager
    async def acting(self, package: PackageObject) -> AsyncGenerator[Kube]:
        """Act in the package's cluster as the package.

        Raises:
            WindlassError: as `ports.Targets.acting`.
        """
        async with self.targets.acting(self.release(package).target) as acting:
            yield await acting.kube(Role.INSPECT)

    async def inputs(self, package: PackageObject) -> Inputs:
        """Look up what the package's object refers to.

        Raises:
            WindlassError: the cluster does not answer.
        """
        return await inputs_of(package, repositories=self.kube.get, referenced=partial(self.references.get, package))
