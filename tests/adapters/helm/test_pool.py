"""The pool of warm children, on orders that fail fast without a cluster, and on charts that never end rendering."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from adapters.helm.scenes import children, running, write_chart

from support.waiting import SOON, eventually
from windlass.adapters.helm.pool import ChildPool
from windlass.adapters.helm.process import environment
from windlass.adapters.helm.protocol import Order
from windlass.domain.errors import TransientError

KUBECONFIG = """
apiVersion: v1
kind: Config
clusters: [{name: none, cluster: {server: "http://127.0.0.1:1"}}]
contexts: [{name: none, context: {cluster: none, user: none}}]
users: [{name: none, user: {}}]
current-context: none
"""


@pytest.fixture
def order(tmp_path: Path) -> Order:
    """An install into a cluster that is not there."""
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(KUBECONFIG)
    chart = write_chart(tmp_path / "web", "a: b")
    return Order(
        operation="install",
        kubeconfig=str(kubeconfig),
        namespace="a",
        name="b",
        chart=str(chart),
        metadata=(chart / "Chart.yaml").read_text(),
        folder=str(tmp_path / "staged"),
    )


@pytest.fixture
def hanging(tmp_path: Path, order: Order) -> Order:
    """An install whose kubeconfig asks a credential plugin that never answers."""
    kubeconfig = tmp_path / "hanging"
    plugin = 'user: {exec: {apiVersion: client.authentication.k8s.io/v1, command: sleep, args: ["600"], '
    kubeconfig.write_text(
        KUBECONFIG.replace("user: {}", plugin + "interactiveMode: Never}}").replace("http:", "https:")
    )
    return replace(order, kubeconfig=str(kubeconfig), folder=str(tmp_path / "staged-hanging"))


def sleeps(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/comm").read_text() == "sleep\n"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.fixture
async def pool(tmp_path: Path) -> AsyncIterator[ChildPool]:
    async with ChildPool(1, environment(tmp_path, os.environ)) as running_pool:
        yield running_pool


async def test_one_child_serves_many_orders(pool: ChildPool, order: Order) -> None:
    before = children(os.getpid())
    replies = [await pool.run(order) for _ in range(3)]

    assert all("connection refused" in reply.error for reply in replies)
    assert children(os.getpid()) == before


async def test_a_crashed_child_is_replaced(pool: ChildPool, order: Order, hanging: Order) -> None:
    task = asyncio.create_task(pool.run(hanging))
    await eventually(lambda: pool.busy)
    os.kill(pool.busy[0], signal.SIGKILL)

    with pytest.raises(TransientError, match="died during install of release b in a"):
        await task

    assert "connection refused" in (await pool.run(order)).error


async def test_a_child_that_died_while_idle_is_replaced(tmp_path: Path, order: Order) -> None:
    before = set(children(os.getpid()))
    async with ChildPool(1, environment(tmp_path, os.environ)) as pool:
        (idle,) = set(children(os.getpid())) - before
        os.kill(idle, signal.SIGKILL)
        await eventually(lambda: not running(idle))

        assert "connection refused" in (await pool.run(order)).error


async def test_cancelling_takes_the_whole_group_and_frees_the_slot(
    pool: ChildPool, order: Order, hanging: Order
) -> None:
    task = asyncio.create_task(pool.run(hanging))
    # Go starts a process that ends at once, to learn what the kernel can: the plugin is the one that sleeps.
    (plugin,) = await eventually(lambda: [pid for busy in pool.busy for pid in children(busy) if sleeps(pid)])
    (child,) = pool.busy
    started = time.monotonic()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert time.monotonic() - started < SOON
    assert not running(child)
    await eventually(lambda: not running(plugin))
    assert pool.busy == ()
    assert "connection refused" in (await pool.run(order)).error


async def test_a_chart_that_cannot_be_staged_is_a_failure_and_not_the_end_of_the_child(
    pool: ChildPool, order: Order, tmp_path: Path
) -> None:
    assert "cannot be staged" in (await pool.run(replace(order, folder=str(tmp_path / "no" / "such")))).error
    assert "connection refused" in (await pool.run(order)).error


async def test_cancelling_twice_still_waits_for_the_end(pool: ChildPool, hanging: Order) -> None:
    task = asyncio.create_task(pool.run(hanging))
    await eventually(lambda: pool.busy and children(pool.busy[0]))
    (child,) = pool.busy
    task.cancel()
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert not running(child)


async def test_waiting_orders_can_be_cancelled_too(pool: ChildPool, order: Order, hanging: Order) -> None:
    working = asyncio.create_task(pool.run(hanging))
    await eventually(lambda: pool.busy)
    waiting = asyncio.create_task(pool.run(order))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting

    assert not working.done()
    working.cancel()
    await asyncio.gather(working, return_exceptions=True)


async def test_leaving_the_pool_ends_every_child(tmp_path: Path) -> None:
    before = set(children(os.getpid()))
    async with ChildPool(2, environment(tmp_path, os.environ)):
        started = set(children(os.getpid())) - before
        assert len(started) == 2

    assert not any(running(pid) for pid in started)


def test_children_see_an_allow_list_of_the_environment(tmp_path: Path) -> None:
    env = environment(tmp_path, {"PATH": "/bin", "AWS_SECRET_ACCESS_KEY": "no", "KUBECONFIG": "no", "HOME": "/other"})

    assert env["PATH"] == "/bin"
    assert "no" not in env.values()
    assert all(value.startswith(str(tmp_path)) for name, value in env.items() if name.startswith(("HELM", "HOME")))
