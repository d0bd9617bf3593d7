"""Cosign signatures with a key, as ``cosign sign --key`` stores them beside an image.

The format is that of github.com/sigstore/cosign, specs/SIGNATURE_SPEC.md: the image ``<name>:sha256-<hex>.sig`` has one
layer for each signature. The layer's blob is the payload ("simple signing" of github.com/containers/image), which names
the digest of the signed manifest; the annotation `SIGNATURE` holds the base64 of an ECDSA signature (P-256, SHA-256)
over the payload's bytes.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Sequence
from typing import Any, Final

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from windlass.adapters.packages.registry import Registry
from windlass.domain.documents import is_object
from windlass.domain.errors import Actor, PermanentError, Reason

SIGNATURE: Final = "dev.cosignproject.cosign/signature"
PAYLOAD: Final = "application/vnd.dev.cosign.simplesigning.v1+json"
TYPE: Final = "cosign container image signature"

_MOST: Final = 50
"""Signatures of one image that are looked at."""


async def verify(registry: Registry, name: str, digest: str, trusted: Sequence[bytes]) -> None:
    """See that one of the ``trusted`` keys (PEM) has signed the manifest ``digest`` of ``name``.

    Raises:
        PermanentError: SIGNATURE_INVALID, it is unsigned, signed by another key, or the signature is for other content.
        TransientError: DOWNLOAD_FAILED, the registry does not answer.
    """
    keys = [_key(registry, pem) for pem in trusted]
    manifest = await registry.manifest(name, tag_of(digest))
    if manifest is None:
        raise _invalid(registry, name, digest, "it is not signed", "sign it: cosign sign --key")
    problem = "it has no signature with a key"
    for layer in [layer for layer in manifest.layers if layer.media_type == PAYLOAD][:_MOST]:
        payload = await registry.read(name, layer)
        if not any(_signed(key, layer.annotations.get(SIGNATURE, ""), payload) for key in keys):
            problem = "it is signed by none of the trusted keys"
        elif _names(payload, digest):
            return
        else:
            problem = "its signature is for something else"
    raise _invalid(registry, name, digest, problem, "sign it with a key of spec.verify, or mend spec.verify")


def tag_of(digest: str) -> str:
    """Return the tag under which signatures of a manifest are stored."""
    return f"{digest.replace(':', '-')}.sig"


def _key(registry: Registry, pem: bytes) -> ec.EllipticCurvePublicKey:
    try:
        key = load_pem_public_key(pem)
    except (ValueError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(key.curve, ec.SECP256R1):
        raise PermanentError(
            Reason.SIGNATURE_INVALID,
            f"{registry.where}: the key of spec.verify is no ECDSA P-256 public key in PEM",
            hint="store what cosign generate-key-pair writes as cosign.pub",
            actor=Actor.ADMIN,
        )
    return key


def _signed(key: ec.EllipticCurvePublicKey, signature: str, payload: bytes) -> bool:
    try:
        key.verify(base64.b64decode(signature, validate=True), payload, ec.ECDSA(SHA256()))
    except (InvalidSignature, binascii.Error, ValueError):
        return False
    return True


def _names(payload: bytes, digest: str) -> bool:
    """Say whether a payload is a cosign signature's and names this manifest; anybody may copy the other parts."""
    try:
        document: Any = json.loads(payload)
    except (ValueError, RecursionError):
        return False
    critical = document.get("critical") if is_object(document) else None
    image = critical.get("image") if is_object(critical) else None
    if not is_object(critical) or not is_object(image):
        return False
    return critical.get("type") == TYPE and image.get("docker-manifest-digest") == digest


def _invalid(registry: Registry, name: str, digest: str, problem: str, hint: str) -> PermanentError:
    return PermanentError(
        Reason.SIGNATURE_INVALID, f"{registry.where}: {name}@{digest}: {problem}", hint=hint, actor=Actor.AUTHOR
    )
