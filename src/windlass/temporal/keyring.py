"""Keys of the payload codec: what talks to Temporal needs them. `windlass.temporal.digest_key` is the other secret.

A keyring is one small YAML or JSON document, kept in a file of mode 0600 or in a Kubernetes Secret::

    current: k-5f3a9c01            # encrypts from now on
    keys:                          # all of them decrypt
      k-5f3a9c01: <base64, 32 bytes>
      k-1b77e2d4: <base64, 32 bytes>

Rotation takes two steps, because every process must be able to read what any other writes: first add the new key
everywhere, then make it `current`. An old key may go once the retention of the last history written with it is over.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn, cast

from windlass.domain.errors import Actor, PermanentError, Reason
from windlass.domain.text.documents import DocumentError, parse_document
from windlass.temporal import secret_file

KEY_BYTES: Final = 32
"""AES-256 takes 32 bytes."""

ENVIRONMENT_FILE: Final = "WINDLASS_KEYRING_FILE"
ENVIRONMENT_TEXT: Final = "WINDLASS_KEYRING"

_KEY_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_FORM_HINT: Final = "expected are `current` and `keys` as docs/adr/0002-payload-codec.md shows them"


@dataclass(frozen=True, kw_only=True, repr=False)
class Keyring:
    """The payload keys of one installation.

    Attributes:
        current: id of the key that encrypts.
        keys: key id to 32 bytes.
    """

    current: str
    keys: Mapping[str, bytes]

    def __repr__(self) -> str:
        # The generated text would put keys into tracebacks and logs.
        return f"Keyring(current={self.current!r}, keys={sorted(self.keys)})"

    @classmethod
    def generate(cls) -> Keyring:
        """Return a keyring with one new random key."""
        key_id = f"k-{secrets.token_hex(4)}"
        return cls(current=key_id, keys={key_id: secrets.token_bytes(KEY_BYTES)})

    @classmethod
    def parse(cls, text: str, *, origin: str) -> Keyring:
        """Read a keyring document.

        Args:
            text: YAML or JSON.
            origin: where the text is from, for error messages.

        Raises:
            PermanentError: VALIDATION_FAILED, naming ``origin`` and the field that is wrong; never shows a value.
        """
        try:
            document: object = parse_document(text)
        except DocumentError:
            _refuse(origin, "is neither YAML nor JSON")
        if not isinstance(document, dict):
            _refuse(origin, "is not a mapping")
        fields = cast("dict[str, Any]", document)
        keys = fields.get("keys")
        if not isinstance(keys, dict) or not keys:
            _refuse(origin, "has no `keys`")
        ring = {
            _key_id(key_id, origin): _key(value, f"keys.{key_id}", origin)
            for key_id, value in cast("dict[object, object]", keys).items()
        }
        current = fields.get("current")
        if not isinstance(current, str) or current not in ring:
            _refuse(origin, "`current` does not name one of its `keys`")
        return cls(current=current, keys=ring)

    @classmethod
    def load(cls, path: Path) -> Keyring:
        """Read a keyring file.

        Raises:
            PermanentError: the file cannot be read, or as `parse`.
        """
        return cls.parse(secret_file.read(path), origin=str(path))

    @classmethod
    def load_or_create(cls, path: Path) -> Keyring:
        """Read the keyring at ``path``; make one first if there is none.

        Several processes may call this at once: exactly one keyring is made and all of them return it.

        Raises:
            PermanentError: as `load`.
        """
        text = secret_file.read_or_create(path, lambda: cls.generate().document())
        return cls.parse(text, origin=str(path))

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> Keyring | None:
        """Return the keyring that ``WINDLASS_KEYRING_FILE`` (a path) or ``WINDLASS_KEYRING`` (the document) gives.

        Returns:
            The keyring, or None if neither variable is set.

        Raises:
            PermanentError: both are set, or as `load` and `parse`.
        """
        given = secret_file.from_environment(environ, file=ENVIRONMENT_FILE, text=ENVIRONMENT_TEXT)
        return cls.parse(given.text, origin=given.origin) if given else None

    def document(self) -> str:
        """Return the document that `parse` reads: all keys in clear, for a file or Secret only."""
        return json.dumps(
            {
                "current": self.current,
                "keys": {key_id: base64.b64encode(key).decode() for key_id, key in self.keys.items()},
            },
            indent=2,
        )


def _refuse(origin: str, what: str) -> NoReturn:
    raise PermanentError(
        Reason.VALIDATION_FAILED, f"keyring of {origin}: {what}", hint=_FORM_HINT, actor=Actor.ADMIN
    ) from None


def _key_id(value: object, origin: str) -> str:
    if not isinstance(value, str) or not _KEY_ID.fullmatch(value):
        _refuse(origin, "has a key id that is not 1 to 63 letters, digits, dots, dashes or underscores")
    return value


def _key(value: object, field: str, origin: str) -> bytes:
    try:
        key = base64.b64decode(value, validate=True) if isinstance(value, str) else b""
    except binascii.Error:
        key = b""
    if len(key) != KEY_BYTES:
        _refuse(origin, f"`{field}` is not {KEY_BYTES} bytes in base64")
    return key
