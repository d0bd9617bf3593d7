"""The key of content digests: a secret of its own, apart from the keys of payloads.

Digests of what may hold secrets (settings, state Secrets, references) are HMACs under this key. It is one line of
base64 (32 bytes) in a file of mode 0600 or in a Kubernetes Secret. With another key every package looks changed once,
and state Secrets that were written under the old one are refused.
"""

from __future__ import annotations

import base64
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from windlass.domain.errors import Actor, PermanentError, Reason
from windlass.temporal import secret_file

DIGEST_KEY_BYTES: Final = 32
"""As many as the digest has (HMAC-SHA256; RFC 2104, section 3)."""

ENVIRONMENT_FILE: Final = "WINDLASS_DIGEST_KEY_FILE"
ENVIRONMENT_TEXT: Final = "WINDLASS_DIGEST_KEY"


@dataclass(frozen=True)
class DigestKey:
    """The digest key of one installation.

    Attributes:
        key: 32 bytes; not in the text of this object, so that no traceback or log shows it.
    """

    key: bytes = field(repr=False)

    @classmethod
    def generate(cls) -> DigestKey:
        """Return a random key."""
        return cls(secrets.token_bytes(DIGEST_KEY_BYTES))

    @classmethod
    def parse(cls, text: str, *, origin: str) -> DigestKey:
        """Read the base64 form.

        Args:
            text: base64, with or without white space around it.
            origin: where the text is from, for error messages.

        Raises:
            PermanentError: VALIDATION_FAILED, naming ``origin``; never shows the text.
        """
        try:
            key = base64.b64decode(text.strip(), validate=True)
        except ValueError:  # binascii.Error, and characters that are not ASCII
            key = b""
        if len(key) != DIGEST_KEY_BYTES:
            raise PermanentError(
                Reason.VALIDATION_FAILED,
                f"digest key of {origin}: it is not {DIGEST_KEY_BYTES} bytes in base64",
                hint="make one with `head -c 32 /dev/urandom | base64`",
                actor=Actor.ADMIN,
            ) from None
        return cls(key)

    @classmethod
    def load(cls, path: Path) -> DigestKey:
        """Read the key from a file.

        Raises:
            PermanentError: the file cannot be read, or as `parse`.
        """
        return cls.parse(secret_file.read(path), origin=str(path))

    @classmethod
    def load_or_create(cls, path: Path) -> DigestKey:
        """Read the key at ``path``; make one first if there is none. Several processes may do this at once.

        Raises:
            PermanentError: as `load`.
        """
        text = secret_file.read_or_create(path, lambda: cls.generate().document())
        return cls.parse(text, origin=str(path))

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> DigestKey | None:
        """Return the key that ``WINDLASS_DIGEST_KEY_FILE`` (a path) or ``WINDLASS_DIGEST_KEY`` (base64) gives.

        Returns:
            The key, or None if neither variable is set.

        Raises:
            PermanentError: both are set, or as `load` and `parse`.
        """
        given = secret_file.from_environment(environ, file=ENVIRONMENT_FILE, text=ENVIRONMENT_TEXT)
        return cls.parse(given.text, origin=given.origin) if given else None

    def document(self) -> str:
        """Return what `parse` reads: the key in clear, for a file or Secret only."""
        return base64.b64encode(self.key).decode() + "\n"
