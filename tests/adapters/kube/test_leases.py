"""One holder at a time, against the real API server."""

from __future__ import annotations

import asyncio
import time
from typing import Any, cast

import pytest

from support.waiting import PATIENCE, SOON, eventually
from windlass.adapters.kube.client import KubeClient
from windlass.adapters.kube.coordination.leases import LeaseLostError, held
from windlass.domain.errors import Reason, TransientError
from windlass.ports.kube import Kube, Object, ObjectRef

DURATION = 2.0
LONG = 4 * SOON
"""Of a lease that is not waited for."""


async def holder(kube: KubeClient, namespace: str) -> str:
    ref = ObjectRef(api_version="coordination.k8s.io/v1", kind="Lease", namespace=namespace, name="watcher")
    found = await kube.get(ref)
    return str(found["spec"].get("holderIdentity", "")) if found else ""


async def renewal(kube: KubeClient, namespace: str) -> str:
    ref = ObjectRef(api_version="coordination.k8s.io/v1", kind="Lease", namespace=namespace, name="watcher")
    found = await kube.get(ref)
    return str(found["spec"]["renewTime"]) if found else ""


class Contender:
    """Holds the lease in a task until it is told to stop."""

    def __init__(self, kube: Kube, namespace: str, identity: str, duration: float = DURATION) -> None:
        self.inside = asyncio.Event()
        self.leave = asyncio.Event()
        self.task = asyncio.create_task(self._run(kube, namespace, identity, duration))

    async def enters(self, within: float = PATIENCE) -> None:
        """Wait until it holds the lease."""
        await asyncio.wait_for(self.inside.wait(), within)

    async def _run(self, kube: Kube, namespace: str, identity: str, duration: float) -> None:
        async with held(kube, namespace, "watcher", identity, duration):
            self.inside.set()
            await self.leave.wait()


class Frail:
    """Passes everything on to a client until its writes are cut off."""

    def __init__(self, kube: KubeClient) -> None:
        self._kube = kube
        self.cut = False
        self.error: Exception = TransientError(Reason.API_UNAVAILABLE, "cut off")

    async def replace(self, obj: Object, *, subresource: str = "") -> Object:
        if self.cut:
            raise self.error
        return await self._kube.replace(obj, subresource=subresource)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._kube, name)


async def test_a_released_lease_passes_on_at_once(kube: KubeClient, namespace: str) -> None:
    first = Contender(kube, namespace, "a", duration=LONG)
    await first.enters()
    second = Contender(kube, namespace, "b", duration=LONG)
    await asyncio.sleep(0.3)
    assert not second.inside.is_set()
    first.leave.set()
    await first.task
    await second.enters(SOON)
    assert await holder(kube, namespace) == "b"
    second.leave.set()
    await second.task
    assert await holder(kube, namespace) == ""


async def test_it_is_renewed_for_as_long_as_it_is_held(kube: KubeClient, namespace: str) -> None:
    first = Contender(kube, namespace, "a", duration=3)
    await first.enters()
    second = Contender(kube, namespace, "b", duration=3)
    seen = {await renewal(kube, namespace)}

    async def renewed() -> bool:
        seen.add(await renewal(kube, namespace))
        return len(seen) > 5  # three renewals are a duration

    await eventually(renewed)
    assert not second.inside.is_set()
    assert await holder(kube, namespace) == "a"
    for contender in (second, first):
        contender.task.cancel()
    await asyncio.gather(first.task, second.task, return_exceptions=True)


async def test_who_cannot_renew_stops_before_the_next_one_starts(kube: KubeClient, namespace: str) -> None:
    frail = Frail(kube)
    first = Contender(cast("Kube", frail), namespace, "a")
    await first.enters()
    second = Contender(kube, namespace, "b")
    frail.cut = True
    stopped: list[float] = []
    first.task.add_done_callback(lambda _: stopped.append(time.monotonic()))
    await second.enters()
    started = time.monotonic()
    with pytest.raises(LeaseLostError, match="cannot be renewed"):
        await first.task
    assert stopped[0] < started
    second.leave.set()
    await second.task


async def test_a_renewal_that_fails_unexpectedly_ends_the_body(kube: KubeClient, namespace: str) -> None:
    frail = Frail(kube)
    first = Contender(cast("Kube", frail), namespace, "a")
    await first.enters()
    frail.error = RuntimeError("an answer nobody thought of")
    frail.cut = True
    with pytest.raises(LeaseLostError, match="RuntimeError: an answer nobody thought of"):
        await asyncio.wait_for(first.task, PATIENCE)


async def test_somebody_elses_write_ends_the_body(kube: KubeClient, namespace: str) -> None:
    first = Contender(kube, namespace, "a")
    await first.enters()
    ref = ObjectRef(api_version="coordination.k8s.io/v1", kind="Lease", namespace=namespace, name="watcher")
    await kube.patch(ref, {"spec": {"holderIdentity": "thief"}}, kind="merge")
    with pytest.raises(LeaseLostError, match="somebody else"):
        await asyncio.wait_for(first.task, PATIENCE)
    assert await holder(kube, namespace) == "thief"  # it is not ours to give back


async def test_our_own_lease_from_before_a_restart_is_taken_at_once(kube: KubeClient, namespace: str) -> None:
    frail = Frail(kube)
    first = Contender(cast("Kube", frail), namespace, "a", duration=LONG)
    await first.enters()
    frail.cut = True  # it dies without giving the lease back
    first.task.cancel()
    await asyncio.gather(first.task, return_exceptions=True)
    assert await holder(kube, namespace) == "a"
    second = Contender(kube, namespace, "a", duration=LONG)
    await second.enters(SOON)
    second.leave.set()
    await second.task


async def test_a_cancel_from_outside_stays_a_cancel(kube: KubeClient, namespace: str) -> None:
    first = Contender(kube, namespace, "a")
    await first.enters()
    first.task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first.task
    await eventually(lambda: _free(kube, namespace))


async def _free(kube: KubeClient, namespace: str) -> bool:
    return await holder(kube, namespace) == ""


async def test_a_namespace_that_is_absent_is_told(kube: KubeClient) -> None:
    with pytest.raises(TransientError, match="absent-for-ever"):
        async with held(kube, "absent-for-ever", "watcher", "a"):
            pass
