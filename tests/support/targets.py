"""Targets for tests of adapters and activities."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from support.fake_kube import FakeKube
from windlass.domain.errors import WindlassError
from windlass.domain.target import APPLICATION_ACCOUNT, Account, Placement, Target
from windlass.ports.targets import Role


def at_home(namespace: str) -> Target:
    """The default target of an Application of ``namespace``."""
    return Target(account=Account(namespace=namespace, name=APPLICATION_ACCOUNT), namespace=namespace)


def placed(namespace: str, release: str) -> Placement:
    """The default placement of an Application whose release has this name."""
    return Placement(target=at_home(namespace), release=release)


@dataclass
class FakeActing:
    target: Target
    owner: FakeTargets

    @property
    def kubeconfig(self) -> Path:
        return Path("/kubeconfig")

    def kubeconfig_text(self) -> str:
        return f"kubeconfig of {self.target.whom}"

    async def kube(self, role: Role) -> FakeKube:
        assert role in Role
        return self.owner.kube

    async def ensure_namespace(self) -> None:
        self.owner.namespaces.append(self.target.namespace)


@dataclass
class FakeTargets:
    """Every target is the one cluster in memory; `acted` says as what it was used."""

    kube: FakeKube
    acted: list[Target] = field(default_factory=list[Target])
    namespaces: list[str] = field(default_factory=list[str])
    failure: WindlassError | None = None

    @asynccontextmanager
    async def acting(self, target: Target) -> AsyncGenerator[FakeActing]:
        if self.failure is not None:
            raise self.failure
        self.acted.append(target)
        yield FakeActing(target, self)

    @asynccontextmanager
    async def reader(self, target: Target) -> AsyncGenerator[FakeActing]:
        async with self.acting(target) as acting:
            yield acting

    def known(self, target: Target) -> bool:
        return target in self.acted
