"""Who talks to whom: server certificates are checked, client certificates are shown and leave no file behind."""

from __future__ import annotations

import base64
import ssl
import tempfile
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import yaml
from aiohttp import web

from support.tls import Identity, identity
from windlass.adapters.kube.client import KubeClient
from windlass.domain.errors import TransientError


@dataclass
class Site:
    """A server that answers discovery with the common name of whoever asks."""

    url: str
    authority: Identity

    def kubeconfig(self, client: Identity | None, *, authority: Identity | None = None, **cluster: Any) -> str:
        ca = (authority or self.authority).certificate_pem
        user = {}
        if client is not None:
            user = {
                "client-certificate-data": base64.b64encode(client.certificate_pem).decode(),
                "client-key-data": base64.b64encode(client.key_pem).decode(),
            }
        entry = {"server": self.url, "certificate-authority-data": base64.b64encode(ca).decode(), **cluster}
        return yaml.safe_dump(
            {
                "current-context": "it",
                "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
                "clusters": [{"name": "it", "cluster": entry}],
                "users": [{"name": "it", "user": user}],
            }
        )


async def _who(request: web.Request) -> web.Response:
    assert request.transport is not None
    subject = dict(pair for rdn in request.transport.get_extra_info("peercert")["subject"] for pair in rdn)
    return web.json_response({"resources": [{"name": "it", "kind": subject["commonName"], "namespaced": True}]})


@pytest_asyncio.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    authority = identity("authority")
    server = identity("server", authority)
    pem = tmp_path / "server.pem"
    pem.write_bytes(server.certificate_pem + server.key_pem)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cadata=authority.certificate_pem.decode())
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_cert_chain(pem)
    app = web.Application()
    app.router.add_get("/api/v1", _who)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    yield Site(f"https://127.0.0.1:{runner.addresses[0][1]}", authority)
    await runner.cleanup()


async def ask(kubeconfig: str) -> bool:
    async with KubeClient.from_kubeconfig(kubeconfig) as kube:
        return await kube.resource("v1", "alice") is not None


async def test_a_client_certificate_is_shown_and_not_left_on_disk(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    assert await ask(site.kubeconfig(identity("alice", site.authority)))
    assert list(scratch.iterdir()) == []


async def test_a_server_of_another_authority_or_name_is_refused(site: Site) -> None:
    alice = identity("alice", site.authority)
    for text in (
        site.kubeconfig(alice, authority=identity("other")),
        site.kubeconfig(alice, **{"tls-server-name": "elsewhere"}),
    ):
        with pytest.raises(TransientError, match="ertificate"):
            await ask(text)
    assert await ask(site.kubeconfig(alice, **{"tls-server-name": "server"}))
    assert await ask(site.kubeconfig(alice, **{"insecure-skip-tls-verify": True, "tls-server-name": "elsewhere"}))


async def test_without_a_client_certificate_the_server_refuses(site: Site) -> None:
    with pytest.raises(TransientError, match="does not answer"):
        await ask(site.kubeconfig(None))
