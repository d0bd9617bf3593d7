"""The example controller `nats-routes` as people run it: NATS with login and TLS, the API server, an HTTP API."""

from __future__ import annotations

import json
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from support.cluster import get, kubectl
from support.dns_api import DnsApi, dns_api
from support.nats import PASSWORD, USER, NatsServer, nats_server
from support.operators import OperatorProcess, operator
from support.waiting import eventually
from windlass.adapters.nats.connection import NatsConnection, connected
from windlass.adapters.nats.entities import BucketEntities, ensure_bucket
from windlass.devstack.stack import Stack

MAIN = Path(__file__).parents[2] / "examples" / "operators" / "nats-routes" / "main.py"
WITHIN = 90.0

Start = Callable[[], AbstractContextManager[OperatorProcess]]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    with nats_server(tmp_path_factory.mktemp("nats"), secured=True) as running:
        yield running


@pytest.fixture
async def nats(server: NatsServer) -> AsyncIterator[NatsConnection]:
    async with connected(server.access) as opened:
        await ensure_bucket(opened, "routes", history=5)
        await ensure_bucket(opened, "route-status")
        yield opened


@pytest.fixture
def routes(nats: NatsConnection) -> BucketEntities:
    return BucketEntities(nats, "routes")


@pytest.fixture
def statuses(nats: NatsConnection) -> BucketEntities:
    return BucketEntities(nats, "route-status")


@pytest.fixture
async def dns() -> AsyncIterator[DnsApi]:
    async with dns_api() as api:
        yield api


@pytest.fixture
def start(stack: Stack, server: NatsServer, dns: DnsApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Start:
    """Starts the controller."""
    authority = tmp_path / "ca.pem"
    assert server.authority is not None
    authority.write_bytes(server.authority.certificate_pem)
    settings = {
        "NATS_URL": f"tls://127.0.0.1:{server.port}",
        "NATS_USER": USER,
        "NATS_PASSWORD": PASSWORD,
        "NATS_CA": str(authority),
        "ROUTES_DNS_URL": dns.url,
        "ROUTES_RESYNC": "2",
    }
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    return lambda: operator(stack, MAIN, tmp_path)


@pytest.fixture
def namespace(stack: Stack) -> Iterator[str]:
    name = f"routes-{uuid.uuid4().hex[:8]}"
    kubectl(stack, "create", "namespace", name)
    yield name
    kubectl(stack, "delete", "namespace", name, "--wait=false")


def route(namespace: str, host: str, **spec: Any) -> dict[str, Any]:
    return {"spec": {"host": host, "namespace": namespace, "selector": {"app": "shop"}, **spec}}


def names(stack: Stack, namespace: str) -> set[str]:
    found = get(stack, "services,configmaps", "-n", namespace)["items"]
    return {f"{one['kind']}/{one['metadata']['name']}" for one in found} - {"ConfigMap/kube-root-ca.crt"}


async def ready(statuses: BucketEntities, key: str, version: str) -> bool:
    found = await statuses.get(key)
    status = found.document["status"] if found is not None and found.document else {}
    return bool(status.get("ready")) and status["revision"] == version


async def test_a_route_becomes_objects_and_a_name_and_takes_them_along(
    stack: Stack, start: Start, routes: BucketEntities, statuses: BucketEntities, dns: DnsApi, namespace: str
) -> None:
    with start() as running:
        version = await routes.create("shop", route(namespace, "shop.example", port=81, paths=["/a"]))
        await eventually(lambda: ready(statuses, "shop", version), WITHIN)
        assert names(stack, namespace) == {"Service/shop", "ConfigMap/shop-route"}
        service = get(stack, "service", "shop", "-n", namespace)
        assert service["spec"]["ports"][0]["port"] == 81
        assert service["metadata"]["annotations"] == {"kumori/ownerkey": "shop", "kumori/ownerkind": "Route"}
        content = json.loads(get(stack, "configmap", "shop-route", "-n", namespace)["data"]["route.json"])
        assert content["paths"] == ["/a"]
        assert dns.records["shop.example"]["target"] == f"shop.{namespace}"

        version = await routes.put("shop", route(namespace, "store.example", port=82))
        await eventually(lambda: ready(statuses, "shop", version), WITHIN)
        assert get(stack, "service", "shop", "-n", namespace)["spec"]["ports"][0]["port"] == 82
        assert set(dns.records) == {"store.example"}

        # Whatever somebody does to a secondary: it is as the route wants it again.
        kubectl(stack, "delete", "service", "shop", "-n", namespace)
        await eventually(lambda: "Service/shop" in names(stack, namespace), WITHIN)
        dns.records.clear()  # nobody tells; the resync finds it
        await eventually(lambda: set(dns.records) == {"store.example"}, WITHIN)

        await routes.delete("shop")
        await eventually(lambda: names(stack, namespace) == set(), WITHIN)
        await eventually(lambda: not dns.records, WITHIN)
        assert await statuses.get("shop") is None
        events = get(stack, "events", "-n", namespace)["items"]
        said = {(event["reason"], event["message"]) for event in events if event["involvedObject"]["name"] == "shop"}
        assert ("Synced", '"shop" synced successfully (created)') in said
        assert running.stop() == 0, running.log


async def test_what_is_somebody_elses_is_left_alone(
    stack: Stack, start: Start, routes: BucketEntities, statuses: BucketEntities, namespace: str
) -> None:
    kubectl(stack, "create", "service", "clusterip", "theirs", "--tcp=1:1", "-n", namespace)
    before = get(stack, "service", "theirs", "-n", namespace)
    with start() as running:
        version = await routes.create("theirs", route(namespace, "theirs.example"))
        # It holds up nobody else.
        other = await routes.create("ours", route(namespace, "ours.example"))
        await eventually(lambda: ready(statuses, "ours", other), WITHIN)

        def told() -> bool:
            events = get(stack, "events", "-n", namespace)["items"]
            return any(event["reason"] == "ErrResourceExists" and event["type"] == "Warning" for event in events)

        await eventually(told, WITHIN)
        found = await statuses.get("theirs")
        assert found is not None
        assert found.document is not None
        assert 'Resource "theirs" already exists' in found.document["status"]["message"]
        assert get(stack, "service", "theirs", "-n", namespace) == before
        kubectl(stack, "delete", "service", "theirs", "-n", namespace)
        await eventually(lambda: ready(statuses, "theirs", version), WITHIN)
        await routes.delete("theirs")
        await routes.delete("ours")
        await eventually(lambda: names(stack, namespace) == set(), WITHIN)
        assert running.stop() == 0, running.log


async def test_a_deletion_while_the_controller_was_down_is_made_up_for(
    stack: Stack,
    start: Start,
    routes: BucketEntities,
    statuses: BucketEntities,
    nats: NatsConnection,
    dns: DnsApi,
    namespace: str,
) -> None:
    with start() as running:
        version = await routes.create("gone", route(namespace, "gone.example"))
        await eventually(lambda: ready(statuses, "gone", version), WITHIN)
        running.kill()
    await routes.delete("gone")
    # Not even the marker of the deletion is left.
    await nats.client.jetstream().purge_stream("KV_routes", subject="$KV.routes.gone")
    assert names(stack, namespace) == {"Service/gone", "ConfigMap/gone-route"}
    with start() as running:
        await eventually(lambda: names(stack, namespace) == set(), WITHIN)
        await eventually(lambda: not dns.records, WITHIN)
        assert running.stop() == 0, running.log
    assert await statuses.get("gone") is None
