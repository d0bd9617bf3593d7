"""What the commands read from the cluster."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from windlass.cli.context import Context
from windlass.contracts.objects import Application
from windlass.domain.errors import Actor, PermanentError, Reason
from windlass.domain.ids import API_VERSION, DEFAULT_INSTALLATION, INSTALLATION_LABEL, PackageKey
from windlass.ports import ObjectRef

if TYPE_CHECKING:
    from windlass.adapters.kube.client import KubeClient

type Object = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """The cluster and installation that a command works on."""

    context: Context
    kube: KubeClient
    namespace: str

    def key(self, name: str) -> PackageKey:
        """Name an Application of this installation."""
        return PackageKey(installation=self.context.installation, namespace=self.namespace, name=name)

    def ref(self, name: str) -> ObjectRef:
        """Name an Application's object."""
        return ObjectRef(api_version=API_VERSION, kind="Application", namespace=self.namespace, name=name)

    async def applications(self, *, all_namespaces: bool = False) -> list[Application]:
        """List this installation's Applications, by namespace and name."""
        found = await self.kube.list(API_VERSION, "Application", namespace="" if all_namespaces else self.namespace)
        mine = [
            application
            for item in found.items
            if (application := Application.model_validate(item)).metadata.labels.get(
                INSTALLATION_LABEL, DEFAULT_INSTALLATION
            )
            == self.context.installation
        ]
        return sorted(mine, key=lambda one: (one.metadata.namespace, one.metadata.name))

    async def application(self, name: str) -> Application:
        """Read one Application.

        Raises:
            PermanentError: PACKAGE_NOT_FOUND; names those that are there.
        """
        obj = await self.kube.get(self.ref(name))
        if obj is not None:
            return Application.model_validate(obj)
        there = ", ".join(one.metadata.name for one in await self.applications()) or "none"
        raise PermanentError(
            Reason.PACKAGE_NOT_FOUND,
            f"there is no Application {name!r} in namespace {self.namespace!r}",
            hint=f"Applications there: {there}; another namespace: -n NAME, all: `windlass get -A`",
            actor=Actor.USER,
        )

    async def events(self, application: Application) -> list[Object]:
        """List the Events about an Application, oldest first."""
        found = await self.kube.list("events.k8s.io/v1", "Event", namespace=application.metadata.namespace)
        about = [one for one in found.items if (one.get("regarding") or {}).get("uid") == application.metadata.uid]
        return sorted(about, key=lambda one: str(one.get("eventTime") or ""))


@asynccontextmanager
async def cluster(namespace: str = "", data_dir: Path | None = None) -> AsyncGenerator[Cluster]:
    """Connect to the cluster of this command; ``namespace`` defaults to the kubeconfig's."""
    from windlass import __version__
    from windlass.adapters.kube.client import KubeClient

    context = Context.find(data_dir)
    client = KubeClient.from_kubeconfig(context.kubeconfig, user_agent=f"windlass-cli/{__version__}")
    async with client as kube:
        yield Cluster(context=context, kube=kube, namespace=namespace or kube.access.namespace)


def created(application: Application) -> datetime | None:
    """Return when the object was made."""
    stamp = application.metadata.creation_timestamp
    return datetime.fromisoformat(stamp) if stamp else None


def condition(application: Application, type_: str) -> tuple[str, str, str]:
    """Return status, reason and message of one condition; Unknown if there is none."""
    conditions = (application.status.conditions if application.status else None) or []
    for one in conditions:
        if one.type == type_:
            return one.status, one.reason, one.message
    return "Unknown", "", ""
