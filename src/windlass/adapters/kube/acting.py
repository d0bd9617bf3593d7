"""Lists and watches with the rights of a package's hooks, whose tokens are renewed before they expire."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, aclosing
from typing import Any, Final

from windlass.adapters.kube.client import KubeClient
from windlass.ports.hooks import HookAccess
from windlass.ports.kube import ObjectList, WatchEvent

REQUESTS_PER_SECOND: Final = 20.0
"""Lists and watches of one package's hooks; a burst of twice as many is free."""


class ActingKube:
    """`ports.ListWatch` as a package's hook account; closed by whoever made it.

    A watch goes on with the token it was begun with: the API server ends each within minutes.
    """

    def __init__(self, access: HookAccess, namespace: str, account: str, *, cluster_wide: bool) -> None:
        self._access = access
        self._namespace = namespace
        self._account = account
        self._cluster_wide = cluster_wide
        self._kubeconfig = ""
        self._client: KubeClient | None = None
        self._clients = AsyncExitStack()

    async def list(self, api_version: str, kind: str, **selection: Any) -> ObjectList:
        """List; see `ports.Kube`."""
        client = await self._current()
        return await client.list(api_version, kind, **selection)

    async def watch(
        self, api_version: str, kind: str, *, resource_version: str, **selection: Any
    ) -> AsyncGenerator[WatchEvent]:
        """Stream changes; see `ports.Kube`."""
        client = await self._current()
        stream = client.watch(api_version, kind, resource_version=resource_version, **selection)
        async with aclosing(stream):
            async for event in stream:
                yield event

    async def close(self) -> None:
        """End every connection; streams that are read must have been closed before."""
        self._client = None
        await self._clients.aclose()

    async def _current(self) -> KubeClient:
        kubeconfig = await self._access.kubeconfig(self._namespace, self._account, cluster_wide=self._cluster_wide)
        if self._client is None or kubeconfig != self._kubeconfig:
            client = KubeClient.from_kubeconfig(
                kubeconfig,
                qps=REQUESTS_PER_SECOND,
                burst=int(2 * REQUESTS_PER_SECOND),
                user_agent="windlass-hook-watches",
            )
            # Those before it stay open until the end: streams may still run over them. One an hour comes along.
            self._client = await self._clients.enter_async_context(client)
            self._kubeconfig = kubeconfig
        return self._client
