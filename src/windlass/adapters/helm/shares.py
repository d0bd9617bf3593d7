"""How many Helm processes may work on other clusters at a time.

Whoever may create Applications chooses the server of their kubeconfigs, and a server that does not answer keeps a Helm
process busy until its time is over. So one process is always left to the own cluster, and the packages of one namespace
get at most half of them for all their other clusters together.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from weakref import WeakValueDictionary

from windlass.domain.target import Target


class Shares:
    """Holds operations on other clusters back until their share is free; those on the own cluster pass.

    Args:
        processes: how many there are.
    """

    def __init__(self, processes: int) -> None:
        self._each = max(1, processes // 2)
        self._others = asyncio.Semaphore(max(1, processes - 1))
        self._namespaces: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    @asynccontextmanager
    async def taken(self, target: Target) -> AsyncGenerator[None]:
        """Wait for a share of the target's namespace and keep it while the context is open."""
        if target.cluster is None:
            yield
            return
        mine = self._namespaces.setdefault(target.account.namespace, asyncio.Semaphore(self._each))
        async with mine, self._others:
            yield
