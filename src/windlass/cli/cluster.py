"""What the commands read from the cluster."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from windlass.cli.context import Context
from windlass.contracts.objects import Application
from windlass.domain.errors import Actor, PermanentError, Reason
from windlass.domain.ids import API_VERSION, DEFAULT_INSTALLATION, INSTALLATION_LABEL, PackageKey
from windlass.ports.helm import ReleaseRef
from windlass.ports.kube import ObjectRef

if TYPE_CHECKING:
    from windlass.adapters.kube.client import KubeClient

type Object = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """The cluster and installation that a command works on."""

    context: Context
    kube: KubeClient
    namespace: str

    def key(self, name: str, namespace: str = "") -> PackageKey:
        """Name an Application of this installation, in this command's namespace if none is given."""
        installation = self.context.installation
        return PackageKey(installation=installation, namespace=namespace or self.namespace, name=name)

    def ref(self, name: str) -> ObjectRef:
        """Name an Application's object."""
        return ObjectRef(api_version=API_VERSION, kind="Application", namespace=self.namespace, name=name)

    def serves(self, application: Application) -> bool:
        """Say whether an Application belongs to this installation."""
        label = application.metadata.labels.get(INSTALLATION_LABEL, DEFAULT_INSTALLATION)
        return label == self.context.installation

    def labelled(self, document: Object) -> Object:
        """Return an Application that says nothing else as one of this installation; other objects as they are."""
        metadata: Object = document["metadata"]
        labels: Object = metadata.get("labels") or {}
        ours = document["apiVersion"] == API_VERSION and document["kind"] == "Application"
        if not ours or INSTALLATION_LABEL in labels or self.context.installation == DEFAULT_INSTALLATION:
            return document
        labels = {**labels, INSTALLATION_LABEL: self.context.installation}
        return {**document, "metadata": {**metadata, "labels": labels}}

    async def applications(self, *, all_namespaces: bool = False) -> list[Application]:
        """List this installation's Applications, by namespace and name."""
        found = await self.kube.list(API_VERSION, "Application", namespace="" if all_namespaces else self.namespace)
        mine = [one for item in found.items if self.serves(one := Application.model_validate(item))]
        return sorted(mine, key=lambda one: (one.metadata.namespace, one.metadata.name))

    async def application(self, name: str) -> Application:
        """Read one Application.

        Raises:
            PermanentError: PACKAGE_NOT_FOUND, there is none (names those that are there), or it belongs to another
                installation.
        """
        obj = await self.kube.get(self.ref(name))
        if obj is not None:
            application = Application.model_validate(obj)
            if self.serves(application):
                return application
            other = application.metadata.labels.get(INSTALLATION_LABEL, DEFAULT_INSTALLATION)
            raise PermanentError(
                Reason.PACKAGE_NOT_FOUND,
                f"Application {name!r} in namespace {self.namespace!r} belongs to installation {other!r}, "
                f"this command speaks for {self.context.installation!r}",
                hint=f"set WINDLASS_INSTALLATION={other}",
                actor=Actor.USER,
            )
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
        uid = application.metadata.uid
        about = [one for one in found.items if cast("Object", one.get("regarding") or {}).get("uid") == uid]
        return sorted(about, key=event_time)

    async def released(self, application: Application) -> list[tuple[ObjectRef, str]]:
        """List the objects of the newest stored release, each with its state: current, or what it waits for."""
        from windlass.adapters.helm import manifest
        from windlass.adapters.helm.storage import Storage
        from windlass.domain.readiness import State, status_of

        release = application.status.release if application.status else None
        if release is None:
            return []
        storage = Storage(self.kube)
        ref = ReleaseRef(namespace=release.namespace, name=release.name)
        history = await storage.history(ref)
        record = await storage.read(ref, history[-1].number) if history else None
        if record is None:
            return []
        refs = await manifest.locate(record.entries, release.namespace, self.kube)

        async def state(one: ObjectRef) -> str:
            obj = await self.kube.get(one)
            if obj is None:
                return "absent"
            found = status_of(obj)
            return found.state.value if found.state is State.CURRENT else f"{found.state.value}: {found.message}"

        return list(zip(refs, await asyncio.gather(*(state(one) for one in refs)), strict=True))


@asynccontextmanager
async def cluster(namespace: str = "", data_dir: Path | None = None) -> AsyncGenerator[Cluster]:
    """Connect to the cluster of this command; ``namespace`` defaults to the kubeconfig's."""
    from windlass import __version__
    from windlass.adapters.kube.client import KubeClient

    context = Context.find(data_dir)
    client = KubeClient.from_kubeconfig(context.kubeconfig, user_agent=f"windlass-cli/{__version__}")
    async with client as kube:
        yield Cluster(context=context, kube=kube, namespace=namespace or kube.access.namespace)


def event_time(event: Object) -> str:
    """Return when an Event was last seen; empty if it does not say. Older recorders leave ``eventTime`` out."""
    series = cast("Object", event.get("series") or {})
    times = (series.get("lastObservedTime"), event.get("eventTime"), event.get("deprecatedLastTimestamp"))
    return next((str(one) for one in times if one), "")


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
