"""How one payload is sealed for one workflow, and opened again: compress when it helps, then AES-256-GCM.

A sealed payload has the metadata ``encoding: binary/windlass.v1``, ``windlass-key: <key id>`` and ``windlass-workflow:
<workflow id>``. Its data is a random nonce of 12 bytes, followed by the ciphertext and tag of one flag byte and the
(perhaps compressed) original. Associated data are encoding, key id, namespace and workflow id, so a payload that was
copied to another workflow, or to another namespace, does not open there.

The workflow id stands in the metadata for the decode endpoint, which is not told whose payloads it is given. Who knows
the workflow compares it; nobody takes it from there to decide what a workflow does.
"""

from __future__ import annotations

import os
import zlib
from dataclasses import dataclass
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from temporalio.api.common.v1 import Payload

from windlass.domain.errors import Actor, PermanentError, Reason
from windlass.temporal.keyring import Keyring

ENCODING: Final = b"binary/windlass.v1"
KEY_ID: Final = "windlass-key"
WORKFLOW_ID: Final = "windlass-workflow"
MAX_PLAIN: Final = 16 * 1024 * 1024
"""Bytes of one payload before compression. The server refuses 2 MB encoded; this bounds what unpacking may yield."""

_NONCE_BYTES: Final = 12  # the size GCM is specified for (NIST SP 800-38D, 8.2)
_COMPRESS_FROM: Final = 256  # bytes; below that zlib's header eats what it gains
_LENGTH_BYTES: Final = 4
_NAME_MAX: Final = 80  # characters of a foreign name that a message quotes
_RAW, _ZLIB = b"\x00", b"\x01"


@dataclass(frozen=True)
class Binding:
    """Where a payload belongs.

    Attributes:
        namespace: of Temporal.
        workflow_id: of the workflow that the payload was written for.
    """

    namespace: str
    workflow_id: str


class Sealer:
    """Seals with the keyring's current key; opens with the key that the payload names."""

    def __init__(self, keyring: Keyring) -> None:
        self._current = keyring.current.encode()
        self._ciphers = {key_id.encode(): AESGCM(key) for key_id, key in keyring.keys.items()}

    def seal(self, payload: Payload, binding: Binding) -> Payload:
        """Return ``payload`` sealed for ``binding``.

        Raises:
            PermanentError: VALIDATION_FAILED, the payload has more than `MAX_PLAIN` bytes.
        """
        plain = payload.SerializeToString()
        if len(plain) > MAX_PLAIN:
            raise PermanentError(
                Reason.VALIDATION_FAILED,
                f"a payload has {len(plain)} bytes, more than {MAX_PLAIN}",
                hint="pass big content by digest",
                actor=Actor.ADMIN,
            )
        packed = zlib.compress(plain) if len(plain) >= _COMPRESS_FROM else plain
        body = _ZLIB + packed if len(packed) < len(plain) else _RAW + plain
        nonce = os.urandom(_NONCE_BYTES)
        sealed = self._ciphers[self._current].encrypt(nonce, body, associated(self._current, binding))
        return Payload(
            metadata={
                "encoding": ENCODING,
                KEY_ID: self._current,
                WORKFLOW_ID: binding.workflow_id.encode(),
            },
            data=nonce + sealed,
        )

    def open(self, payload: Payload, binding: Binding) -> Payload:
        """Return what was sealed.

        Raises:
            PermanentError: STATE_REJECTED. The payload is not sealed, the keyring does not have its key, it was changed
                or cut short, or it was sealed for another namespace or workflow.
        """
        if not is_sealed(payload):
            raise rejected("a payload is not encoded", hint="send it through Windlass, which encodes it")
        key_id = payload.metadata.get(KEY_ID, b"")
        if payload.metadata.get("encoding") != ENCODING or not key_id:
            raise rejected("an encoded payload lost its encoding or its key id")
        if (origin := written_for(payload)) != binding.workflow_id.encode():
            raise rejected(
                f"a payload was written for the workflow {_shown(origin)} and not for {binding.workflow_id!r}",
                hint="somebody copied it: look who may write to Temporal's namespace",
            )
        cipher = self._ciphers.get(key_id)
        if cipher is None:
            raise rejected(
                f"a payload was encoded with key {_shown(key_id)}, which the keyring does not have",
                hint=f"add {_shown(key_id)} to the keyring's `keys` (it need not be `current`) and restart",
            )
        try:
            nonce, sealed = payload.data[:_NONCE_BYTES], payload.data[_NONCE_BYTES:]
            body = cipher.decrypt(nonce, sealed, associated(key_id, binding))
        except (InvalidTag, ValueError):
            # ValueError: fewer bytes than a nonce.
            raise rejected(
                f"a payload does not decrypt with key {_shown(key_id)}: it was changed or cut short, it belongs to "
                "another namespace or workflow, or another key was used under that id",
                hint="give this process the keyring that the writer used",
            ) from None
        return Payload.FromString(_unpack(body))


def is_sealed(payload: Payload) -> bool:
    """Say whether ``payload`` looks like one of ours, whole or damaged."""
    return payload.metadata.get("encoding") == ENCODING or KEY_ID in payload.metadata


def written_for(payload: Payload) -> bytes:
    """Return the workflow id that ``payload`` names, as UTF-8; a claim, unless `Sealer.open` has confirmed it."""
    return payload.metadata.get(WORKFLOW_ID, b"")


def associated(key_id: bytes, binding: Binding) -> bytes:
    """Return the associated data: each part with its length before it, so that no two lists of parts look the same."""
    parts = (ENCODING, key_id, binding.namespace.encode(), binding.workflow_id.encode())
    return b"".join(len(part).to_bytes(_LENGTH_BYTES) + part for part in parts)


def rejected(message: str, *, hint: str = "terminate the workflow; it is rebuilt by observing") -> PermanentError:
    """Return the error for a payload that is not accepted."""
    return PermanentError(Reason.STATE_REJECTED, message, hint=hint, actor=Actor.ADMIN)


def _unpack(body: bytes) -> bytes:
    if body[:1] == _RAW:
        return body[1:]
    unpacker = zlib.decompressobj()
    plain = unpacker.decompress(body[1:], MAX_PLAIN)
    if not unpacker.eof:
        raise rejected(f"a payload unpacks to more than {MAX_PLAIN} bytes")
    return plain


def _shown(name: bytes) -> str:
    """Return a foreign name as it may stand in a message: short, and readable whatever its bytes are."""
    return repr(name.decode(errors="backslashreplace")[:_NAME_MAX])
