"""Kubeconfigs whose servers are no honest API servers: their packages fail, and nobody else's."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import structlog
from aiohttp import web

from support import hostile_server as servers
from support.clusters import store_kubeconfig
from support.hostile_server import HostileServer, hostile_server, silent_server
from support.installation import Installation, write_greeter
from support.running import packages, running
from support.waiting import eventually
from windlass.devstack.stack import Stack
from windlass.domain.ids import ABANDON_ANNOTATION
from windlass.ports.kube import Object

PACKAGES = 10
"""On the hostile server: more than there are Helm processes, and turns at them."""

MEGABYTES = 700
"""Of the worker process; about 250 without attacks."""

REPLIES = {
    "says-its-version": servers.says_its_version,
    "never-ends": servers.never_ends,
    "gives-pages": servers.gives_pages,
    "talks-nonsense": servers.talks_nonsense,
}


@pytest.fixture(scope="module")
async def installation(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Installation]:
    folder = tmp_path_factory.mktemp("hostile")
    async with running(stack, folder, WINDLASS_KUBECONFIGS="local") as made:
        write_greeter(packages(made), "1.0.0", "2.0.0")
        await made.application("neighbour", "greeter", "1.0.0")
        await made.ready("neighbour", "1.0.0")
        yield made


@asynccontextmanager
async def served(name: str) -> AsyncGenerator[HostileServer]:
    if name == "silent":
        async with silent_server() as server:
            yield server
    else:
        async with hostile_server(REPLIES[name]) as server:
            yield server


def peak(installation: Installation) -> int:
    """Return the most memory that the worker has had, in MB."""
    assert installation.process is not None
    assert installation.process.poll() is None
    status = Path(f"/proc/{installation.process.pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) // 1024


async def aimed(installation: Installation, name: str, kubeconfig: str) -> list[str]:
    """Point `PACKAGES` packages at a server."""
    await store_kubeconfig(installation, name, kubeconfig)
    made = [f"{name}-{number}" for number in range(PACKAGES)]
    for one in made:
        target = {"cluster": {"kubeconfigSecret": {"name": name}}}
        await installation.application(one, "greeter", "1.0.0", target=target)
    return made


async def failure(installation: Installation, names: list[str]) -> Object:
    """Return the failure of one of the packages, empty if there is none yet."""
    found = [await installation.object(name) for name in names]
    return next((one["status"]["failure"] for one in found if one and (one.get("status") or {}).get("failure")), {})


async def removed(installation: Installation, names: list[str]) -> None:
    for name in names:
        ref = installation.package_ref(name)
        await installation.kube.patch(ref, {"metadata": {"annotations": {ABANDON_ANNOTATION: "true"}}}, kind="merge")
        await installation.kube.delete(ref)
    for name in names:
        await installation.gone(name)


@pytest.mark.parametrize("name", ["silent", *REPLIES])
async def test_a_hostile_server_fails_its_own_packages_and_holds_up_no_other(
    installation: Installation, name: str
) -> None:
    assert installation.process is not None
    process = installation.process.pid
    async with served(name) as server:
        made = await aimed(installation, name, server.kubeconfig)
        await eventually(lambda: server.asked > 0, what="the server is asked")
        began = time.monotonic()
        found = await installation.object("neighbour")
        assert found is not None
        version = "1.0.0" if found["spec"]["package"]["version"] == "2.0.0" else "2.0.0"
        await installation.application("neighbour", "greeter", version)
        await installation.ready("neighbour", version)
        seconds = round(time.monotonic() - began, 2)
        failed = await eventually(lambda: failure(installation, made), 120, what="one of the packages fails")
        assert failed["reason"] in {"ClusterUnreachable", "ApiUnavailable", "KubeconfigInvalid"}
        structlog.get_logger().info("upgrade of a neighbour", server=name, seconds=seconds, peak=peak(installation))
        await removed(installation, made)
    assert peak(installation) < MEGABYTES
    assert installation.process.pid == process


async def test_a_redirect_is_not_followed(installation: Installation) -> None:
    """What a worker can reach and a tenant cannot, such as a cloud's metadata service, is not read for the tenant."""
    inside = 0

    async def secret(request: web.Request) -> web.StreamResponse:
        del request
        nonlocal inside
        inside += 1
        return web.json_response({"message": "canary"}, status=500)

    async with hostile_server(secret) as metadata:
        address = metadata.kubeconfig.partition("server: ")[2].split()[0]
        async with hostile_server(servers.redirects_to(address)) as server:
            await store_kubeconfig(installation, "redirects", server.kubeconfig)
            target = {"cluster": {"kubeconfigSecret": {"name": "redirects"}}}
            await installation.application("redirected", "greeter", "1.0.0", target=target)
            obj = await installation.status("redirected", lambda status: status.get("failure"))
            assert "canary" not in str(obj["status"])
            await removed(installation, ["redirected"])
    assert inside == 0
