"""One endpoint per process: metrics of Temporal's SDK and ours, health, readiness."""

from __future__ import annotations

import copy
import json
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families

from support.installation import Installation, installed, write_greeter
from support.waiting import eventually
from windlass.devstack.stack import Stack
from windlass.ports.kube import ObjectRef


@pytest.fixture
async def installation(stack: Stack, tmp_path: Path) -> AsyncIterator[Installation]:
    async with installed(stack, tmp_path / "installation") as made:
        write_greeter(tmp_path / "packages", "1.0.0")
        await made.repository(tmp_path / "packages")
        yield made


def address(installation: Installation) -> str | None:
    """Return where the newest process serves, from its log."""
    lines = installation.log.read_text().splitlines() if installation.log.exists() else []
    urls = [json.loads(line)["url"] for line in lines if '"metrics served"' in line]
    return urls[-1].removesuffix("/metrics") if urls else None


async def ask(url: str) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        return answer.status, await answer.text()


async def scraped(url: str) -> dict[str, dict[frozenset[tuple[str, str]], float]]:
    """Return every sample by name and labels; raises if the text is not what Prometheus reads."""
    status, text = await ask(f"{url}/metrics")
    assert status == 200
    found: dict[str, dict[frozenset[tuple[str, str]], float]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, {})[frozenset(sample.labels.items())] = sample.value
    return found


def labels(**pairs: str) -> frozenset[tuple[str, str]]:
    return frozenset(pairs.items())


async def test_what_a_process_does_is_counted(installation: Installation) -> None:
    installation.start()
    url = await eventually(lambda: address(installation))
    assert url is not None

    async def ready() -> bool:
        return (await ask(f"{url}/readyz")) == (200, "ok\n")

    await eventually(ready, what="the process is ready")
    assert await ask(f"{url}/healthz") == (200, "ok\n")
    await installation.application("one", "greeter", "1.0.0")
    await installation.ready("one", "1.0.0")
    await installation.application("bad", "greeter", "9.9.9")

    async def counted() -> dict[str, dict[frozenset[tuple[str, str]], float]]:
        found = await scraped(url)
        ready_ones = labels(kind="Application", phase="Running", ready="true")
        assert found["windlass_packages"].get(ready_ones) == 1, found["windlass_packages"]
        download = labels(activity="package.download", reason="PackageNotFound")
        assert found["windlass_step_failures_total"].get(download), found["windlass_step_failures_total"]
        return found

    found = await eventually(counted)
    assert found["windlass_helm_operations_total"] == {labels(action="installed"): 1}
    ok = labels(activity="helm.upgrade_release", outcome="ok")
    assert found["windlass_step_duration_seconds_count"][ok] == 1
    assert sum(found["windlass_shard_served"].values()) == 8
    assert found["windlass_watcher_active"] == {frozenset(): 1}
    assert found["windlass_watcher_signals_total"][labels(outcome="sent")] >= 2
    assert found["windlass_watcher_lag_seconds_count"][frozenset()] >= 2
    assert found["windlass_package_cache_bytes"][frozenset()] > 0
    assert any(name.startswith("temporal_") for name in found), "the SDK's own"
    assert all("TYPE" not in name for name in found)


async def test_who_waits_for_a_lease_stands_by(installation: Installation) -> None:
    first = installation.start("watcher", data="first")
    await eventually(lambda: address(installation))
    before = address(installation)
    installation.start("watcher", data="second")
    try:
        await eventually(lambda: address(installation) != before)
        url = address(installation)

        async def standing_by() -> bool:
            return (await ask(f"{url}/readyz"))[0] == 200

        await eventually(standing_by)
        assert (await scraped(f"{url}"))["windlass_watcher_active"] == {frozenset(): 0}
    finally:
        first.kill()
        first.wait()


async def test_a_process_without_its_cluster_is_alive_and_not_ready(installation: Installation, tmp_path: Path) -> None:
    kubeconfig = tmp_path / "nowhere"
    kubeconfig.write_text(installation.stack.kubeconfig.read_text().replace("server: https://", "server: https://x."))
    installation.start(KUBECONFIG=str(kubeconfig))
    url = await eventually(lambda: address(installation))
    assert (await ask(f"{url}/healthz"))[0] == 200

    async def told() -> str:
        status, text = await ask(f"{url}/readyz")
        assert status == 503
        assert "worker: its Lease" in text
        return text

    assert "watcher: the cluster" in await eventually(told)


async def test_a_worker_newer_than_the_definitions_is_not_ready(installation: Installation) -> None:
    name = "packagerepositories.windlass.dev"
    ref = ObjectRef(api_version="apiextensions.k8s.io/v1", kind="CustomResourceDefinition", name=name)
    found = await installation.kube.get(ref)
    assert found is not None
    older = copy.deepcopy(found)
    del older["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]["packages"]
    older = await installation.kube.replace(older)
    try:
        installation.start()
        url = await eventually(lambda: address(installation))

        async def told() -> bool:
            status, text = await ask(f"{url}/readyz")
            return status == 503 and f"definitions: {name} lacks status.packages: apply" in text

        await eventually(told)
    finally:
        await installation.kube.replace({**older, "spec": found["spec"]})

    async def ready() -> bool:
        return (await ask(f"{url}/readyz")) == (200, "ok\n")

    await eventually(ready, what="the definitions are brought up to date, and it is ready")


async def test_an_address_in_use_is_refused_with_what_to_do(installation: Installation) -> None:
    process = installation.start(WINDLASS_METRICS_ADDRESS="nonsense")
    await eventually(lambda: process.poll() is not None)
    assert process.returncode == 1
    assert "WINDLASS_METRICS_ADDRESS" in installation.log.read_text()
