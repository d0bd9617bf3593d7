"""Signatures as cosign stores them, made by the tests' own keys."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.utils import Prehashed
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from support.packages import package_yaml, write_tree
from support.referrers import referring_registry
from support.registry import RunningRegistry
from windlass.adapters.packages.cache.store import PackageStore
from windlass.adapters.packages.sources.cosign import PAYLOAD, SIGNATURE, tag_of
from windlass.adapters.packages.sources.push import push
from windlass.adapters.packages.sources.registry import INDEXES, OCI_MANIFEST, Registry
from windlass.adapters.packages.sources.signatures import SIGN_PREDICATE, SIMPLE_TYPE, STATEMENT
from windlass.adapters.packages.sources.transport import FetchLimits, connected
from windlass.domain.errors import PermanentError, Reason
from windlass.domain.packages.model import Source
from windlass.ports.packages import Access, Repository

BUNDLE_TYPE = "application/vnd.dev.sigstore.bundle.v0.3+json"
SOURCE = Source(repository="corp", package="webapp", version="1.0.0")
VERIFY = {"provider": "cosign", "key": {"secretRef": {"name": "cosign"}}}


def pem(key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> bytes:
    return key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


@pytest.fixture
def key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def payload(digest: str, **critical: Any) -> bytes:
    facts = {
        "identity": {"docker-reference": "corp/webapp"},
        "image": {"docker-manifest-digest": digest},
        "type": SIMPLE_TYPE,
    }
    return json.dumps({"critical": facts | critical, "optional": None}).encode()


@asynccontextmanager
async def client(registry: RunningRegistry) -> AsyncIterator[Registry]:
    base = registry.base
    async with connected(
        where="test", origin=base, access=registry.access, insecure=registry.authority is None, limits=FetchLimits()
    ) as transport:
        yield Registry(transport, base, registry.access.login)


async def stored(client: Registry, name: str, content: bytes, media_type: str, **more: Any) -> dict[str, Any]:
    """Store a blob; return its descriptor."""
    digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
    await client.push_blob(name, content, digest)
    return {"mediaType": media_type, "digest": digest, "size": len(content), **more}


async def sign(
    registry: RunningRegistry, path: str, digest: str, *signed: tuple[ec.EllipticCurvePrivateKey, bytes, bytes]
) -> None:
    """Store signatures beside a manifest: each is a key, what it signs, and what is stored as the payload."""
    name = f"{path}/webapp"
    async with client(registry) as there:
        layers: list[dict[str, Any]] = []
        for key, content, payload in signed:
            signature = base64.b64encode(key.sign(content, ec.ECDSA(SHA256()))).decode()
            layers.append(await stored(there, name, payload, PAYLOAD, annotations={SIGNATURE: signature}))
        config = await stored(there, name, b"{}", "application/vnd.oci.image.config.v1+json")
        manifest = {"schemaVersion": 2, "mediaType": OCI_MANIFEST, "config": config, "layers": layers}
        await there.push_manifest(name, tag_of(digest), manifest)


async def attach(registry: RunningRegistry, path: str, digest: str, *bundles: bytes, api: bool = False) -> None:
    """Store bundles as artifacts that refer to a manifest; without the API for it, list them under a tag."""
    name = f"{path}/webapp"
    entries: list[dict[str, Any]] = [
        {"mediaType": OCI_MANIFEST, "digest": digest, "size": 1, "artifactType": "application/vnd.example.sbom"},
        {"artifactType": BUNDLE_TYPE, "digest": "nonsense"},
    ]
    async with client(registry) as there:
        for bundle in bundles:
            empty = await stored(there, name, b"{}", "application/vnd.oci.empty.v1+json")
            manifest = {
                "schemaVersion": 2,
                "mediaType": OCI_MANIFEST,
                "artifactType": BUNDLE_TYPE,
                "config": empty,
                "layers": [await stored(there, name, bundle, BUNDLE_TYPE)],
                "subject": {"mediaType": OCI_MANIFEST, "digest": digest, "size": 1},
            }
            body = json.dumps(manifest, separators=(",", ":")).encode()
            reference = f"sha256:{hashlib.sha256(body).hexdigest()}"
            assert await there.push_manifest(name, reference, manifest) == reference
            entries.append(
                {"mediaType": OCI_MANIFEST, "digest": reference, "size": len(body), "artifactType": BUNDLE_TYPE}
            )
        if not api:
            index = {"schemaVersion": 2, "mediaType": INDEXES[0], "manifests": entries[2:]}
            await there.push_manifest(name, digest.replace(":", "-"), index)


def statement(digest: str, **changed: Any) -> bytes:
    document = {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"digest": {"sha512": "0"}}, {"digest": {"sha256": digest.removeprefix("sha256:")}}],
        "predicateType": SIGN_PREDICATE,
        "predicate": {},
    }
    return json.dumps(document | changed).encode()


def enveloped(key: ec.EllipticCurvePrivateKey, content: bytes, *, kind: str = STATEMENT, shown: bytes = b"") -> bytes:
    """Return a bundle with an envelope; ``shown`` is put in place of what is signed."""
    encoded = b" ".join([b"DSSEv1", str(len(kind)).encode(), kind.encode(), str(len(content)).encode(), content])
    signature = base64.b64encode(key.sign(encoded, ec.ECDSA(SHA256()))).decode()
    envelope = {
        "payload": base64.b64encode(shown or content).decode(),
        "payloadType": kind,
        "signatures": [{"sig": base64.b64encode(b"other").decode(), "keyid": ""}, {"sig": signature}],
    }
    return bundle_of(dsseEnvelope=envelope)


def bundle_of(**content: Any) -> bytes:
    material = {"publicKey": {"hint": "a hint"}, "tlogEntries": []}
    return json.dumps({"mediaType": BUNDLE_TYPE, "verificationMaterial": material, **content}).encode()


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


# -- bundles ---------------------------------------------------------------------------------------------------------


async def test_a_bundle_with_a_statement_is_enough(
    secured: RunningRegistry, store: PackageStore, tmp_path: Path, key: ec.EllipticCurvePrivateKey
) -> None:
    digest = await pushed(secured, tmp_path, "bundle/good")
    stranger = ec.generate_private_key(ec.SECP256R1())
    good = statement(digest)
    await attach(secured, "bundle/good", digest, b"no json", enveloped(stranger, good), enveloped(key, good))
    artifact = await store.resolve(trusting(secured, "bundle/good", pem(key)), SOURCE)
    assert await store.ensure(trusting(secured, "bundle/good", pem(key)), artifact)


async def test_a_bundle_with_a_signature_over_the_manifest_is_enough(
    secured: RunningRegistry, store: PackageStore, tmp_path: Path, key: ec.EllipticCurvePrivateKey
) -> None:
    digest = await pushed(secured, tmp_path, "bundle/message")
    signature = key.sign(bytes.fromhex(digest[7:]), ec.ECDSA(Prehashed(SHA256())))
    packed = base64.b64encode(signature).decode()
    hashed = {"algorithm": "SHA2_256", "digest": base64.b64encode(bytes.fromhex(digest[7:])).decode()}
    message = bundle_of(messageSignature={"messageDigest": hashed, "signature": packed})
    await attach(secured, "bundle/message", digest, message)
    assert await store.resolve(trusting(secured, "bundle/message", pem(key)), SOURCE)
    other = pem(ec.generate_private_key(ec.SECP256R1()))
    assert "none of the trusted keys" in await problem(store, trusting(secured, "bundle/message", other))


async def test_a_bundle_counts_beside_a_signature_of_the_old_format_by_a_stranger(
    secured: RunningRegistry, store: PackageStore, tmp_path: Path, key: ec.EllipticCurvePrivateKey
) -> None:
    digest = await pushed(secured, tmp_path, "bundle/both")
    stranger = ec.generate_private_key(ec.SECP256R1())
    await sign(secured, "bundle/both", digest, (stranger, payload(digest), payload(digest)))
    await attach(secured, "bundle/both", digest, enveloped(key, statement(digest)))
    assert await store.resolve(trusting(secured, "bundle/both", pem(key)), SOURCE)


async def test_bundles_that_are_not_enough(
    secured: RunningRegistry, store: PackageStore, tmp_path: Path, key: ec.EllipticCurvePrivateKey
) -> None:
    digest = await pushed(secured, tmp_path, "bundle/bad")
    repository = trusting(secured, "bundle/bad", pem(key))
    good, other = statement(digest), statement("sha256:" + "0" * 64)
    stranger = ec.generate_private_key(ec.SECP256R1())
    cases = {
        enveloped(stranger, good): "none of the trusted keys",
        enveloped(key, other, shown=good): "none of the trusted keys",
        enveloped(key, other): "for something else",
        enveloped(key, statement(digest, predicateType="https://spdx.dev/Document")): "for something else",
        enveloped(key, statement(digest, subject="x")): "for something else",
        enveloped(key, b"[]"): "for something else",
        enveloped(key, good, kind="text/plain"): "no signature with a key",
        bundle_of(dsseEnvelope={"payload": 5, "payloadType": STATEMENT, "signatures": []}): "no signature with a key",
        bundle_of(dsseEnvelope={"payload": "", "payloadType": STATEMENT, "signatures": []}): "none of the trusted keys",
        bundle_of(messageSignature={"signature": "!"}): "no signature with a key",
        bundle_of(messageSignature={"signature": ""}): "none of the trusted keys",
        bundle_of(): "no signature with a key",
        b"[" * 100_000: "no signature with a key",
        b"\xff": "no signature with a key",
    }
    for bundle, says in cases.items():
        await attach(secured, "bundle/bad", digest, bundle)
        assert says in await problem(store, repository), bundle[:200]


async def test_bundles_are_found_by_the_referrers_api_too(
    store: PackageStore, tmp_path: Path, key: ec.EllipticCurvePrivateKey
) -> None:
    async with referring_registry() as registry:
        digest = await pushed(registry, tmp_path, "api")
        repository = trusting(registry, "api", pem(key))
        assert "is not signed" in await problem(store, repository)
        await attach(registry, "api", digest, enveloped(key, statement(digest)), api=True)
        assert await store.resolve(repository, SOURCE)
