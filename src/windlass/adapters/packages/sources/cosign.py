"""Cosign signatures with a key, where a registry keeps them: beside the signed image, in one of two ways.

Until version 2 the image ``<name>:sha256-<hex>.sig`` has one layer for each signature: the layer's blob is the payload,
the annotation `SIGNATURE` the signature over it. From version 3 on each signature is an artifact of its own that refers
to the image (OCI 1.1, ``subject``) and whose only layer is a bundle. `signatures` knows what stands in both.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from windlass.adapters.packages.sources.registry import Registry
from windlass.adapters.packages.sources.signatures import Keys, Verdict, judge_bundle, judge_simple
from windlass.domain.errors import Actor, PermanentError, Reason

SIGNATURE: Final = "dev.cosignproject.cosign/signature"
PAYLOAD: Final = "application/vnd.dev.cosign.simplesigning.v1+json"
BUNDLE: Final = "application/vnd.dev.sigstore.bundle"
"""Start of the media types of bundles: ``.v0.3+json`` follows, or ``+json;version=0.2`` and 0.1, which differ in what
they say about certificates only."""

_MOST: Final = 50
"""Signatures of one image and format that are looked at."""

_PROBLEMS: Final = {
    Verdict.UNREADABLE: "it has no signature with a key",
    Verdict.STRANGER: "it is signed by none of the trusted keys",
    Verdict.OTHER_CONTENT: "its signature is for something else",
}


async def verify(registry: Registry, name: str, digest: str, trusted: Sequence[bytes]) -> None:
    """See that one of the ``trusted`` keys (PEM) has signed the manifest ``digest`` of ``name``.

    Raises:
        PermanentError: SIGNATURE_INVALID, it is unsigned, signed by another key, or the signature is for other content.
        TransientError: DOWNLOAD_FAILED, the registry does not answer.
    """
    keys = [_key(registry, pem) for pem in trusted]
    found = await _simple(registry, name, digest, keys)
    if Verdict.GOOD not in found:
        found = [*found, *await _bundles(registry, name, digest, keys)]
    if not found:
        raise _invalid(registry, name, digest, "it is not signed", "sign it: cosign sign --key")
    if max(found) is not Verdict.GOOD:
        hint = "sign it with a key of spec.verify, or mend spec.verify"
        raise _invalid(registry, name, digest, _PROBLEMS[max(found)], hint)


def tag_of(digest: str) -> str:
    """Return the tag under which signatures of the old format are stored."""
    return f"{digest.replace(':', '-')}.sig"


async def _simple(registry: Registry, name: str, digest: str, keys: Keys) -> list[Verdict]:
    manifest = await registry.manifest(name, tag_of(digest))
    if manifest is None:
        return []
    found = [Verdict.UNREADABLE]
    for layer in [layer for layer in manifest.layers if layer.media_type == PAYLOAD][:_MOST]:
        payload = await registry.read(name, layer)
        found.append(judge_simple(payload, layer.annotations.get(SIGNATURE, ""), digest, keys))
        if found[-1] is Verdict.GOOD:
            break
    return found


async def _bundles(registry: Registry, name: str, digest: str, keys: Keys) -> list[Verdict]:
    found: list[Verdict] = []
    for reference in (await registry.referrers(name, digest, BUNDLE))[:_MOST]:
        manifest = await registry.manifest(name, reference)
        layers = [layer for layer in manifest.layers if layer.media_type.startswith(BUNDLE)] if manifest else []
        bundle = await registry.read(name, layers[0]) if layers else b""
        found.append(judge_bundle(bundle, digest, keys))
        if found[-1] is Verdict.GOOD:
            break
    return found


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


def _invalid(registry: Registry, name: str, digest: str, problem: str, hint: str) -> PermanentError:
    return PermanentError(
        Reason.SIGNATURE_INVALID, f"{registry.where}: {name}@{digest}: {problem}", hint=hint, actor=Actor.AUTHOR
    )
