"""Packages of one installation on several clusters."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from support import rights
from support.installation import Installation
from support.waiting import eventually
from windlass.adapters.kube.client import KubeClient
from windlass.adapters.kube.kubeconfig import ApiAccess, read
from windlass.adapters.targets.kubeconfig import render
from windlass.devstack.clusters import KEY, Cluster
from windlass.domain.errors import PermanentError
from windlass.ports.kube import Object, ObjectRef


@dataclass(frozen=True, kw_only=True)
class Elsewhere:
    """A cluster beside the management cluster, with a namespace of its own for the installation's packages.

    Attributes:
        cluster: starts and stops it.
        installation: whose packages go there.
        kube: an administrator's client of that cluster.
    """

    cluster: Cluster
    installation: Installation
    kube: KubeClient

    @property
    def access(self) -> ApiAccess:
        """An administrator's address and credentials."""
        return read(self.cluster.kubeconfig)

    def target(self, secret: str = "") -> Object:
        """Return a `spec.target` for the cluster."""
        secret = secret or self.cluster.name
        return {"cluster": {"kubeconfigSecret": {"name": secret}}, "createNamespace": True}

    async def store(self, name: str = "", *, text: str = "") -> None:
        """Write a kubeconfig, by default the administrator's, into a Secret beside the Applications."""
        await store_kubeconfig(
            self.installation, name or self.cluster.name, text or self.cluster.kubeconfig.read_text()
        )

    async def account(self, name: str, role: str = "cluster-admin") -> str:
        """Make a service account over there and return a kubeconfig with a token of it."""
        home = "default"
        await self.kube.apply(rights.plain("ServiceAccount", home, name), field_manager="tests")
        binding = rights.binding("", role, name, account_namespace=home, name=f"{self.installation.name}-{name}")
        await self.kube.apply(binding, field_manager="tests")
        token = await rights.token(self.kube, home, name)
        return render(ApiAccess(server=self.access.server, ca_pem=self.access.ca_pem, token=token))

    async def revoke(self, name: str, kubeconfig: str) -> None:
        """Delete the service account over there and wait until its token is refused: the API server caches tokens."""
        await self.kube.delete(rights.account_ref("default", name))

        async def refused() -> bool:
            async with KubeClient.from_kubeconfig(kubeconfig, user_agent="tests") as theirs:
                try:
                    await rights.allowed(theirs, "get", "configmaps")
                except PermanentError:
                    return True
            return False

        await eventually(refused, every=0.5, what=f"the token of {name} is refused")

    async def get(self, kind: str, name: str) -> Object | None:
        """Read an object over there, in the namespace of the same name as the installation's."""
        ref = ObjectRef(api_version="v1", kind=kind, namespace=self.installation.namespace, name=name)
        return await self.kube.get(ref)

    async def shown(self, name: str) -> dict[str, str]:
        """Return the data of the ConfigMap that the greeter's chart makes over there, empty if there is none."""
        found = await self.get("ConfigMap", name)
        return found["data"] if found else {}


@asynccontextmanager
async def elsewhere(installation: Installation, number: int) -> AsyncGenerator[Elsewhere]:
    """Give cluster ``number`` of the stack, started if it does not run yet; its kubeconfig is stored in a Secret."""
    cluster = installation.stack.cluster(number)
    cluster.start()
    async with KubeClient.from_kubeconfig(cluster.kubeconfig, qps=500, burst=1000, user_agent="tests") as kube:
        found = Elsewhere(cluster=cluster, installation=installation, kube=kube)
        await found.store()
        try:
            yield found
        finally:
            cluster.start()
            await kube.delete(ObjectRef(api_version="v1", kind="Namespace", name=installation.namespace))


async def store_kubeconfig(installation: Installation, name: str, text: str, **metadata: Any) -> None:
    """Write a kubeconfig into a Secret of the installation's namespace."""
    secret = rights.plain("Secret", installation.namespace, name, metadata=metadata, stringData={KEY: text})
    await installation.apply(secret)
