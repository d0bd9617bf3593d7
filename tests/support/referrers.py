"""A registry in memory that has the referrers API (OCI distribution 1.1), which the real one of the tests lacks."""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestServer

from support.registry import RunningRegistry

_INDEX = "application/vnd.oci.image.index.v1+json"


@dataclass
class _Stored:
    """Blobs and manifests by digest, manifests by tag as well."""

    blobs: dict[str, bytes] = field(default_factory=dict[str, bytes])
    manifests: dict[str, bytes] = field(default_factory=dict[str, bytes])

    async def handle(self, request: web.Request) -> web.StreamResponse:
        _, call, reference = request.path.rsplit("/", 2)
        if request.method == "POST":  # /v2/<name>/blobs/uploads/
            return web.Response(status=202, headers={"Location": f"{request.path}one"})
        if request.method == "PUT" and call == "manifests":
            body = await request.read()
            for key in (reference, f"sha256:{hashlib.sha256(body).hexdigest()}"):
                self.manifests[key] = body
            return web.Response(status=201)
        if request.method == "PUT":
            self.blobs[request.query["digest"]] = await request.read()
            return web.Response(status=201)
        if call == "referrers":
            return web.json_response(self.referrers(reference), content_type=_INDEX)
        content = {"blobs": self.blobs, "manifests": self.manifests}.get(call, {}).get(reference)
        return web.Response(status=404) if content is None else web.Response(body=content)

    def referrers(self, digest: str) -> dict[str, Any]:
        found: list[dict[str, Any]] = []
        for key, body in self.manifests.items():
            manifest = json.loads(body)
            if key.startswith("sha256:") and manifest.get("subject", {}).get("digest") == digest:
                described = {"mediaType": manifest["mediaType"], "digest": key, "size": len(body)}
                found.append({**described, "artifactType": manifest["artifactType"]})
        return {"schemaVersion": 2, "mediaType": _INDEX, "manifests": found}


@asynccontextmanager
async def referring_registry() -> AsyncIterator[RunningRegistry]:
    """Serve one without a login."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", _Stored().handle)
    async with TestServer(app) as server:
        yield RunningRegistry(host=f"127.0.0.1:{server.port}", authority=None, log=Path("/dev/null"))
