"""Servers that a tenant may name in a kubeconfig and that are no honest API servers."""

from __future__ import annotations

import asyncio
import ssl
import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from aiohttp import web

from support.tls import Identity, identity
from windlass.adapters.kube.kubeconfig import ApiAccess
from windlass.adapters.targets.kubeconfig import render

type Reply = Callable[[web.Request], Awaitable[web.StreamResponse]]

PIECE = b'{"padding": "' + b"x" * (1 << 20) + b'"},'


@dataclass
class HostileServer:
    """One server.

    Attributes:
        kubeconfig: leads there; with inline credentials, as it has to be.
        asked: how many requests, or connections, have come in.
    """

    kubeconfig: str = ""
    asked: int = 0


async def _held(request: web.Request) -> web.StreamResponse:
    del request
    await asyncio.Event().wait()
    raise AssertionError


async def says_its_version(request: web.Request) -> web.StreamResponse:
    """Answer the question whether it is there, and then never again."""
    if request.path == "/version":
        return web.json_response({"major": "1", "minor": "36", "gitVersion": "v1.36.0"})
    return await _held(request)


def redirects_to(elsewhere: str) -> Reply:
    """Send who asks to another server."""

    async def redirect(_request: web.Request) -> web.StreamResponse:
        raise web.HTTPFound(elsewhere)

    return redirect


async def never_ends(request: web.Request) -> web.StreamResponse:
    """Answer without end, as fast as it goes, and packed."""
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    response.enable_compression(web.ContentCoding.gzip)
    await response.prepare(request)
    await response.write(b'{"items": [')
    with suppress(ConnectionError):
        while True:
            await response.write(PIECE)
    return response


async def gives_pages(request: web.Request) -> web.StreamResponse:
    """Pretend to be an API server whose lists never end."""
    if request.path in {"/version", "/openapi/v2", "/openapi/v3"}:
        return await says_its_version(request)
    if (found := _discovered(request.path)) is not None:
        return web.json_response(found)
    page = [{"metadata": {"name": f"n{n}", "annotations": {"x": "x" * 20_000}}} for n in range(500)]
    return web.json_response({"kind": "List", "metadata": {"continue": "more", "resourceVersion": "1"}, "items": page})


async def talks_nonsense(request: web.Request) -> web.StreamResponse:
    """Answer in JSON of the wrong shapes."""
    if request.path == "/version":
        return web.json_response([[], None, 7])
    if (found := _discovered(request.path)) is not None:
        return web.json_response(found)
    shapes: list[object] = [None, [], "text", {"metadata": 3}, {"items": 1}, {"items": [1, None], "metadata": {}}]
    return web.json_response(shapes[hash(request.path) % len(shapes)])


def _discovered(path: str) -> object | None:
    if path == "/api/v1":
        kinds = (("secrets", "Secret", True), ("configmaps", "ConfigMap", True), ("namespaces", "Namespace", False))
        resources = [
            {"name": name, "kind": kind, "namespaced": namespaced, "verbs": ["get", "list", "create"]}
            for name, kind, namespaced in kinds
        ]
        return {"kind": "APIResourceList", "groupVersion": "v1", "resources": resources}
    if path == "/api":
        return {"kind": "APIVersions", "versions": ["v1"]}
    if path == "/apis":
        return {"kind": "APIGroupList", "groups": []}
    return None


@asynccontextmanager
async def hostile_server(reply: Reply) -> AsyncGenerator[HostileServer]:
    """Serve ``reply`` over TLS on a free loopback port."""
    made = HostileServer()

    async def answer(request: web.Request) -> web.StreamResponse:
        made.asked += 1
        return await reply(request)

    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", answer)
    authority, runner = identity("authority"), web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=_context(authority))
        await site.start()
        [(host, port)] = runner.addresses
        made.kubeconfig = _kubeconfig(f"https://{host}:{port}", authority)
        yield made
    finally:
        await runner.cleanup()


@asynccontextmanager
async def silent_server() -> AsyncGenerator[HostileServer]:
    """Accept connections and say nothing, not even in TLS."""
    made = HostileServer()
    writers: list[asyncio.StreamWriter] = []

    def connected(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        made.asked += 1
        writers.append(writer)

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    made.kubeconfig = _kubeconfig(f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}", identity("authority"))
    try:
        yield made
    finally:
        server.close()
        for writer in writers:
            writer.transport.abort()
        await server.wait_closed()


def _kubeconfig(server: str, authority: Identity) -> str:
    return render(ApiAccess(server=server, ca_pem=authority.certificate_pem.decode(), token="stolen"))


def _context(authority: Identity) -> ssl.SSLContext:
    server = identity("server", authority)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    with tempfile.NamedTemporaryFile() as file:
        path = Path(file.name)
        path.write_bytes(server.key_pem + server.certificate_pem)
        context.load_cert_chain(path)
    return context
