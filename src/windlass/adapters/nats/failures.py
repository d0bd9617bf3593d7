"""What the errors of nats-py mean to whoever called."""

from __future__ import annotations

import re
import ssl
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

import nats.errors
import nats.js.errors

from windlass.domain.errors import Actor, PermanentError, Reason, TransientError, WindlassError

WRONG_LAST_SEQUENCE: Final = frozenset({10071, 10164})
"""err_code of a write whose precondition does not hold (nats-server errors.json)."""

NO_STREAM: Final = 10059
"""err_code of a bucket that does not exist."""

_REFUSED: Final = ("authorization violation", "permissions violation", "user authentication", "authentication expired")

_CERTIFICATE: Final = re.compile("ALERT_.*(CERTIFICATE|UNKNOWN_CA)")
"""Alerts of a server about our certificate, as OpenSSL calls them: none, expired, revoked, unknown authority."""


@contextmanager
def translated(call: str) -> Generator[None]:
    """Raise what the body raises as one of our errors; ``call`` says what was tried, such as ``read routes/a``."""
    try:
        yield
    except WindlassError:
        raise
    except (nats.errors.Error, OSError, ValueError) as error:
        raise failure(call, error) from error


def failure(call: str, error: Exception) -> WindlassError:
    """Return the error of our taxonomy that says what ``error`` means."""
    text = str(error) or type(error).__name__
    if isinstance(error, nats.js.errors.BucketNotFoundError) or _code(error) == NO_STREAM:
        return TransientError(
            Reason.API_REJECTED, f"cannot {call}: the bucket does not exist", hint="create the bucket"
        )
    if _code(error) in WRONG_LAST_SEQUENCE:
        return TransientError(Reason.API_CONFLICT, f"cannot {call}: it has changed meanwhile", hint="read it again")
    if isinstance(error, ssl.SSLCertVerificationError):
        return PermanentError(
            Reason.FORBIDDEN,
            f"cannot {call}: the server's certificate is not trusted: {error.verify_message}",
            hint="name the authority that signed it",
            actor=Actor.ADMIN,
        )
    if isinstance(error, ssl.SSLError) and _CERTIFICATE.search(error.reason or ""):
        return PermanentError(
            Reason.FORBIDDEN,
            f"cannot {call}: NATS wants a certificate of ours that it trusts ({error.reason})",
            hint="name a certificate that an authority of the server has signed, and its key",
            actor=Actor.ADMIN,
        )
    if isinstance(error, nats.errors.AuthorizationError) or any(word in text.lower() for word in _REFUSED):
        return PermanentError(
            Reason.FORBIDDEN,
            f"cannot {call}: NATS refuses this user",
            hint="correct the credentials, or grant the rights",
            actor=Actor.ADMIN,
        )
    if isinstance(error, nats.errors.MaxPayloadError):
        return PermanentError(
            Reason.API_REJECTED, f"cannot {call}: it is larger than the server's max_payload", hint="make it smaller"
        )
    return TransientError(Reason.API_UNAVAILABLE, f"cannot {call}: {text}")


def _code(error: Exception) -> int | None:
    return error.err_code if isinstance(error, nats.js.errors.APIError) else None
