"""The payload codec: compress when it helps, then AES-256-GCM.

An encoded payload has the metadata ``encoding: binary/windlass.v1`` and ``windlass-key: <key id>``; its data is a
random nonce of 12 bytes followed by the ciphertext and tag of one flag byte and the (perhaps compressed) original.
Encoding and key id are bound to the ciphertext as associated data.

Payloads that are not encoded pass through `PayloadCodec.decode` unchanged: Temporal's own markers and people who signal
with the `temporal` CLI write such. The codec keeps what it encodes secret and intact; it does not decide who may write.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Sequence
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from temporalio import converter
from temporalio.api.common.v1 import Payload

from windlass.domain.errors import Actor, PermanentError, Reason
from windlass.temporal.keyring import Keyring

ENCODING: Final = b"binary/windlass.v1"
KEY_ID: Final = "windlass-key"
MAX_PLAIN: Final = 16 * 1024 * 1024
"""Bytes of one payload before compression. The server refuses 2 MB encoded; this bounds what unpacking may yield."""

_NONCE_BYTES: Final = 12  # the size GCM is specified for (NIST SP 800-38D, 8.2)
_COMPRESS_FROM: Final = 256  # bytes; below that zlib's header eats what it gains
_RAW, _ZLIB = b"\x00", b"\x01"


class PayloadCodec(converter.PayloadCodec):
    """Encrypts every payload with the keyring's current key; decrypts with the key that the payload names."""

    def __init__(self, keyring: Keyring) -> None:
        self._current = keyring.current
        self._ciphers = {key_id: AESGCM(key) for key_id, key in keyring.keys.items()}

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """Encrypt each payload.

        Raises:
            PermanentError: VALIDATION_FAILED, a payload has more than `MAX_PLAIN` bytes.
        """
        return [self._encode(payload) for payload in payloads]

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """Decrypt each payload that this codec encoded; return the others as they are.

        Raises:
            PermanentError: STATE_REJECTED, the key is not in the keyring, or the payload was changed or cut short.
        """
        return [self._decode(payload) for payload in payloads]

    def _encode(self, payload: Payload) -> Payload:
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
        key_id = self._current.encode()
        sealed = self._ciphers[self._current].encrypt(nonce, body, _associated(key_id))
        return Payload(metadata={"encoding": ENCODING, KEY_ID: key_id}, data=nonce + sealed)

    def _decode(self, payload: Payload) -> Payload:
        ours = payload.metadata.get("encoding") == ENCODING
        if not ours and KEY_ID not in payload.metadata:
            return payload
        key_id = payload.metadata.get(KEY_ID, b"")
        # A damaged id must not break the message that reports it.
        name = key_id.decode(errors="backslashreplace")
        if not ours or not key_id:
            raise _rejected("an encoded payload lost its encoding or its key id")
        cipher = self._ciphers.get(name)
        if cipher is None:
            raise _rejected(
                f"a payload was encoded with key {name!r}, which the keyring does not have",
                hint=f"add {name!r} to the keyring's `keys` (it need not be `current`) and restart",
            )
        try:
            body = cipher.decrypt(payload.data[:_NONCE_BYTES], payload.data[_NONCE_BYTES:], _associated(key_id))
        except (InvalidTag, ValueError):
            # ValueError: fewer bytes than a nonce.
            raise _rejected(
                f"a payload does not decrypt with key {name!r}: it was changed or cut short, "
                "or another key was used under that id",
                hint="give this process the keyring that the writer used",
            ) from None
        return Payload.FromString(_unpack(body))


def _associated(key_id: bytes) -> bytes:
    return ENCODING + b"\x00" + key_id


def _unpack(body: bytes) -> bytes:
    if body[:1] == _RAW:
        return body[1:]
    unpacker = zlib.decompressobj()
    plain = unpacker.decompress(body[1:], MAX_PLAIN)
    if not unpacker.eof:
        raise _rejected(f"a payload unpacks to more than {MAX_PLAIN} bytes")
    return plain


def _rejected(message: str, *, hint: str = "terminate the workflow; it is rebuilt by observing") -> PermanentError:
    return PermanentError(Reason.STATE_REJECTED, message, hint=hint, actor=Actor.ADMIN)
