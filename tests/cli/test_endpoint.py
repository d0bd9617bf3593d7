"""How commands reach the inspect endpoint, and what they send where."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from windlass.adapters.inspection.authority import Authority
from windlass.adapters.inspection.server import Call, InspectServer, Reply
from windlass.adapters.inspection.wire import status_of
from windlass.adapters.kube.client import KubeClient
from windlass.cli.cluster import Cluster
from windlass.cli.context import Context
from windlass.cli.inspect import endpoint as module
from windlass.cli.inspect.endpoint import inspecting
from windlass.contracts.inspection import TICKET_HEADER, Question, View
from windlass.domain.errors import PermanentError, Reason, TransientError
from windlass.domain.ids import PackageKey
from windlass.observers.inspection.tickets import proof_of

NOW = datetime.now(UTC)
WEB = PackageKey(installation="windlass", namespace="shop", name="web")
NOWHERE = "127.0.0.1:9"
PROXY = "/api/v1/namespaces/windlass-system/services/https:windlass-inspect:inspect/proxy"


@dataclass
class Api:
    """An API server: discovery, the directory, tickets, and the proxy to the Service, which has ``proxied`` to say."""

    directory: dict[str, str] = field(default_factory=dict[str, str])
    proxied: list[tuple[int, Any]] = field(default_factory=list[tuple[int, Any]])
    tickets: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    sent: list[web.Request] = field(default_factory=list[web.Request])
    url: str = ""

    async def handle(self, request: web.Request) -> web.StreamResponse:
        resources = {
            "/api/v1": [("configmaps", "ConfigMap")],
            "/apis/windlass.dev/v1alpha1": [("actionrequests", "ActionRequest")],
            "/apis/authentication.k8s.io/v1": [],
        }
        if request.path in resources:
            found = [{"name": name, "kind": kind, "namespaced": True} for name, kind in resources[request.path]]
            return web.json_response({"kind": "APIResourceList", "resources": found})
        if request.path.endswith("/configmaps/windlass-inspect"):
            if not self.directory:
                return web.json_response({"message": "not found"}, status=404)
            return web.json_response({"metadata": {"name": "windlass-inspect"}, "data": self.directory})
        if request.path.endswith("/actionrequests"):
            body = await request.json()
            self.tickets.append(body)
            metadata = {"name": f"inspect-{len(self.tickets)}", "namespace": "shop", "uid": "u"}
            metadata["creationTimestamp"] = NOW.isoformat()
            return web.json_response({**body, "metadata": metadata})
        self.sent.append(request)
        status, body = self.proxied.pop(0) if len(self.proxied) > 1 else self.proxied[0]
        return web.json_response(body, status=status)


@asynccontextmanager
async def api() -> AsyncIterator[Api]:
    made = Api()
    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", made.handle)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    made.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield made
    finally:
        await runner.cleanup()


@asynccontextmanager
async def worker(authority: Authority, calls: list[Call]) -> AsyncIterator[str]:
    async def answer(call: Call) -> Reply:
        calls.append(call)
        return Reply(body=b'{"from": "worker"}', member="w1")

    server = InspectServer(answer, installation="windlass", member="w1", host="127.0.0.1", port=0)
    await server.serve(authority.certificate("w1", (), NOW))
    try:
        yield f"127.0.0.1:{server.port}"
    finally:
        await server.close()


@asynccontextmanager
async def place(server: Api, **user: str) -> AsyncIterator[Cluster]:
    kubeconfig = {
        "current-context": "it",
        "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
        "clusters": [{"name": "it", "cluster": {"server": server.url}}],
        "users": [{"name": "it", "user": user}],
    }
    async with KubeClient.from_kubeconfig(json.dumps(kubeconfig)) as kube:
        context = Context(data_dir=Path("unused"), environ={}, stack=None)
        yield Cluster(context=context, kube=kube, namespace="shop")


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PATIENCE", 0.0)


async def asked(server: Api, *questions: Question, **user: str) -> list[Any]:
    async with place(server, **user) as where, inspecting(where) as endpoint:
        return [await endpoint.ask(WEB, View.VALUES, one) for one in questions or (Question(),)]


async def test_a_token_goes_to_a_worker_that_is_one() -> None:
    authority, calls = Authority.made("windlass", NOW), list[Call]()
    async with api() as server, worker(authority, calls) as address:
        server.directory = {"ca.crt": authority.certificate_pem, "member.gone": NOWHERE, "member.w1": address}
        assert await asked(server, token="t0ken") == [{"from": "worker"}]
    assert [(call.token, call.ticket) for call in calls] == [("t0ken", "")]
    assert server.tickets == []


async def test_who_has_no_token_sends_a_ticket_and_uses_it_again() -> None:
    authority, calls = Authority.made("windlass", NOW), list[Call]()
    async with api() as server, worker(authority, calls) as address:
        server.directory = {"ca.crt": authority.certificate_pem, "member.w1": address}
        await asked(server, Question(), Question(), Question(version="2"), username="u", password="p")
    plain, change = server.tickets
    name, _, secret = calls[0].ticket.partition("/")
    assert (name, plain["spec"]["detail"]) == ("inspect-1", proof_of(secret))
    assert calls[1].ticket == calls[0].ticket
    assert change["spec"]["detail"] == proof_of(calls[2].ticket.partition("/")[2], hypothetical=True)
    assert {call.token for call in calls} == {""}


async def test_an_impostor_gets_nothing_and_the_proxy_a_ticket() -> None:
    """Somebody else listens at a worker's former address, with a certificate of an authority of their own."""
    authority, calls = Authority.made("windlass", NOW), list[Call]()
    async with api() as server, worker(Authority.made("windlass", NOW), calls) as address:
        server.directory = {"ca.crt": authority.certificate_pem, "member.w1": address}
        server.proxied = [(200, {"from": "proxy"})]
        assert await asked(server, token="t0ken") == [{"from": "proxy"}]
    assert calls == []
    [sent] = server.sent
    assert sent.path == f"{PROXY}/inspect/v1/Application/shop/web/values"
    assert sent.headers[TICKET_HEADER].startswith("inspect-1/")
    # To the API server itself, which takes it off; nowhere else.
    assert [name for name, value in sent.headers.items() if "t0ken" in value] == ["Authorization"]


