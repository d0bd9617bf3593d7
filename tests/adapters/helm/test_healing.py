"""Operations killed in the middle, seen there, and what the next call makes of it."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest
from adapters.helm.scenes import FIRST, SECOND, Charts, Cluster, Requests, config_map, many, running

from support.waiting import SOON, eventually
from windlass.adapters.helm.client import HelmClient
from windlass.adapters.helm.record import decode
from windlass.adapters.helm.storage import secret_ref
from windlass.domain.errors import PermanentError, TransientError
from windlass.ports.helm import ReleaseOutcome, ReleaseRef, ReleaseRequest

pytestmark = pytest.mark.stack

WIDE = 150
"""ConfigMaps in a chart whose operation is to be caught in the middle: at least half a second of work."""


async def caught(
    helm: HelmClient, cluster: Cluster, request: ReleaseRequest, status: str, made: str
) -> tuple[asyncio.Task[ReleaseOutcome], int]:
    """Start the request and return once its release is seen in ``status`` and the ConfigMap ``made`` exists."""
    task = asyncio.create_task(helm.upgrade(request))

    async def seen() -> bool:
        assert not task.done(), f"it ended before it could be caught: {task}"
        return await cluster.status() == status and await cluster.config_map(made) is not None

    await eventually(seen, every=0.01)
    (pid,) = helm.busy_children
    return task, pid


async def cancelled(task: asyncio.Task[ReleaseOutcome], pid: int) -> None:
    started = time.monotonic()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    took = time.monotonic() - started
    assert not running(pid)
    assert took < SOON
    print(f"cancelled after {took * 1000:.0f} ms")  # noqa: T201 - a figure for the report of the run


async def crashed(task: asyncio.Task[ReleaseOutcome], pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(TransientError, match="died during"):
        await task


type End = Callable[[asyncio.Task[ReleaseOutcome], int], Awaitable[None]]


@pytest.mark.parametrize("end", [cancelled, crashed])
async def test_a_killed_install_goes_on_over_its_own_objects(
    helm: HelmClient, cluster: Cluster, chart: Charts, request_for: Requests, end: End
) -> None:
    request = request_for(chart(config_map("a-first"), many(WIDE)), value="1")
    task, pid = await caught(helm, cluster, request, "pending-install", "a-first")
    before = await cluster.config_map("a-first")
    await end(task, pid)
    assert await cluster.revisions() == [(1, "pending-install")]

    outcome = await helm.upgrade(request)

    assert outcome.action == "installed"
    assert "revision 1 is pending-install" in outcome.healed
    assert len(outcome.objects) == WIDE + 1
    assert await cluster.revisions() == [(1, "failed"), (2, "deployed")]
    after = await cluster.config_map("a-first")
    assert before is not None
    assert after is not None
    assert before["metadata"]["uid"] == after["metadata"]["uid"]
    assert (await helm.upgrade(request)).action == "unchanged"


@pytest.mark.parametrize("end", [cancelled, crashed])
async def test_a_killed_upgrade_goes_on_from_the_last_good_revision(
    helm: HelmClient, cluster: Cluster, chart: Charts, request_for: Requests, end: End
) -> None:
    folder = chart(many(WIDE))
    await helm.upgrade(request_for(folder, value="1"))
    chart(config_map("a-first"), many(WIDE))
    request = request_for(folder, SECOND, value="2")
    task, pid = await caught(helm, cluster, request, "pending-upgrade", "a-first")
    await end(task, pid)
    assert await cluster.revisions() == [(1, "deployed"), (2, "pending-upgrade")]

    outcome = await helm.upgrade(request)

    assert (outcome.action, outcome.release.revision, outcome.release.applied) == ("upgraded", 3, SECOND)
    assert "revision 2 is pending-upgrade" in outcome.healed
    last = await cluster.config_map(f"many-{WIDE - 1}")
    assert last is not None
    assert last["data"] == {"value": "2"}


async def test_what_only_a_killed_upgrade_had_made_is_deleted_when_the_old_version_comes_back(
    helm: HelmClient, cluster: Cluster, chart: Charts, request_for: Requests
) -> None:
    folder = chart(many(WIDE))
    old = request_for(folder, value="1")
    await helm.upgrade(old)
    wider = chart(config_map("a-first"), many(WIDE), name="wider")
    await cancelled(*await caught(helm, cluster, request_for(wider, SECOND, value="2"), "pending-upgrade", "a-first"))

    outcome = await helm.upgrade(old)

    assert (outcome.action, outcome.release.revision) == ("upgraded", 3)
    assert await cluster.config_map("a-first") is None
    first = await cluster.config_map("many-0")
    assert first is not None
    assert first["data"] == {"value": "1"}
    assert (await helm.upgrade(old)).action == "unchanged"


async def test_an_uninstall_after_a_killed_upgrade_leaves_nothing(
    helm: HelmClient, cluster: Cluster, ref: ReleaseRef, chart: Charts, request_for: Requests
) -> None:
    await helm.upgrade(request_for(chart(config_map("only-old"), name="old"), value="1"))
    wide = chart(config_map("a-first"), many(WIDE), name="wide")
    await cancelled(*await caught(helm, cluster, request_for(wide, SECOND, value="2"), "pending-upgrade", "a-first"))
    assert await cluster.config_map("only-old") is not None

    await helm.uninstall(ref)

    left = await cluster.kube.list("v1", "ConfigMap", namespace=ref.namespace, metadata_only=True)
    assert [item["metadata"]["name"] for item in left.items if item["metadata"]["name"] != "kube-root-ca.crt"] == []
    assert await cluster.revisions() == []


async def test_a_killed_uninstall_is_finished_before_the_next_install(
    helm: HelmClient, cluster: Cluster, ref: ReleaseRef, chart: Charts, request_for: Requests
) -> None:
    await helm.upgrade(request_for(chart(many(WIDE), config_map("only-old"), name="wide"), value="1"))
    task = asyncio.create_task(helm.uninstall(ref))

    async def seen() -> bool:
        assert not task.done()
        return await cluster.status() == "uninstalling"

    await eventually(seen, every=0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await cluster.status() == "uninstalling"

    outcome = await helm.upgrade(request_for(chart(config_map("new"), name="new"), value="1"))

    assert (outcome.action, outcome.release.revision) == ("installed", 1)
    assert "uninstalling" in outcome.healed
    assert await cluster.config_map("only-old") is None
    assert await cluster.config_map("new") is not None


async def test_a_failed_first_install_is_installed_over_and_its_history_stays_bounded(
    helm: HelmClient, cluster: Cluster, chart: Charts, request_for: Requests
) -> None:
    bad = "apiVersion: v1\nkind: Service\nmetadata: {name: z}\nspec: {ports: [{port: 0}]}\n"
    request = replace(request_for(chart(config_map("only-bad"), bad, name="bad"), value="1"), history_max=3)
    for _ in range(4):
        with pytest.raises(PermanentError, match="is invalid"):
            await helm.upgrade(request)
    assert await cluster.revisions() == [(2, "failed"), (3, "failed"), (4, "failed")]
    assert await cluster.config_map("only-bad") is not None

    outcome = await helm.upgrade(replace(request, chart=chart(config_map("good"), name="good"), digest=SECOND))

    assert (outcome.action, outcome.release.revision) == ("installed", 5)
    assert await cluster.config_map("only-bad") is None


async def test_a_failed_upgrade_is_upgraded_over(
    helm: HelmClient, cluster: Cluster, chart: Charts, request_for: Requests
) -> None:
    bad = "apiVersion: v1\nkind: Service\nmetadata: {name: z}\nspec: {ports: [{port: 0}]}\n"
    good = request_for(chart(config_map("a"), name="good"), value="1")
    await helm.upgrade(good)
    with pytest.raises(PermanentError, match="is invalid"):
        await helm.upgrade(
            request_for(chart(config_map("a"), config_map("only-bad"), bad, name="bad"), SECOND, value="2")
        )

    outcome = await helm.upgrade(good)

    assert (outcome.action, outcome.release.revision, outcome.healed) == ("upgraded", 3, "")
    assert await cluster.config_map("only-bad") is None


async def test_a_crash_between_success_and_its_report_costs_no_second_upgrade(
    helm: HelmClient, cluster: Cluster, ref: ReleaseRef, chart: Charts, request_for: Requests
) -> None:
    request = request_for(chart(config_map("a")), value="1")
    task = asyncio.create_task(helm.upgrade(request))
    await eventually(lambda: _is(cluster, "deployed"), every=0.005)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    assert (await helm.upgrade(request)).action == "unchanged"
    secret = await cluster.kube.get(secret_ref(ref, 1))
    assert secret is not None
    assert decode(secret).applied == FIRST


async def _is(cluster: Cluster, status: str) -> bool:
    return await cluster.status() == status
