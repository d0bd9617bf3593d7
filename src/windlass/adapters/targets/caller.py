"""`ports.Targets` for commands: everything on the management cluster is done as whoever runs the command."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from windlass.adapters.kube.namespaces import ensure_namespace
from windlass.domain.errors import Actor, PermanentError, Reason
from windlass.domain.target import Target
from windlass.ports.kube import Kube
from windlass.ports.targets import Acting, Role


class CallerTargets:
    """Acts with one client and one kubeconfig, whatever account a target names.

    Args:
        kube: the caller's client.
        kubeconfig: the caller's kubeconfig file.
    """

    def __init__(self, kube: Kube, kubeconfig: Path) -> None:
        self._kube = kube
        self._kubeconfig = kubeconfig

    @asynccontextmanager
    async def acting(self, target: Target) -> AsyncGenerator[Acting]:
        """See `ports.Targets`.

        Raises:
            PermanentError: TARGET_REFUSED, the target is another cluster, which only workers reach.
        """
        if target.cluster is not None:
            raise PermanentError(
                Reason.TARGET_REFUSED,
                f"cluster {target.cluster_name} is reached by workers only",
                hint="use a kubeconfig of that cluster with kubectl and helm",
                actor=Actor.USER,
            )
        yield _Caller(target, self._kube, self._kubeconfig)

    @asynccontextmanager
    async def reader(self, target: Target) -> AsyncGenerator[Acting]:
        """See `ports.Targets`."""
        yield _Caller(target, self._kube, self._kubeconfig)

    def known(self, target: Target) -> bool:
        """See `ports.Targets`."""
        return target.cluster is None


class _Caller:
    def __init__(self, target: Target, kube: Kube, kubeconfig: Path) -> None:
        self._target = target
        self._kube = kube
        self._kubeconfig = kubeconfig

    @property
    def target(self) -> Target:
        return self._target

    @property
    def kubeconfig(self) -> Path:
        return self._kubeconfig

    def kubeconfig_text(self) -> str:
        return self._kubeconfig.read_text()

    async def kube(self, role: Role) -> Kube:
        del role
        return self._kube

    async def ensure_namespace(self) -> None:
        await ensure_namespace(self._kube, self._target.namespace)
