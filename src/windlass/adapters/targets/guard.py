"""Keeps clients of foreign clusters away from addresses that only this machine can reach."""

from __future__ import annotations

import socket
from typing import override

from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.resolver import ThreadedResolver

from windlass.adapters.targets.kubeconfig import is_local


class LocalAddressError(OSError):
    """A name resolves to a loopback or link-local address."""


class GuardedResolver(AbstractResolver):
    """Resolves as the system does and refuses names of local addresses at every connect."""

    def __init__(self) -> None:
        self._system = ThreadedResolver()

    @override
    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Return the addresses of ``host``.

        Raises:
            LocalAddressError: one of them is local; the others are not used either.
        """
        found = await self._system.resolve(host, port, family)
        if any(is_local(one["host"].partition("%")[0]) for one in found):
            raise LocalAddressError(f"{host} is a loopback or link-local address")
        return found

    @override
    async def close(self) -> None:
        """Do nothing: there is nothing to close."""
