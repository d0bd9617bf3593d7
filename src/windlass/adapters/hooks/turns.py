"""Turns of hook processes: so many at a time, and so many of one package."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager


class Turns:
    """Lets ``total`` at a time work, of one package ``each``; who waits for its package takes no place of another."""

    def __init__(self, total: int, each: int) -> None:
        self._total = asyncio.Semaphore(total)
        self._each = each
        self._packages: dict[str, tuple[asyncio.Semaphore, int]] = {}

    @asynccontextmanager
    async def taken(self, package: str) -> AsyncGenerator[None]:
        """Work for ``package`` while the block runs."""
        own, users = self._packages.get(package, (asyncio.Semaphore(self._each), 0))
        self._packages[package] = own, users + 1
        try:
            async with own, self._total:
                yield
        finally:
            own, users = self._packages.pop(package)
            if users > 1:
                self._packages[package] = own, users - 1
