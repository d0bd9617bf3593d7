"""Access to the clusters of packages, as the identities of packages."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from windlass.domain.target import Target
from windlass.ports.kube import Kube


class Role(StrEnum):
    """What a client is for. Each role of an identity has its own connections and its own rate limit."""

    INPUTS = "inputs"
    HELM = "helm"
    READINESS = "readiness"
    DRIFT = "drift"
    HOOKS = "hooks"
    WATCHES = "hook-watches"
    INSPECT = "inspect"


class Acting(Protocol):
    """One cluster as one identity, for as long as `Targets.acting` is open."""

    @property
    def target(self) -> Target:
        """The target this was opened for."""
        ...

    @property
    def kubeconfig(self) -> Path:
        """A kubeconfig file for child processes (mode 0600); it is replaced when the token is renewed."""
        ...

    def kubeconfig_text(self) -> str:
        """Return the text of a kubeconfig whose namespace is the target's."""
        ...

    async def kube(self, role: Role) -> Kube:
        """Return the client of one role; it must not be used after `Targets.acting` has been closed."""
        ...

    async def ensure_namespace(self) -> None:
        """Create the target's namespace unless it exists.

        Raises:
            TransientError, PermanentError: FORBIDDEN or whatever else keeps it from being created.
        """
        ...


class Targets(Protocol):
    """Turns targets into clients and kubeconfigs."""

    def acting(self, target: Target) -> AbstractAsyncContextManager[Acting]:
        """Act in the target's cluster as the target's identity.

        Raises:
            TransientError: IDENTITY_MISSING, the account or the Secret does not exist; CLUSTER_UNREACHABLE, the cluster
                does not answer, without waiting for it while it is known not to.
            PermanentError: KUBECONFIG_INVALID, names the field that is refused; FORBIDDEN, names who may not do what.
        """
        ...

    def reader(self, target: Target) -> AbstractAsyncContextManager[Acting]:
        """Act on the management cluster as the target's account: for what an object refers to by name.

        Raises:
            TransientError, PermanentError: as `acting`.
        """
        ...

    def known(self, target: Target) -> bool:
        """Say whether this process has acted as this identity of the management cluster and can do so right away."""
        ...
