"""What a signature with a key says, whichever of cosign's two formats it comes in. No I/O.

Old format (github.com/sigstore/cosign, specs/SIGNATURE_SPEC.md): a payload ("simple signing" of
github.com/containers/image) that names the digest of the signed manifest, and an ECDSA signature over its bytes.

Bundle (sigstore/protobuf-specs, sigstore_bundle.proto; cosign's specs/BUNDLE_SPEC.md): either an envelope (DSSE) around
an in-toto statement whose subject is the manifest, or a signature over the manifest itself. Entries of transparency
logs in it are not looked at: the key is what is trusted, as with ``cosign verify --key --insecure-ignore-tlog``. The
package ``sigstore`` verifies certificates of the public service only, no keys.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from enum import IntEnum
from typing import Any, Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import Prehashed
from cryptography.hazmat.primitives.hashes import SHA256

from windlass.domain.text.documents import DocumentError, is_list, is_object, parse_json

type Keys = Sequence[ec.EllipticCurvePublicKey]

SIMPLE_TYPE: Final = "cosign container image signature"
STATEMENT: Final = "application/vnd.in-toto+json"
SIGN_PREDICATE: Final = "https://sigstore.dev/cosign/sign/v1"
"""What cosign states when it signs. Statements of other types (a list of parts, where something was built) are about
the image as well and may carry the same key's signature, but nobody said by them that the image shall be used."""


class Verdict(IntEnum):
    """How near one signature came to being enough; of several the nearest is told."""

    UNREADABLE = 1
    STRANGER = 2
    OTHER_CONTENT = 3
    GOOD = 4


def judge_simple(payload: bytes, signature: str, digest: str, keys: Keys) -> Verdict:
    """Judge a signature of the old format; ``signature`` is base64 of ASN.1, ``digest`` the manifest's."""
    raw = _unpacked(signature)
    if raw is None:
        return Verdict.STRANGER
    if not _signed(raw, payload, keys):
        return Verdict.STRANGER
    return Verdict.GOOD if _simple_names(payload, digest) else Verdict.OTHER_CONTENT


def judge_bundle(bundle: bytes, digest: str, keys: Keys) -> Verdict:
    """Judge a bundle, of any version, by its own words; ``digest`` is the signed manifest's."""
    document = _json(bundle)
    envelope = document.get("dsseEnvelope") if is_object(document) else None
    if is_object(envelope):
        return _judge_envelope(envelope, digest, keys)
    message = document.get("messageSignature") if is_object(document) else None
    raw = _unpacked(message.get("signature")) if is_object(message) else None
    if raw is None:
        return Verdict.UNREADABLE
    # What it is for is not in it: a signature by a trusted key over other content looks like a stranger's.
    hashed = bytes.fromhex(digest.removeprefix("sha256:"))
    return Verdict.GOOD if _signed(raw, hashed, keys, prehashed=True) else Verdict.STRANGER


def _judge_envelope(envelope: dict[str, Any], digest: str, keys: Keys) -> Verdict:
    payload, kind, signatures = (
        _unpacked(envelope.get("payload")),
        envelope.get("payloadType"),
        envelope.get("signatures"),
    )
    if payload is None or kind != STATEMENT or not is_list(signatures):
        return Verdict.UNREADABLE
    # Pre-authentication encoding, github.com/secure-systems-lab/dsse, protocol.md.
    signed = b"DSSEv1 %d %s %d %s" % (len(STATEMENT), STATEMENT.encode(), len(payload), payload)
    given = [_unpacked(entry.get("sig")) for entry in signatures if is_object(entry)]
    if not any(_signed(raw, signed, keys) for raw in given if raw is not None):
        return Verdict.STRANGER
    return Verdict.GOOD if _statement_names(payload, digest) else Verdict.OTHER_CONTENT


def _statement_names(payload: bytes, digest: str) -> bool:
    statement = _json(payload)
    if not is_object(statement) or statement.get("predicateType") != SIGN_PREDICATE:
        return False
    subjects = statement.get("subject")
    wanted = digest.removeprefix("sha256:")
    digests = [entry.get("digest") for entry in subjects if is_object(entry)] if is_list(subjects) else []
    return any(is_object(found) and found.get("sha256") == wanted for found in digests)


def _simple_names(payload: bytes, digest: str) -> bool:
    """Say whether a payload is a cosign signature's and names this manifest; anybody may copy the other parts."""
    document = _json(payload)
    critical = document.get("critical") if is_object(document) else None
    image = critical.get("image") if is_object(critical) else None
    if not is_object(critical) or not is_object(image):
        return False
    return critical.get("type") == SIMPLE_TYPE and image.get("docker-manifest-digest") == digest


def _signed(signature: bytes, content: bytes, keys: Keys, *, prehashed: bool = False) -> bool:
    algorithm = ec.ECDSA(Prehashed(SHA256()) if prehashed else SHA256())
    for key in keys:
        try:
            key.verify(signature, content, algorithm)
        except InvalidSignature:
            continue
        return True
    return False


def _unpacked(text: Any) -> bytes | None:
    """Return the bytes of base64, None if it is none."""
    try:
        return base64.b64decode(text, validate=True) if isinstance(text, str) else None
    except (binascii.Error, ValueError):
        return None


def _json(raw: bytes) -> Any:
    try:
        return parse_json(raw)
    except DocumentError:
        return None
