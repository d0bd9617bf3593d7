"""How much of the answers of API servers is read."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

import aiohttp

VERSION: Final = "/version"
VERSION_BYTES: Final = 64 << 10
"""The largest answer to the question whether a server is there."""


@dataclass
class Budget:
    """Bytes of answers that several clients may hold at a time while they read; ``used`` of ``limit``."""

    limit: int
    used: int = 0


@dataclass(frozen=True, kw_only=True)
class AnswerLimits:
    """Bounds for one client.

    Attributes:
        answer: bytes of one answer, unpacked.
        listed: bytes of all pages of a list together.
        budget: shared with other clients.
    """

    answer: int = 512 << 20
    listed: int = 2 << 30
    budget: Budget = field(default_factory=lambda: Budget(2 << 30))

    @asynccontextmanager
    async def counted(self) -> AsyncGenerator[Callable[[int], bool]]:
        """Count the pages of a list while the context is open; the function says whether there may be as many bytes."""
        size = 0

        def count(more: int) -> bool:
            nonlocal size
            size += more
            self.budget.used += more
            return size <= self.listed and self.budget.used <= self.budget.limit

        try:
            yield count
        finally:
            self.budget.used -= size


class EndlessAnswerError(Exception):
    """There is more of an answer than is read."""


async def whole(response: aiohttp.ClientResponse, most: int, budget: Budget) -> bytes:
    """Read an answer of at most ``most`` bytes.

    Raises:
        EndlessAnswerError: it is larger, or all that share ``budget`` read more than that at the same time.
    """
    chunks: list[bytes] = []
    size = 0
    try:
        async for chunk in response.content.iter_any():  # unpacked: this bounds what was compressed, too
            chunks.append(chunk)
            size += len(chunk)
            budget.used += len(chunk)
            if size > most or budget.used > budget.limit:
                response.close()
                raise EndlessAnswerError
        return b"".join(chunks)
    finally:
        budget.used -= size
