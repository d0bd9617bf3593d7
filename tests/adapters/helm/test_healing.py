"""Operations killed in the middle, seen there, and what the next call makes of it."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest
from adapters.helm.scenes import FIRST, OWNER, SECOND, Charts, Cluster, Requests, config_map, many, running

from support.faults import Hold, HoldingProxy
from support.ledgers import RememberingHelm
from support.release_records import packed, unpacked
from support.waiting import SOON, eventually
from windlass.adapters.helm.record import decode
from windlass.adapters.helm.storage import secret_ref
from windlass.adapters.kube.client import KubeClient
from windlass.adapters.targets.caller import CallerTargets
from windlass.devstack.stack import Stack
from windlass.domain.errors import PermanentError, TransientError
from windlass.domain.lifecycle.provenance import Known
from windlass.ports.helm import ReleaseOutcome, ReleaseRef, ReleaseRequest

pytestmark = pytest.mark.stack

FEW = 8

LATER = """
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: later}
rules: []
"""
"""Helm applies kinds in an order of its own: roles when all ConfigMaps are there."""

type Catch = Callable[[ReleaseRequest, str], Awaitable[tuple[asyncio.Task[ReleaseOutcome], int]]]


@pytest.fixture
async def helm(stack: Stack, kube: KubeClient, proxy: HoldingProxy, tmp_path: Path) -> AsyncIterator[RememberingHelm]:
    """A client whose operations a test can stop in the middle."""
    kubeconfig, program = proxy.kubeconfig(tmp_path), Path(stack.tool("helm"))
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    async with RememberingHelm(
        targets=CallerTargets(kube, kubeconfig), helm=program, scratch=scratch, pool_size=1
    ) as client:
        yield client


@pytest.fixture
def caught(helm: RememberingHelm, cluster: Cluster, proxy: HoldingProxy) -> Catch:
    """Start a request and return while it applies `LATER`: its release is in the status, and a-first exists."""

    async def catch(request: ReleaseRequest, status: str) -> tuple[asyncio.Task[ReleaseOutcome], int]:
        hold = proxy.hold(held_once("(POST|PUT|PATCH) .*/roles/later$"))
        task = asyncio.create_task(helm.upgrade(request))
        await eventually(lambda: hold.holding, what="the last object is applied")
        assert await cluster.status() == status
        assert await cluster.config_map("a-first") is not None
        (pid,) = helm.busy_children
        return task, pid

    return catch


def held_once(at: str) -> Hold:
    first = iter([True])
    return Hold(at=at, when=lambda: next(first, False))


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
    helm: RememberingHelm, cluster: Cluster, chart: Charts, request_for: Requests, caught: Catch, end: End
) -> None:
    request = request_for(chart(config_map("a-first"), many(FEW), LATER), value="1")
    task, pid = await caught(request, "pending-install")
    before = await cluster.config_map("a-first")
    await end(task, pid)
    assert await cluster.revisions() == [(1, "pending-install")]

    outcome = await helm.upgrade(request)

    assert outcome.action == "installed"
    assert "revision 1 is pending-install" in outcome.healed
    assert len(outcome.objects) == FEW + 2
    assert await cluster.revisions() == [(1, "failed"), (2, "deployed")]
    after = await cluster.config_map("a-first")
    assert before is not None
    assert after is not None
    assert before["metadata"]["uid"] == after["metadata"]["uid"]
    assert (await helm.upgrade(request)).action == "unchanged"


@pytest.mark.parametrize("end", [cancelled, crashed])
async def test_a_killed_upgrade_goes_on_from_the_last_good_revision(
    helm: RememberingHelm, cluster: Cluster, chart: Charts, request_for: Requests, caught: Catch, end: End
) -> None:
    folder = chart(many(FEW))
    await helm.upgrade(request_for(folder, value="1"))
    chart(config_map("a-first"), many(FEW), LATER)
    request = request_for(folder, SECOND, value="2")
    task, pid = await caught(request, "pending-upgrade")
    await end(task, pid)
    assert await cluster.revisions() == [(1, "deployed"), (2, "pending-upgrade")]

    outcome = await helm.upgrade(request)

    assert (outcome.action, outcome.release.revision, outcome.release.applied) == ("upgraded", 3, SECOND)
    assert "revision 2 is pending-upgrade" in outcome.healed
    last = await cluster.config_map(f"many-{FEW - 1}")
    assert last is not None
    assert last["data"] == {"value": "2"}


async def test_what_only_a_killed_upgrade_had_made_is_deleted_when_the_old_version_comes_back(
    helm: RememberingHelm, cluster: Cluster, chart: Charts, request_for: Requests, caught: Catch
) -> None:
    folder = chart(many(FEW))
    old = request_for(folder, value="1")
    await helm.upgrade(old)
    wider = chart(config_map("a-first"), many(FEW), LATER, name="wider")
    await cancelled(*await caught(request_for(wider, SECOND, value="2"), "pending-upgrade"))

    outcome = await helm.upgrade(old)

    assert (outcome.action, outcome.release.revision) == ("upgraded", 3)
    assert await cluster.config_map("a-first") is None
    first = await cluster.config_map("many-0")
    assert first is not None
    assert first["data"] == {"value": "1"}
    assert (await helm.upgrade(old)).action == "unchanged"


async def test_an_uninstall_after_a_killed_upgrade_leaves_nothing(
    helm: RememberingHelm, cluster: Cluster, ref: ReleaseRef, chart: Charts, request_for: Requests, caught: Catch
) -> None:
    await helm.upgrade(request_for(chart(config_map("only-old"), name="old"), value="1"))
    wide = chart(config_map("a-first"), many(FEW), LATER, name="wide")
    await cancelled(*await caught(request_for(wide, SECOND, value="2"), "pending-upgrade"))
    assert await cluster.config_map("only-old") is not None

    await helm.uninstall(ref, owner=OWNER)

    left = await cluster.kube.list("v1", "ConfigMap", namespace=ref.namespace, metadata_only=True)
    assert [item["metadata"]["name"] for item in left.items if item["metadata"]["name"] != "kube-root-ca.crt"] == []
    assert await cluster.revisions() == []


async def test_a_killed_uninstall_is_finished_before_the_next_install(
    helm: RememberingHelm, cluster: Cluster, ref: ReleaseRef, chart: Charts, request_for: Requests, proxy: HoldingProxy
) -> None:
    await helm.upgrade(request_for(chart(many(FEW), config_map("only-old"), name="wide"), value="1"))
    hold = proxy.hold(held_once("DELETE .*/configmaps/only-old$"))
    task = asyncio.create_task(helm.uninstall(ref, owner=OWNER))
    await eventually(lambda: hold.holding, what="only-old is deleted")
    assert await cluster.status() == "uninstalling"
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
    helm: RememberingHelm, cluster: Cluster, chart: Charts, request_for: Requests
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
    helm: RememberingHelm, cluster: Cluster, chart: Charts, request_for: Requests
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
    helm: RememberingHelm, cluster: Cluster, ref: ReleaseRef, chart: Charts, request_for: Requests
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


async def test_a_record_that_was_never_read_is_made_again_and_what_it_left_is_found_in_our_own_chart(
    helm: RememberingHelm,
    cluster: Cluster,
    ref: ReleaseRef,
    chart: Charts,
    request_for: Requests,
    caught: Catch,
) -> None:
    old = request_for(chart(many(FEW)), value="1")
    await helm.upgrade(old)
    wider = request_for(chart(config_map("a-first"), many(FEW), LATER, name="wider"), SECOND, value="2")
    known = helm.ledger(ref).known
    await cancelled(*await caught(wider, "pending-upgrade"))
    await die_before_the_digest(helm, cluster, ref, known, wider)

    outcome = await helm.upgrade(old)

    assert (outcome.action, outcome.release.revision) == ("upgraded", 2)
    assert outcome.healed == "revision 2 was interrupted: made again"
    assert await cluster.config_map("a-first") is None
    assert await cluster.config_map("victim") is not None
    assert await cluster.revisions() == [(1, "superseded"), (2, "deployed")]


async def test_an_uninstall_goes_by_our_own_chart_where_the_record_was_never_read(
    helm: RememberingHelm,
    cluster: Cluster,
    ref: ReleaseRef,
    chart: Charts,
    request_for: Requests,
    caught: Catch,
) -> None:
    first = request_for(chart(config_map("a-first"), many(FEW), LATER), value="1")
    await cancelled(*await caught(first, "pending-install"))
    await die_before_the_digest(helm, cluster, ref, Known(), first)

    gone = await helm.uninstall(ref, owner=OWNER)

    assert cluster.ref("a-first") in gone
    assert cluster.ref("victim") not in gone
    assert await cluster.config_map("a-first") is None
    assert await cluster.config_map("victim") is not None
    assert await cluster.revisions() == []


async def die_before_the_digest(
    helm: RememberingHelm, cluster: Cluster, ref: ReleaseRef, known: Known, began: ReleaseRequest
) -> None:
    """Forget what was noted after an operation, as a process that was killed does; then somebody edits the record."""
    number = (await cluster.revisions())[-1][0]
    ledger = helm.ledger(ref)
    ledger.known, ledger.began = known.noting(number), began
    marks = {
        "labels": {"app.kubernetes.io/managed-by": "Helm"},
        "annotations": {
            "meta.helm.sh/release-name": ref.name,
            "meta.helm.sh/release-namespace": ref.namespace,
        },
    }
    victim = cluster.ref("victim")
    metadata = {"name": victim.name, "namespace": victim.namespace, **marks}
    await cluster.kube.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
    secret = await cluster.kube.get(secret_ref(ref, number))
    assert secret is not None
    content = unpacked(secret)
    content["manifest"] += "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: victim}\n"
    await cluster.kube.replace({**secret, "data": {"release": packed(content)}})
