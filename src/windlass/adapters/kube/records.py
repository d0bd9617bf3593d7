"""`ports.Records`: one Secret per package in windlass-system, gzipped JSON under a keyed digest.

The Secret has no owner reference on purpose: with foreground deletion of the object the garbage collector would take
it away while the hooks of the removal still need the values in it. The lifecycle deletes it last; what a removal
without a lifecycle leaves behind is found by its labels.
"""

from __future__ import annotations

import base64
import binascii
import gzip
import hmac
from collections.abc import Mapping
from typing import Any, Final, cast

from pydantic import ValidationError

from windlass.contracts.record import PackageRecord, RecordRef
from windlass.domain.digests import canonical_json, keyed_digest
from windlass.domain.errors import Actor, PermanentError, Reason
from windlass.domain.ids import (
    GROUP,
    INSTALLATION_LABEL,
    SYSTEM_NAMESPACE,
    PackageKey,
    package_label,
    package_of,
    package_workflow_prefix,
    record_name,
)
from windlass.ports.kube import Kube, Object, ObjectRef

SECRET_TYPE: Final = f"{GROUP}/record"
PACKAGE_LABEL: Final = f"{GROUP}/package"
WATCHED_LABEL: Final = f"{GROUP}/watched"
"""Marks the records of packages whose hooks follow objects: a worker that starts looks for them."""

FAULTS_LABEL: Final = f"{GROUP}/faults"
"""Marks the records that count faults: a worker that starts looks for them."""

ID_ANNOTATION: Final = f"{GROUP}/package-id"
DIGEST_ANNOTATION: Final = f"{GROUP}/record-digest"
DATA_KEY: Final = "record"

MAX_PACKED: Final = 1_000_000
"""Bytes of the compressed record; the API server refuses Secrets with more than 1 MiB of data."""


class RecordStore:
    """Keeps the state Secrets.

    The digest binds the content to its package: a Secret that was edited, or copied from another package, namespace or
    installation, is refused instead of being believed.

    Args:
        kube: needs get, list, create, update and delete on Secrets in `SYSTEM_NAMESPACE`.
        key: the installation's digest key (`windlass.domain.digests`).
    """

    def __init__(self, kube: Kube, key: bytes) -> None:
        self._kube = kube
        self._key = key

    async def load(self, key: PackageKey) -> tuple[PackageRecord, RecordRef] | None:
        """Return the record and the reference to this state of it; see `ports.Records`."""
        secret = await self._kube.get(_ref(key))
        if secret is None:
            return None
        packed = _packed(secret)
        digest = self._digest(key, packed)
        if not packed or not hmac.compare_digest(digest, _digest_of(secret)):
            raise _rejected(key, "is not what Windlass wrote: its digest does not fit its content")
        try:
            record = PackageRecord.model_validate_json(gzip.decompress(packed))
        except (OSError, EOFError, ValidationError) as error:
            raise _rejected(key, "cannot be read: it was written by an incompatible version") from error
        return record, _reference(secret, digest)

    async def save(self, key: PackageKey, record: PackageRecord, expected: RecordRef | None) -> RecordRef:
        """Write the record over the state ``expected``; see `ports.Records`."""
        packed = gzip.compress(record.model_dump_json().encode(), mtime=0)
        if len(packed) > MAX_PACKED:
            raise PermanentError(
                Reason.STATE_REJECTED,
                f"the state of {key.package_id} has {len(packed)} bytes compressed; a Secret holds {MAX_PACKED}",
                hint="shorten the settings, or refer to large content by name",
            )
        digest = self._digest(key, packed)
        secret = _secret(key, packed, digest)
        if record.watched is not None:
            secret["metadata"]["labels"][WATCHED_LABEL] = "true"
        if record.faults:
            secret["metadata"]["labels"][FAULTS_LABEL] = "true"
        if expected is None:
            written = await self._kube.create(secret)
        else:
            secret["metadata"]["resourceVersion"] = expected.resource_version
            written = await self._kube.replace(secret)
        return _reference(written, digest)

    async def watched(self, installation: str) -> list[PackageKey]:
        """Return the packages whose hooks follow objects; see `ports.Records`."""
        return list(await self._keys(installation, f"{WATCHED_LABEL}=true"))

    async def faulty(self, installation: str) -> list[PackageKey]:
        """Return the packages whose record counts faults; see `ports.Records`."""
        return list(await self._keys(installation, f"{FAULTS_LABEL}=true"))

    async def stored(self, installation: str) -> Mapping[PackageKey, str]:
        """Return the packages that have a record; see `ports.Records`."""
        return await self._keys(installation, PACKAGE_LABEL)

    async def _keys(self, installation: str, selector: str) -> dict[PackageKey, str]:
        """Return the packages whose records have these labels, as their annotations say, and resourceVersions."""
        found = await self._kube.list(
            "v1",
            "Secret",
            namespace=SYSTEM_NAMESPACE,
            label_selector=f"{selector},{INSTALLATION_LABEL}={installation}",
            metadata_only=True,
        )
        prefix = package_workflow_prefix(installation)
        keys: dict[PackageKey, str] = {}
        for metadata in (cast("dict[str, Any]", item["metadata"]) for item in found.items):
            id_ = cast("dict[str, str]", metadata.get("annotations") or {}).get(ID_ANNOTATION, "")
            key = package_of(installation, f"{prefix}{id_}") if id_ else None
            if key is not None and metadata["name"] == record_name(key):
                keys[key] = metadata["resourceVersion"]
        return keys

    async def delete(self, key: PackageKey, *, resource_version: str = "") -> None:
        """Delete the record; see `ports.Records`."""
        await self._kube.delete(_ref(key), resource_version=resource_version)

    def _digest(self, key: PackageKey, packed: bytes) -> str:
        owner = canonical_json([key.installation, key.kind.value, key.namespace, key.name])
        return keyed_digest("record", owner + b"\0" + packed, self._key)


