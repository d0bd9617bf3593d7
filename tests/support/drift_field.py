"""A drift service over a cluster that is made up, in which accounts may watch only what a test lets them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from support.fake_kube import FakeKube
from support.targets import FakeActing, FakeTargets, at_home
from support.waiting import eventually
from windlass.contracts.lifecycle import Quarantined, ReleaseDrifted
from windlass.domain.drift.watching import Limits
from windlass.domain.errors import Actor, PermanentError, Reason
from windlass.domain.ids import API_VERSION, Kind, PackageKey, shard_of
from windlass.domain.lifecycle.releases import DEPLOYED
from windlass.domain.target import Target
from windlass.observers.border import Border
from windlass.observers.drift import monitor as drift
from windlass.observers.drift.monitor import DriftService
from windlass.observers.quarantine import Quarantine
from windlass.observers.shard import Shard
from windlass.ports.helm import Manifest, Release, ReleaseRef
from windlass.ports.kube import Object, ObjectList, ObjectRef
from windlass.ports.targets import Role

MANAGED = {"app.kubernetes.io/managed-by": "Helm"}
SHARDS = 4


def config_map(name: str) -> ObjectRef:
    return ObjectRef(api_version="v1", kind="ConfigMap", namespace="prod", name=name)


def body(ref: ObjectRef) -> Object:
    metadata = {"name": ref.name, "namespace": ref.namespace, "labels": MANAGED}
    return {"apiVersion": ref.api_version, "kind": ref.kind, "metadata": metadata, "data": {"a": "b"}}


def key(name: str) -> PackageKey:
    return PackageKey(installation="windlass", kind=Kind.APPLICATION, namespace="prod", name=name)


def shard(number: int) -> Shard:
    return Shard(installation="windlass", number=number, count=SHARDS)


def name_in(number: int, prefix: str = "web") -> str:
    """Return the name of a package in this shard."""
    return next(name for n in range(1000) if shard_of(key(name := f"{prefix}-{n}"), SHARDS) == number)


class Cluster(FakeKube):
    """Applies data and nothing else, as far as dry runs go."""

    async def apply(self, obj: Object, *, dry_run: bool = False, **more: Any) -> Object:
        if not dry_run:
            return await super().apply(obj, **more)
        ref = ObjectRef(
            api_version=obj["apiVersion"],
            kind=obj["kind"],
            namespace=obj["metadata"].get("namespace", ""),
            name=obj["metadata"]["name"],
        )
        found = self.peek(ref)
        assert found is not None
        return {**found, "data": obj["data"]}


class Watcher:
    """The cluster as one account sees it."""

    def __init__(self, target: Target, owner: Accounts) -> None:
        self._account, self._owner = target.account.name, owner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._owner.kube, name)

    async def list(self, api_version: str, kind: str, *, namespace: str = "", **more: Any) -> ObjectList:
        asked = (self._account, kind, namespace)
        self._owner.listed.append(asked)
        if asked[:2] in self._owner.forbidden:
            raise PermanentError(Reason.FORBIDDEN, f"{self._account} cannot list {kind}", actor=Actor.ADMIN)
        return await self._owner.kube.list(api_version, kind, namespace=namespace, **more)

    async def get(self, ref: ObjectRef) -> Object | None:
        if (self._account, ref.namespace) in self._owner.strangers:
            raise PermanentError(Reason.FORBIDDEN, f"{self._account} cannot get {ref}", actor=Actor.ADMIN)
        return await self._owner.kube.get(ref)


@dataclass
class _As(FakeActing):
    async def kube(self, role: Role) -> Any:
        await super().kube(role)
        assert isinstance(self.owner, Accounts)
        return Watcher(self.target, self.owner)


@dataclass
class Accounts(FakeTargets):
    """Accounts of one cluster; ``forbidden`` are account and kind, ``strangers`` account and namespace."""

    forbidden: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    strangers: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    listed: list[tuple[str, str, str]] = field(default_factory=list[tuple[str, str, str]])

    @asynccontextmanager
    async def acting(self, target: Target) -> AsyncGenerator[FakeActing]:
        self.acted.append(target)
        yield _As(target, self)


@dataclass
class Releases:
    """Stored manifests, by release name; an exception stands for one that cannot be read."""

    stored: dict[str, Manifest | Exception] = field(default_factory=dict[str, Manifest | Exception])
    asked: list[str] = field(default_factory=list[str])

    async def manifest(self, ref: ReleaseRef) -> Manifest | None:
        self.asked.append(ref.name)
        found = self.stored.get(ref.name)
        if isinstance(found, Exception):
            raise found
        return found


@dataclass
class Told:
    """Lifecycles that keep what they are told."""

    drifted: list[str] = field(default_factory=list[str])
    unwatched: dict[str, str] = field(default_factory=dict[str, str])
    broken: dict[str, list[str]] = field(default_factory=dict[str, list[str]])

    async def release_drifted(self, key: PackageKey, message: ReleaseDrifted) -> bool:
        if message.compare:
            self.drifted.append(key.name)
        self.unwatched[key.name] = message.unwatched
        return True

    async def quarantined(self, key: PackageKey, message: Quarantined) -> bool:
        self.broken[key.name] = [part.reason for part in message.parts]
        return True


@dataclass
class Field:
    """A drift service over a cluster that is made up."""

    kube: Cluster
    releases: Releases
    told: Told
    service: DriftService
    accounts: Accounts
    left: dict[int, AsyncExitStack] = field(default_factory=dict[int, AsyncExitStack])

    def package(
        self, name: str, *objects: str | ObjectRef, fault: Exception | None = None, target: Target | None = None
    ) -> None:
        """Put a package with an installed release of some objects; a name is that of a ConfigMap."""
        status = {"phase": "Running", "release": {"name": name, "namespace": "prod", "revision": 1}}
        spec: Object = {"package": {"repository": "r", "name": "p", "version": "1.0.0"}}
        if target is not None and target.cluster is not None:
            spec["target"] = {"cluster": {"kubeconfigSecret": {"name": target.cluster.name}}}
        elif target is not None:
            spec["target"] = {"serviceAccountName": target.account.name}
        metadata = {"name": name, "namespace": "prod"}
        named = [config_map(one) if isinstance(one, str) else one for one in objects]
        refs = {ref: body(ref) for ref in named}
        for obj in refs.values():
            self.kube.put(obj)
        ref = ReleaseRef(target=target or at_home("prod"), name=name)
        release = Release(ref=ref, revision=1, status=DEPLOYED, chart_version="1.0.0")
        self.releases.stored[ref.name] = fault or Manifest(release=release, objects=refs)
        self.kube.put(
            {"apiVersion": API_VERSION, "kind": "Application", "metadata": metadata, "spec": spec, "status": status}
        )

    async def serve(self, number: int) -> None:
        self.left[number] = AsyncExitStack()
        await self.left[number].enter_async_context(self.service.serving(shard(number)))

    async def give_up(self, number: int) -> None:
        await self.left.pop(number).aclose()

    def ref(self, name: str) -> ObjectRef:
        """Name a package's object."""
        return ObjectRef(api_version=API_VERSION, kind="Application", namespace="prod", name=name)

    def known(self) -> set[str]:
        """The packages that are looked after."""
        return {one.name for one in self.service.packages}

    def watched(self) -> set[str]:
        """The kinds that are watched because releases have objects of them."""
        return {kind for _, kind in self.service.kinds}

    async def compared(self, *names: str) -> None:
        """Wait until the releases have been compared as a whole."""
        await eventually(lambda: set(names) <= set(self.releases.asked))


@asynccontextmanager
async def laid_out(monkeypatch: pytest.MonkeyPatch, limits: Limits | None = None) -> AsyncIterator[Field]:
    """Give a service that begins to compare at once."""
    monkeypatch.setattr(drift, "SETTLE", 0.02)
    monkeypatch.setattr(drift, "ARRIVALS", 0.01)
    kube, releases, told = Cluster(), Releases(), Told()
    kube.serve(API_VERSION, "Module", namespaced=False)
    quarantine = Quarantine(told, "worker")
    border = Border(quarantine, lambda _: None)
    accounts = Accounts(kube)
    parts: dict[str, Any] = {"kube": kube, "targets": accounts, "helm": releases, "lifecycles": told}
    service = DriftService(**parts, border=border, quarantine=quarantine, limits=limits or Limits())
    made = Field(kube, releases, told, service, accounts)
    yield made
    for number in list(made.left):
        await made.give_up(number)
