"""A Temporal that asks for TLS and client certificates, as people bring it: a proxy before the embedded one."""

from __future__ import annotations

import asyncio
import datetime as dt
import ipaddress
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from replay.keyring import REPLAY_KEYRING

from support.installation import installed, write_greeter
from windlass.cli.context import Context
from windlass.cli.stack.reachable import examine
from windlass.devstack.doctor import Level
from windlass.devstack.stack import Stack
from windlass.domain.errors import WindlassError
from windlass.temporal.client import TemporalTarget, connect

DAY = dt.timedelta(days=1)


@dataclass(frozen=True)
class Issued:
    """A certificate and its key, on disk."""

    name: x509.Name
    key: ec.EllipticCurvePrivateKey
    certificate: Path
    private: Path


def issue(folder: Path, name: str, signer: Issued | None = None) -> Issued:
    """Make a certificate for 127.0.0.1, signed by ``signer`` or by itself as an authority."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = dt.datetime.now(dt.UTC)
    built = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(signer.name if signer else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - DAY)
        .not_valid_after(now + DAY)
        .add_extension(x509.BasicConstraints(ca=signer is None, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .sign(signer.key if signer else key, hashes.SHA256())
    )
    certificate, private = folder / f"{name}.crt", folder / f"{name}.key"
    certificate.write_bytes(built.public_bytes(serialization.Encoding.PEM))
    private.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return Issued(subject, key, certificate, private)


@pytest.fixture
async def brought(stack: Stack, tmp_path: Path) -> AsyncIterator[dict[str, str]]:
    """What the environment has to say to be let in."""
    authority = issue(tmp_path, "authority")
    server, client = issue(tmp_path, "server", authority), issue(tmp_path, "client", authority)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(authority.certificate))
    context.load_cert_chain(server.certificate, server.private)
    context.verify_mode = ssl.CERT_REQUIRED
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT  # the certificates above carry no key identifiers
    context.set_alpn_protocols(["h2"])
    host, port = stack.temporal_address.split(":")
    carried: set[asyncio.Task[None]] = set()

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inside, outside = await asyncio.open_connection(host, int(port))
        ways = [asyncio.create_task(_copy(reader, outside)), asyncio.create_task(_copy(inside, writer))]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            for one in (writer, outside):
                one.transport.abort()

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(carry(reader, writer))
        carried.add(task)
        task.add_done_callback(carried.discard)

    proxy = await asyncio.start_server(connected, "127.0.0.1", 0, ssl=context)
    try:
        yield {
            "TEMPORAL_ADDRESS": f"127.0.0.1:{proxy.sockets[0].getsockname()[1]}",
            "TEMPORAL_TLS": "true",
            "TEMPORAL_TLS_SERVER_CA_CERT_PATH": str(authority.certificate),
            "TEMPORAL_TLS_CLIENT_CERT_PATH": str(client.certificate),
            "TEMPORAL_TLS_CLIENT_KEY_PATH": str(client.private),
            "TEMPORAL_CONFIG_FILE": str(tmp_path / "none.toml"),
        }
    finally:
        proxy.close()
        for task in carried:
            task.cancel()
        await asyncio.gather(*carried, return_exceptions=True)
        proxy.abort_clients()
        await proxy.wait_closed()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while chunk := await reader.read(1 << 16):
        writer.write(chunk)
        await writer.drain()


async def _connect(environ: dict[str, str]) -> None:
    target = TemporalTarget.from_environment(environ)
    assert target is not None
    await connect(target, keyring=REPLAY_KEYRING, role="test", timeout=5)


async def test_certificates_of_the_environment_open_the_door(brought: dict[str, str]) -> None:
    await _connect(brought)


@pytest.mark.parametrize("missing", ["TEMPORAL_TLS_CLIENT", "TEMPORAL_TLS_SERVER_CA", "TEMPORAL_TLS"])
async def test_without_one_of_them_it_stays_shut_and_says_where(brought: dict[str, str], missing: str) -> None:
    environ = {name: value for name, value in brought.items() if not name.startswith(missing)}
    with pytest.raises(WindlassError) as refused:
        await _connect(environ)
    assert brought["TEMPORAL_ADDRESS"] in str(refused.value)
    assert "PRIVATE KEY" not in str(refused.value)


async def test_a_profile_says_the_same(brought: dict[str, str], tmp_path: Path) -> None:
    file = tmp_path / "temporal.toml"
    file.write_text(
        f"""
[profile.team]
address = "{brought["TEMPORAL_ADDRESS"]}"
namespace = "default"
[profile.team.tls]
server_ca_cert_path = "{brought["TEMPORAL_TLS_SERVER_CA_CERT_PATH"]}"
client_cert_path = "{brought["TEMPORAL_TLS_CLIENT_CERT_PATH"]}"
client_key_path = "{brought["TEMPORAL_TLS_CLIENT_KEY_PATH"]}"
"""
    )
    await _connect({"TEMPORAL_CONFIG_FILE": str(file), "TEMPORAL_PROFILE": "team"})


async def test_a_package_lives_behind_it(stack: Stack, brought: dict[str, str], tmp_path: Path) -> None:
    async with installed(stack, tmp_path / "installation", **brought) as installation:
        write_greeter(tmp_path / "packages", "1.0.0")
        await installation.repository(tmp_path / "packages")
        installation.start()
        await installation.application("one", "greeter", "1.0.0")
        await installation.ready("one", "1.0.0", within=60)
        assert installation.stop() == 0


async def test_the_doctor_asks_what_is_brought(stack: Stack, brought: dict[str, str], tmp_path: Path) -> None:
    environ = {**brought, "KUBECONFIG": str(stack.kubeconfig)}
    found = {one.subject: one for one in await examine(Context.find(tmp_path, environ))}
    assert {name: one.level for name, one in found.items() if name not in {"watcher", "worker", "inspect"}} == {
        "temporal": Level.OK,
        "search attributes": Level.OK,
        "cluster": Level.OK,
        "definitions": Level.OK,
    }
    assert "TLS" in found["temporal"].found

    absent = {
        one.subject: one for one in await examine(Context.find(tmp_path, {**environ, "TEMPORAL_NAMESPACE": "nope"}))
    }
    assert absent["temporal"].level is Level.PROBLEM
    assert "nope" in absent["temporal"].found
    assert absent["temporal"].advice
