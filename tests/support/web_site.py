"""A web server with a Helm repository, honest or hostile, as a test decides."""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import yaml
from aiohttp import web
from aiohttp.test_utils import TestServer

from support.packages import entry, package_yaml, tar_bytes
from windlass.domain.packages.registry_login import Login
from windlass.ports.packages import Access, Repository

type Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
"""Answers one request."""

LOGIN = Login(username="robot", password="s3cret")


def packed(*entries: Any) -> bytes:
    return gzip.compress(tar_bytes(entries), mtime=0)


def archive(version: str = "1.0.0") -> bytes:
    return packed(entry("webapp/package.yaml", package_yaml(version=version).encode()))


@dataclass
class Site:
    """A web server whose answers a test decides, by path."""

    url: str = ""
    answers: dict[str, Handler | bytes | int] = field(default_factory=dict[str, Handler | bytes | int])
    asked: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])

    @property
    def host(self) -> str:
        """Host and port, as a list of hosts names them."""
        return self.url.partition("://")[2]

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.asked.append((request.path, request.headers.get("Authorization", "")))
        answer = self.answers.get(request.path, 404)
        if isinstance(answer, int):
            return web.Response(status=answer, text="secret words of the server")
        if isinstance(answer, bytes):
            return web.Response(body=answer)
        return await answer(request)

    def repository(self, kind: str = "helm", access: Access | None = None, **more: Any) -> Repository:
        spec = {"kind": kind, kind: {"url": self.url, "insecure": True, **more}}
        return Repository(name="corp", spec=spec, access=access or Access())

    def index(self, *versions: str, **changed: Any) -> None:
        """Serve an index and the archives it names."""
        charts: list[dict[str, Any]] = []
        for version in versions:
            content = archive(version)
            self.answers[f"/webapp-{version}.tgz"] = content
            digest = hashlib.sha256(content).hexdigest()
            chart = {"name": "webapp", "version": version, "urls": [f"webapp-{version}.tgz"], "digest": digest}
            charts.append(chart | changed)
        document = {"apiVersion": "v1", "entries": {"webapp": charts}}
        self.answers["/index.yaml"] = yaml.safe_dump(document).encode()


@asynccontextmanager
async def serving() -> AsyncIterator[Site]:
    made = Site()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", made.handle)
    async with TestServer(app) as server:
        made.url = str(server.make_url("/")).rstrip("/")
        yield made


def redirect(to: str) -> Handler:
    async def handler(_request: web.Request) -> web.StreamResponse:
        return web.Response(status=302, headers={"Location": to})

    return handler
