"""Helm's records, read and rewritten as a tenant could: with the right to Secrets in its own namespace."""

from __future__ import annotations

import base64
import copy
import gzip
import json
from collections.abc import Callable
from typing import Any

from support.installation import Installation
from windlass.ports.kube import Object, ObjectRef

HELM_TYPE = "helm.sh/release.v1"

type Change = Callable[[dict[str, Any]], None]


def record_ref(installation: Installation, release: str, revision: int) -> ObjectRef:
    """Name the Secret of one revision in the installation's namespace."""
    return installation.ref("Secret", f"sh.helm.release.v1.{release}.v{revision}")


def unpacked(secret: Object) -> dict[str, Any]:
    """Return what a record holds."""
    return json.loads(gzip.decompress(base64.b64decode(base64.b64decode(secret["data"]["release"]))))


def packed(content: Any) -> str:
    """Return the data of a record."""
    return packed_bytes(gzip.compress(json.dumps(content).encode()))


def packed_bytes(content: bytes) -> str:
    """Return the data of a record whose compressed content is ``content``."""
    return base64.b64encode(base64.b64encode(content)).decode()


async def rewrite(installation: Installation, release: str, revision: int, change: Change) -> None:
    """Change what the record of a revision holds."""
    secret = await installation.kube.get(record_ref(installation, release, revision))
    assert secret is not None
    content = unpacked(secret)
    change(content)
    await installation.kube.replace({**secret, "data": {"release": packed(content)}})


async def forge(
    installation: Installation, release: str, source: int, revision: int, change: Change, *, name: str = ""
) -> ObjectRef:
    """Create the record of a further revision after that of ``source``, under Helm's name for it unless ``name``."""
    secret = await installation.kube.get(record_ref(installation, release, source))
    assert secret is not None
    content = copy.deepcopy(unpacked(secret))
    content["version"] = revision
    change(content)
    ref = record_ref(installation, release, revision)
    metadata = {
        "name": name or ref.name,
        "namespace": ref.namespace,
        "labels": {**secret["metadata"]["labels"], "version": str(revision), "status": "deployed"},
    }
    await installation.kube.create(
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "type": "Opaque" if name else HELM_TYPE,
            "metadata": metadata,
            "data": {"release": packed(content)},
        }
    )
    return installation.ref("Secret", metadata["name"])


def adding(*manifests: str) -> Change:
    """Return the change that adds objects to a record."""

    def change(content: dict[str, Any]) -> None:
        content["manifest"] += "".join(f"---\n{manifest}" for manifest in manifests)

    return change
