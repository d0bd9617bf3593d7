"""An HTTP API of DNS records, as the example `nats-routes` expects one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web


@dataclass
class DnsApi:
    """The records, and a switch that makes every request fail."""

    records: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    broken: bool = False
    url: str = ""
    etags: int = 0

    async def list(self, _request: web.Request) -> web.Response:
        self._check()
        return web.json_response([{"host": host, **record} for host, record in self.records.items()])

    async def put(self, request: web.Request) -> web.Response:
        self._check()
        self.etags += 1
        self.records[request.match_info["host"]] = {**await request.json(), "etag": str(self.etags)}
        return web.json_response({})

    async def delete(self, request: web.Request) -> web.Response:
        self._check()
        record = self.records.get(request.match_info["host"])
        if record is None:
            raise web.HTTPNotFound
        if request.headers["If-Match"] != record["etag"]:
            raise web.HTTPPreconditionFailed
        del self.records[request.match_info["host"]]
        return web.json_response({})

    def _check(self) -> None:
        if self.broken:
            raise web.HTTPServiceUnavailable


@asynccontextmanager
async def dns_api() -> AsyncIterator[DnsApi]:
    """Serve the API on a free loopback port."""
    api = DnsApi()
    app = web.Application()
    app.add_routes(
        [
            web.get("/records", api.list),
            web.put("/records/{host}", api.put),
            web.delete("/records/{host}", api.delete),
        ]
    )
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        host, port = runner.addresses[0][:2]
        api.url = f"http://{host}:{port}"
        yield api
    finally:
        await runner.cleanup()
