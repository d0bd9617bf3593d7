"""An API server that answers from a script: faults a real one does not show on demand."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from windlass.adapters.kube.client import KubeClient

type Reply = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass
class ScriptedApi:
    """Answers discovery of ConfigMaps and Secrets, and the rest from a script, in order."""

    url: str = ""
    script: list[Reply] = field(default_factory=list[Reply])
    requests: list[web.Request] = field(default_factory=list[web.Request])
    discoveries: int = 0

    @property
    def kubeconfig(self) -> str:
        return json.dumps(
            {
                "current-context": "it",
                "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
                "clusters": [{"name": "it", "cluster": {"server": self.url}}],
                "users": [{"name": "it", "user": {"token": "t"}}],
            }
        )

    def client(self, **options: Any) -> KubeClient:
        return KubeClient.from_kubeconfig(self.kubeconfig, **options)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        if request.path == "/api/v1":
            self.discoveries += 1
            resources = [
                {"name": "configmaps", "kind": "ConfigMap", "namespaced": True},
                {"name": "secrets", "kind": "Secret", "namespaced": True},
            ]
            return web.json_response({"kind": "APIResourceList", "resources": resources})
        self.requests.append(request)
        if not self.script:
            return web.json_response({"kind": "Status", "message": "the script has ended"}, status=500)
        return await self.script.pop(0)(request)


@asynccontextmanager
async def scripted_api() -> AsyncIterator[ScriptedApi]:
    """Serve a `ScriptedApi` on a free loopback port."""
    scripted = ScriptedApi()
    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", scripted.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    scripted.url = f"http://{host}:{port}"
    try:
        yield scripted
    finally:
        await runner.cleanup()


def answer(body: Any, status: int = 200, **headers: str) -> Reply:
    """Make a reply with a JSON body."""

    async def reply(_request: web.Request) -> web.StreamResponse:
        return web.json_response(body, status=status, headers={k.replace("_", "-"): v for k, v in headers.items()})

    return reply


def stream(*chunks: bytes, then: Callable[[], Awaitable[None]] | None = None) -> Reply:
    """Make a reply that sends ``chunks`` and then ends, or waits for ``then`` first."""

    async def reply(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for chunk in chunks:
            await response.write(chunk)
        if then is not None:
            await then()
        return response

    return reply
