"""Signatures as cosign stores them, made by the tests' own keys."""

from __future__ import annotations

import base64
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from support.packages import package_yaml, write_tree
from support.registry import RunningRegistry
from windlass.adapters.packages.cosign import PAYLOAD, SIGNATURE, TYPE, tag_of
from windlass.adapters.packages.push import push
from windlass.adapters.packages.registry import OCI_MANIFEST, Registry
from windlass.adapters.packages.store import PackageStore
from windlass.adapters.packages.transport import FetchLimits, connected
from windlass.domain.errors import PermanentError, Reason
from windlass.domain.package import Source
from windlass.ports.packages import Access, Repository

SOURCE = Source(repository="corp", package="webapp", version="1.0.0")
VERIFY = {"provider": "cosign", "key": {"secretRef": {"name": "cosign"}}}


def pem(key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> bytes:
    return key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


@pytest.fixture
def key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def payload(digest: str, **critical: Any) -> bytes:
    facts = {"identity": {"docker-reference": "corp/webapp"}, "image": {"docker-manifest-digest": digest}, "type": TYPE}
    return json.dumps({"critical": facts | critical, "optional": None}).encode()


async def sign(
    registry: RunningRegistry, path: str, digest: str, *signed: tuple[ec.EllipticCurvePrivateKey, bytes, bytes]
) -> None:
    """Store signatures beside a manifest: each is a key, what it signs, and what is stored as the payload."""
    async with connected(
        where="test",
        origin=f"https://{registry.host}",
        access=registry.access,
        insecure=False,
        limits=FetchLimits(),
    ) as transport:
        client = Registry(transport, f"https://{registry.host}", registry.access.login)
        name = f"{path}/webapp"
        layers: list[dict[str, Any]] = []
        for key, content, stored in signed:
            blob = f"sha256:{hashlib.sha256(stored).hexdigest()}"
            await client.push_blob(name, stored, blob)
            signature = base64.b64encode(key.sign(content, ec.ECDSA(SHA256()))).decode()
            layers.append(
                {
                    "mediaType": PAYLOAD,
                    "digest": blob,
                    "size": len(stored),
                    "annotations": {SIGNATURE: signature},
                }
            )
        config = b"{}"
        about = f"sha256:{hashlib.sha256(config).hexdigest()}"
        await client.push_blob(name, config, about)
        described = {"mediaType": "application/vnd.oci.image.config.v1+json", "digest": about, "size": len(config)}
        manifest = {"schemaVersion": 2, "mediaType": OCI_MANIFEST, "config": described, "layers": layers}
        await client.push_manifest(name, tag_of(digest), manifest)


async def pushed(registry: RunningRegistry, folder: Path, path: str, text: str = "x") -> str:
    root = write_tree(folder / text, {"package.yaml": package_yaml(), "templates/a.yaml": text})
    return (await push(registry.repository(path), root)).manifest


def trusting(registry: RunningRegistry, path: str, *keys: bytes) -> Repository:
    given = registry.access
    access = Access(login=given.login, authorities=given.authorities, trusted=keys)
    return registry.repository(path, access, verify=VERIFY)


async def problem(store: PackageStore, repository: Repository) -> str:
    with pytest.raises(PermanentError) as refused:
        await store.resolve(repository, SOURCE)
    assert refused.value.reason is Reason.SIGNATURE_INVALID
    return refused.value.message


async def test_a_signature_of_a_trusted_key_is_enough(
    secured: RunningRegistry, store: PackageStore, tmp_path: Path, key: ec.EllipticCurvePrivateKey
) -> None:
    digest = await pushed(secured, tmp_path, "sign/good")
    repository = trusting(secured, "sign/good", pem(key))
    assert "is not signed" in await problem(store, repository)
    stranger = ec.generate_private_key(ec.SECP256R1())
    good = payload(digest)
    await sign(secured, "sign/good", digest, (stranger, good, good), (key, good, good))
    artifact = await store.resolve(repository, SOURCE)
    assert await store.ensure(repository, artifact)


async def test_a_signature_does_not_move_to_other_content(
    secured: RunningRegistry, store: PackageStore, tmp_path: Path, key: ec.EllipticCurvePrivateKey
) -> None:
    first = await pushed(secured, tmp_path, "sign/moved")
    good = payload(first)
    await sign(secured, "sign/moved", first, (key, good, good))
    second = await pushed(secured, tmp_path, "sign/moved", "y")
    repository = trusting(secured, "sign/moved", pem(key))
    assert "is not signed" in await problem(store, repository)
    await sign(secured, "sign/moved", second, (key, good, good))
    assert "for something else" in await problem(store, repository)


async def test_wrong_keys_and_tampered_payloads(
    secured: RunningRegistry, store: PackageStore, tmp_path: Path, key: ec.EllipticCurvePrivateKey
) -> None:
    digest = await pushed(secured, tmp_path, "sign/bad")
    repository = trusting(secured, "sign/bad", pem(key))
    good = payload(digest)
    stranger = ec.generate_private_key(ec.SECP256R1())
    await sign(secured, "sign/bad", digest, (stranger, good, good))
    assert "none of the trusted keys" in await problem(store, repository)
    await sign(secured, "sign/bad", digest, (key, payload("sha256:" + "0" * 64), good))
    assert "none of the trusted keys" in await problem(store, repository)
    for nonsense in (b"not json", b"[]", b'{"critical": []}', payload(digest, type="else"), payload(digest, image=[])):
        await sign(secured, "sign/bad", digest, (key, nonsense, nonsense))
        assert "for something else" in await problem(store, repository)
    await sign(secured, "sign/bad", digest)
    assert "no signature with a key" in await problem(store, repository)


async def test_a_key_has_to_be_one(secured: RunningRegistry, store: PackageStore, tmp_path: Path) -> None:
    await pushed(secured, tmp_path, "sign/key")
    other = pem(rsa.generate_private_key(65537, 2048)), pem(ec.generate_private_key(ec.SECP384R1()))
    for wrong in (b"", b"no pem", *other):
        assert "no ECDSA P-256 public key" in await problem(store, trusting(secured, "sign/key", wrong))
    assert "is not signed" in await problem(store, trusting(secured, "sign/key"))
