"""A tenant who means harm, with the rights of a tenant; and what the tenant is after."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from support import rights
from support.installation import Installation, write_greeter
from support.running import packages, running
from support.waiting import eventually
from windlass.adapters.kube.client import KubeClient
from windlass.devstack.stack import Stack
from windlass.ports.kube import Object, ObjectRef


@dataclass(frozen=True)
class Scene:
    """An installation with a tenant and a neighbour.

    Attributes:
        tenant: the installation as somebody sees it who is `edit` and `windlass-admin` in its namespace and nothing
            elsewhere: whatever is applied through it is applied with these rights.
        admin: the same installation as an administrator sees it.
        neighbour: a namespace of somebody else, with a Secret and a ConfigMap `theirs`.
        person: a client of the tenant.
    """

    tenant: Installation
    admin: Installation
    neighbour: str
    person: KubeClient
    process: int

    @property
    def namespace(self) -> str:
        return self.tenant.namespace

    async def failed(self, name: str) -> Object:
        """Wait until the package has failed; return its failure."""
        obj = await self.admin.status(name, lambda status: status.get("failure"))
        failure: Object = obj["status"]["failure"]
        return failure

    async def attacked(self, package: str, **spec: object) -> Object:
        """Install a package of the tenant and wait for its failure."""
        await self.tenant.application(package, package, "1.0.0", **spec)
        return await self.failed(package)

    async def unharmed(self) -> None:
        """Check that the worker lives, that nothing of the neighbour has changed, and that others are served."""
        assert self.admin.process is not None
        assert self.admin.process.poll() is None
        assert self.admin.process.pid == self.process
        for kind in ("Secret", "ConfigMap"):
            found = await self.admin.kube.get(at(kind, self.neighbour))
            assert found is not None
            assert not found["metadata"].get("deletionTimestamp")
            assert "attack" not in str(found)
        obj = await self.admin.object("honest")
        assert obj is not None
        greeting = f"hello-{obj['metadata']['generation']}"
        await self.admin.application("honest", "greeter", "1.0.0", settings={"greeting": greeting})
        await self.admin.ready("honest")


def at(kind: str, namespace: str, name: str = "theirs") -> ObjectRef:
    return ObjectRef(api_version="v1", kind=kind, namespace=namespace, name=name)


@asynccontextmanager
async def attacked(stack: Stack, folder: Path) -> AsyncGenerator[Scene]:
    """Give an installation with a tenant, a neighbour, and an honest package."""
    async with AsyncExitStack() as opened:
        admin = await opened.enter_async_context(running(stack, folder, WINDLASS_KUBECONFIGS="local"))
        write_greeter(packages(admin), "1.0.0")
        neighbour = await opened.enter_async_context(rights.namespace(admin.kube, "neighbour"))
        home = await opened.enter_async_context(rights.namespace(admin.kube, "people"))
        await admin.kube.create(
            rights.plain("Secret", neighbour, "theirs", stringData={"password": "neighbours-secret"})
        )
        await admin.kube.create(rights.plain("ConfigMap", neighbour, "theirs", data={"whose": "neighbour"}))
        person = await opened.enter_async_context(rights.acting(admin.kube, home, "mallory"))
        for role in ("edit", "windlass-admin"):
            await admin.kube.create(rights.binding(admin.namespace, role, "mallory", account_namespace=home))
        await eventually(lambda: rights.allowed(person, "create", "applications.windlass.dev", admin.namespace))
        await admin.application("honest", "greeter", "1.0.0")
        await admin.ready("honest")
        assert admin.process is not None
        yield Scene(replace(admin, kube=person), admin, neighbour, person, admin.process.pid)
