"""Who talks to whom: server certificates are checked, client certificates are shown and leave no file behind."""

from __future__ import annotations

import base64
import ipaddress
import ssl
import tempfile
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import yaml
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from windlass.adapters.kube.client import KubeClient
from windlass.domain.errors import TransientError

NOW = datetime.now(UTC)


@dataclass
class Identity:
    """A key and a certificate, signed by ``issuer`` or by itself."""

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    @property
    def certificate_pem(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    @property
    def key_pem(self) -> bytes:
        return self.key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )


def identity(name: str, issuer: Identity | None = None) -> Identity:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    names = [x509.DNSName(name), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer.certificate.subject if issuer else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(NOW - timedelta(hours=1))
        .not_valid_after(NOW + timedelta(hours=1))
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
        .add_extension(
            x509.KeyUsage(
                digital_signature=True,
                key_cert_sign=issuer is None,
                crl_sign=issuer is None,
                content_commitment=False,
                key_encipherment=False,
                data_encipherment=False,
                key_agreement=False,
                encipher_only=False,
                decipher_only=False,
            ),
            critical=True,
        )
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    if issuer is not None:
        builder = builder.add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer.key.public_key()), critical=False
        )
        # An address is valid for the API server only; its clients are known by their names.
        builder = builder.add_extension(
            x509.SubjectAlternativeName(names if name == "server" else names[:1]), critical=False
        )
    return Identity(key, builder.sign(issuer.key if issuer else key, hashes.SHA256()))


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
