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
from windlass.cli.target import parse_target
from windlass.contracts.objects import PackageObject, parse_package
from windlass.domain.errors import Actor, PermanentError, Reason
from windlass.domain.ids import API_VERSION, DEFAULT_INSTALLATION, INSTALLATION_LABEL, Kind, PackageKey
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

    def key(self, text: str, namespace: str = "") -> PackageKey:
        """Name a package of this installation, in this command's namespace if it lives in one and none is given.

        Raises:
            PermanentError: as `windlass.cli.target.parse_target`.
        """
        target = parse_target(text)
        where = "" if target.kind is Kind.MODULE else namespace or self.namespace
        return PackageKey(installation=self.context.installation, kind=target.kind, namespace=where, name=target.name)

    def ref(self, text: str) -> ObjectRef:
        """Name a package's object; raises as `key`."""
        key = self.key(text)
        return ObjectRef(api_version=API_VERSION, kind=key.kind.value, namespace=key.namespace, name=key.name)

    def serves(self, package: PackageObject) -> bool:
        """Say whether a package belongs to this installation."""
        return package.installation == self.context.installation

    def labelled(self, document: Object) -> Object:
        """Return a package or repository as one of this installation unless it says otherwise; others as they are."""
        metadata: Object = document["metadata"]
        labels: Object = metadata.get("labels") or {}
        ours = document["apiVersion"] == API_VERSION and document["kind"] in {*Kind, "PackageRepository"}
        if not ours or INSTALLATION_LABEL in labels or self.context.installation == DEFAULT_INSTALLATION:
            return document
        labels = {**labels, INSTALLATION_LABEL: self.context.installation}
        return {**document, "metadata": {**metadata, "labels": labels}}

    async def packages(self, kind: Kind = Kind.APPLICATION, *, all_namespaces: bool = False) -> list[PackageObject]:
        """List this installation's packages of one kind, by namespace and name."""
        namespace = "" if all_namespaces or kind is Kind.MODULE else self.namespace
        found = await self.kube.list(API_VERSION, kind.value, namespace=namespace)
        mine = [one for item in found.items if self.serves(one := parse_package(kind, item))]
        return sorted(mine, key=lambda one: (one.metadata.namespace, one.metadata.name))

    async def package(self, text: str) -> PackageObject:
        """Read the object of one package, ``NAME`` or ``TYPE/NAME``.

        Raises:
            PermanentError: PACKAGE_NOT_FOUND, there is none (names those that are there), or it belongs to another
                installation; or as `key`.
        """
        key = self.key(text)
        where = f" in namespace {key.namespace!r}" if key.namespace else ""
        obj = await self.kube.get(self.ref(text))
        if obj is not None:
            package = parse_package(key.kind, obj)
            if self.serves(package):
                return package
            raise PermanentError(
                Reason.PACKAGE_NOT_FOUND,
                f"{key.kind.value} {key.name!r}{where} belongs to installation {package.installation!r}, "
                f"this command speaks for {self.context.installation!r}",
                hint=f"set WINDLASS_INSTALLATION={package.installation}",
                actor=Actor.USER,
            )
        there = ", ".join(one.metadata.name for one in await self.packages(key.kind)) or "none"
        elsewhere = "; another namespace: -n NAME, all: `windlass get -A`" if where else ""
        raise PermanentError(
            Reason.PACKAGE_NOT_FOUND,
            f"there is no {key.kind.value} {key.name!r}{where}",
            hint=f"{key.kind.value}s there: {there}{elsewhere}",
            actor=Actor.USER,
        )

    async def events(self, package: PackageObject) -> list[Object]:
        """List the Events about a package, oldest first; those about a cluster-wide object are in ``default``."""
        namespace = package.metadata.namespace or "default"
        found = await self.kube.list("events.k8s.io/v1", "Event", namespace=namespace)
        uid = package.metadata.uid
        about = [one for one in found.items if cast("Object", one.get("regarding") or {}).get("uid") == uid]
        return sorted(about, key=event_time)

    def release(self, package: PackageObject) -> ReleaseRef:
        """Return the package's release: the one in use, else the one it is going to have.

        Raises:
            PermanentError: TARGET_REFUSED, the package may not be where it wants to be, or it is on another cluster,
                which only workers reach.
        """
        from windlass.ports.helm import ReleaseRef

        placement, status = package.placement(), package.status
        if placement.target.cluster is not None:
            raise PermanentError(
                Reason.TARGET_REFUSED,
                f"{package.metadata.name} is on cluster {placement.target.cluster_name}, which workers alone reach",
                hint="look at it there, with a kubeconfig of that cluster",
                actor=Actor.USER,
            )
        name = status.release.name if status and status.release else placement.release
        return ReleaseRef(target=placement.target, name=name)

    async def released(self, package: PackageObject) -> list[tuple[ObjectRef, str]]:
        """List the objects of the newest stored release, each with its state: current, or what it waits for."""
        from windlass.adapters.helm import manifest
        from windlass.adapters.helm.storage import Storage
        from windlass.domain.lifecycle.readiness import State, status_of

        release = package.status.release if package.status else None
        if release is None:
            return []
        storage, ref = Storage(self.kube), self.release(package)
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


def created(package: PackageObject) -> datetime | None:
    """Return when the object was made."""
    stamp = package.metadata.creation_timestamp
    return datetime.fromisoformat(stamp) if stamp else None


def condition(package: PackageObject, type_: str) -> tuple[str, str, str]:
    """Return status, reason and message of one condition; Unknown if there is none."""
    conditions = (package.status.conditions if package.status else None) or []
    for one in conditions:
        if one.type == type_:
            return one.status, one.reason, one.message
    return "Unknown", "", ""
