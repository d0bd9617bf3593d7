"""Other clusters never use up the Helm processes."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

from support.targets import at_home
from windlass.adapters.helm.shares import Shares
from windlass.domain.target import Kubeconfig, Target

PROCESSES = 4


def abroad(namespace: str, cluster: str = "one") -> Target:
    return Target(account=at_home(namespace).account, cluster=Kubeconfig(name=cluster), namespace="default")


async def taken(shares: Shares, held: AsyncExitStack, *targets: Target) -> int:
    """Take as many shares as there are without waiting; return how many that were."""
    count = 0
    for target in targets:
        waiting = asyncio.ensure_future(held.enter_async_context(shares.taken(target)))
        done, _ = await asyncio.wait([waiting], timeout=0.01)
        count += len(done)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
    return count


async def test_one_namespace_gets_half_for_all_its_clusters() -> None:
    shares = Shares(PROCESSES)
    async with AsyncExitStack() as held:
        clusters = [abroad("mine", f"cluster-{number}") for number in range(10)]
        assert await taken(shares, held, *clusters) == PROCESSES // 2


async def test_all_namespaces_leave_one_to_the_own_cluster() -> None:
    shares = Shares(PROCESSES)
    async with AsyncExitStack() as held:
        assert await taken(shares, held, *(abroad(f"team-{number}") for number in range(10))) == PROCESSES - 1


async def test_the_own_cluster_never_waits() -> None:
    shares = Shares(1)
    async with AsyncExitStack() as held:
        assert await taken(shares, held, abroad("mine"), *(at_home("mine") for _ in range(10))) == 11


async def test_a_share_is_given_back() -> None:
    shares = Shares(PROCESSES)
    for _ in range(10):
        async with AsyncExitStack() as held:
            assert await taken(shares, held, abroad("mine"), abroad("mine")) == 2