async def test_what_a_worker_refuses_through_the_proxy_is_told_as_it_is() -> None:
    async with api() as server:
        server.directory = {"ca.crt": Authority.made("windlass", NOW).certificate_pem, "member.w1": NOWHERE}
        server.proxied = [(403, status_of(PermanentError(Reason.FORBIDDEN, "not you", hint="ask")))]
        with pytest.raises(PermanentError) as raised:
            await asked(server, token="t0ken")
    assert (raised.value.message, raised.value.hint) == ("not you", "ask")


@pytest.mark.parametrize("status", [403, 404, 503])
async def test_where_no_way_leads_to_a_worker_somebody_says_what_to_do(status: int) -> None:
    async with api() as server:
        server.directory = {"ca.crt": Authority.made("windlass", NOW).certificate_pem, "member.w1": NOWHERE}
        server.proxied = [(status, {"kind": "Status", "message": "no endpoints"})]
        with pytest.raises(TransientError, match=r"neither at its own address.*no endpoints") as raised:
            await asked(server, token="t0ken")
    assert "windlass worker" in raised.value.hint


async def test_without_a_directory_no_worker_runs() -> None:
    async with api() as server:
        with pytest.raises(TransientError, match="no worker of installation windlass"):
            await asked(server, token="t0ken")


async def test_a_question_is_repeated_while_workers_change(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PATIENCE", 60.0)
    monkeypatch.setattr(module, "AGAIN", 0.01)
    async with api() as server:
        server.directory = {"ca.crt": Authority.made("windlass", NOW).certificate_pem, "member.w1": NOWHERE}
        server.proxied = [
            (503, {"kind": "Status", "message": "no endpoints"}),
            (503, status_of(TransientError(Reason.API_UNAVAILABLE, "no worker serves it"))),
            (200, {"from": "proxy"}),
        ]
        async with asyncio.timeout(30):
            assert await asked(server, token="t0ken") == [{"from": "proxy"}]