def _ref(key: PackageKey) -> ObjectRef:
    return ObjectRef(api_version="v1", kind="Secret", namespace=SYSTEM_NAMESPACE, name=record_name(key))


def _secret(key: PackageKey, packed: bytes, digest: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": SECRET_TYPE,
        "metadata": {
            "name": record_name(key),
            "namespace": SYSTEM_NAMESPACE,
            "labels": {
                "app.kubernetes.io/managed-by": "windlass",
                INSTALLATION_LABEL: key.installation,
                PACKAGE_LABEL: package_label(key),
            },
            "annotations": {DIGEST_ANNOTATION: digest, ID_ANNOTATION: key.package_id},
        },
        "data": {DATA_KEY: base64.b64encode(packed).decode()},
    }


def _packed(secret: Object) -> bytes:
    """Return the compressed record; empty if the Secret does not hold one."""
    data = cast("dict[str, str]", secret.get("data") or {})
    try:
        return base64.b64decode(data.get(DATA_KEY, ""), validate=True)
    except binascii.Error:
        return b""


def _digest_of(secret: Object) -> str:
    annotations = cast("dict[str, str]", secret["metadata"].get("annotations") or {})
    return annotations.get(DIGEST_ANNOTATION, "")


def _reference(secret: Object, digest: str) -> RecordRef:
    metadata = cast("dict[str, str]", secret["metadata"])
    return RecordRef(
        name=metadata["name"],
        namespace=metadata["namespace"],
        resource_version=metadata["resourceVersion"],
        digest=digest,
    )


def _rejected(key: PackageKey, problem: str) -> PermanentError:
    name = f"Secret {record_name(key)} in namespace {SYSTEM_NAMESPACE}"
    return PermanentError(
        Reason.STATE_REJECTED,
        f"{name} (state of {key.kind.value} {key.package_id}) {problem}",
        hint="delete this Secret: it is rebuilt by observing the cluster, values patched by hooks are lost until "
        "the hooks run again; if all packages report this, the digest key was exchanged: bring the old one back",
        actor=Actor.ADMIN,
    )
