"""One cluster as one identity: its clients and its kubeconfig file, shared by all packages that act so."""

from __future__ import annotations

import asyncio
import os
import time
import uuid
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

from windlass import __version__
from windlass.adapters.kube.answers import AnswerLimits
from windlass.adapters.kube.client import KubeClient
from windlass.adapters.kube.discovery import Discovery
from windlass.adapters.kube.kubeconfig import ApiAccess
from windlass.adapters.kube.namespaces import ensure_namespace
from windlass.adapters.kube.ratelimit import TokenBucket
from windlass.adapters.kube.transport import Transport
from windlass.adapters.targets.guard import GuardedResolver
from windlass.adapters.targets.kubeconfig import render, with_token
from windlass.domain.target import Target
from windlass.ports.kube import Kube
from windlass.ports.targets import Role

REQUESTS_PER_SECOND: Final[Mapping[Role, float]] = {
    Role.INPUTS: 100,
    Role.HELM: 500,
    Role.READINESS: 500,
    Role.DRIFT: 100,
    Role.HOOKS: 20,  # the object patcher of the protocol allows 5
    Role.WATCHES: 20,
}
"""Rates of the clients of one identity; twice as many are free in a burst."""


class Identity:
    """Clients by role, opened when they are first used.

    Args:
        access: address and inline credentials.
        folder: for the kubeconfig file.
        discovery: of a client that outlives this one; None to ask the cluster.
        limits: how much is read of answers; None for the usual.
        guarded: whether the name of the server must not resolve to a local address.
        whom: as whom it acts, for texts of refusals.
    """

    def __init__(
        self,
        access: ApiAccess,
        folder: Path,
        *,
        whom: str,
        discovery: Discovery | None = None,
        limits: AnswerLimits | None = None,
        guarded: bool = False,
    ) -> None:
        self.users = 0
        self.idle_since = 0.0
        self.renew_at = float("inf")
        self.doubted = False
        self.checked_at = float("-inf")
        self.account_uid = ""
        self.made_at = float("-inf")
        self._access = access
        self._discovery = discovery
        self._limits = limits
        self._guarded = guarded
        self._whom = whom
        self._path = folder / f"{uuid.uuid4().hex}.kubeconfig"
        self._written = ""
        self._clients: dict[Role, KubeClient] = {}
        self._opening = asyncio.Lock()
        self._stack = AsyncExitStack()

    async def kube(self, role: Role) -> KubeClient:
        """Return the client of one role."""
        if role not in self._clients:
            async with self._opening:
                if role not in self._clients:
                    self._clients[role] = await self._opened(role)
        return self._clients[role]

    async def _opened(self, role: Role) -> KubeClient:
        qps = REQUESTS_PER_SECOND[role]
        transport = Transport(
            self._access,
            bucket=TokenBucket(qps, int(2 * qps), clock=time.monotonic),
            user_agent=f"windlass-{role.value}/{__version__}",
            clock=time.monotonic,
            resolver=GuardedResolver() if self._guarded else None,
            whom=self._whom,
            limits=self._limits,
        )
        client = KubeClient(transport, discovery=self._discovery)
        await self._stack.enter_async_context(client)
        self._discovery = self._discovery or client.discovery
        return client

    def use_token(self, token: str, renew_at: float) -> None:
        """Act with this token from now on."""
        self._access = with_token(self._access, token)
        for client in self._clients.values():
            client.use_token(token)
        self.renew_at, self.doubted = renew_at, False
        if self._written:
            self._write()

    @property
    def kubeconfig(self) -> Path:
        """The kubeconfig file, written when it is first asked for."""
        if not self._written:
            self._write()
        return self._path

    def kubeconfig_text(self, namespace: str) -> str:
        """Return the text of a kubeconfig with this namespace."""
        return render(self._access, namespace)

    async def close(self) -> None:
        """End every connection and remove the file."""
        await self._stack.aclose()
        self._clients.clear()
        if self._written:
            self._path.unlink(missing_ok=True)

    def _write(self) -> None:
        """Put the file in place as a whole: child processes read it at any time."""
        text = render(self._access)
        new = self._path.with_suffix(".new")
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.write(text)
        new.replace(self._path)
        self._written = text


class ActingAs:
    """`ports.Acting` over one identity."""

    def __init__(self, target: Target, identity: Identity) -> None:
        self._target = target
        self._identity = identity

    @property
    def target(self) -> Target:
        """See `ports.Acting`."""
        return self._target

    @property
    def kubeconfig(self) -> Path:
        """See `ports.Acting`."""
        return self._identity.kubeconfig

    def kubeconfig_text(self) -> str:
        """See `ports.Acting`."""
        return self._identity.kubeconfig_text(self._target.namespace)

    async def kube(self, role: Role) -> Kube:
        """See `ports.Acting`."""
        return await self._identity.kube(role)

    async def ensure_namespace(self) -> None:
        """See `ports.Acting`."""
        await ensure_namespace(await self.kube(Role.HELM), self._target.namespace)
