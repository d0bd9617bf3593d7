"""The decode endpoint's shared secret; light, so that what starts a stack can make it without loading the server."""

from __future__ import annotations

import re
import secrets
from pathlib import Path
from typing import Final

from windlass.domain.errors import Actor, PermanentError, Reason
from windlass.temporal import secret_file

TOKEN_MIN: Final = 32
"""Characters of a token; `new_token` makes 43."""

_TOKEN = re.compile(r"[A-Za-z0-9_-]+")


def new_token() -> str:
    """Return 256 random bits that are safe as a path segment."""
    return secrets.token_urlsafe(32)


def token_at(path: Path) -> str:
    """Return the token that stands in ``path``; make one first if there is no such file.

    Raises:
        PermanentError: VALIDATION_FAILED, the file can be neither read nor made.
    """
    return secret_file.read_or_create(path, new_token).strip()


def check_token(token: str) -> None:
    """Refuse what is easy to guess or no path segment.

    Raises:
        PermanentError: VALIDATION_FAILED.
    """
    if len(token) < TOKEN_MIN or not _TOKEN.fullmatch(token):
        raise PermanentError(
            Reason.VALIDATION_FAILED,
            f"the decode endpoint's token is not {TOKEN_MIN} or more letters, digits, dashes and underscores",
            hint="delete the token file: a new one is made",
            actor=Actor.ADMIN,
        )
