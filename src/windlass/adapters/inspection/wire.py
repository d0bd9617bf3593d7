"""Failures as the inspect endpoint sends them: like the Status of the Kubernetes API, and back."""

from __future__ import annotations

from typing import Any, Final, cast

from windlass.domain.errors import Actor, Category, PermanentError, Reason, TransientError, WindlassError
from windlass.domain.text.documents import DocumentError, parse_json

TOO_MANY: Final = 429

_CODES: Final = {
    Reason.UNAUTHORIZED: 401,
    Reason.FORBIDDEN: 403,
    Reason.PACKAGE_NOT_FOUND: 404,
    Reason.INTERNAL: 500,
}


class TooManyRequestsError(TransientError):
    """The caller, or all callers together, ask more often than the endpoint answers."""

    def __init__(self, message: str) -> None:
        super().__init__(Reason.API_UNAVAILABLE, message, hint="ask again in a few seconds")


def code_of(error: WindlassError) -> int:
    """Return the HTTP status of a failure."""
    if isinstance(error, TooManyRequestsError):
        return TOO_MANY
    if error.reason in _CODES:
        return _CODES[error.reason]
    return 503 if isinstance(error, TransientError) else 422


def status_of(error: WindlassError) -> dict[str, Any]:
    """Return the body of a failure."""
    details = {"category": error.category.value, "hint": error.hint}
    if isinstance(error, PermanentError):
        details["actor"] = error.actor.value
    return {
        "apiVersion": "v1",
        "kind": "Status",
        "metadata": {},
        "status": "Failure",
        "reason": error.reason.value,
        "message": error.message,
        "code": code_of(error),
        "details": details,
    }


def error_of(status: int, body: bytes) -> WindlassError:
    """Return the failure that an answer with this HTTP status tells of; whatever sent it, this does not fail."""
    told, details = _parts(body)
    message = str(told.get("message") or f"the inspect endpoint answers with HTTP status {status}")
    hint = str(details.get("hint") or "")
    reason = _word(Reason, told.get("reason"), Reason.API_UNAVAILABLE if status >= 500 else Reason.API_REJECTED)
    if status == TOO_MANY:
        return TooManyRequestsError(message)
    if details.get("category") == Category.TRANSIENT or (not details and status >= 500):
        return TransientError(reason, message, hint=hint)
    return PermanentError(reason, message, hint=hint, actor=_word(Actor, details.get("actor"), Actor.ADMIN))


def is_worker_status(body: bytes) -> bool:
    """Say whether a failure was sent by a worker, and not by the API server that should have passed a request on."""
    return "category" in _parts(body)[1]


def _parts(body: bytes) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a Status and its details; empty ones for anything else."""
    try:
        found = parse_json(body)
    except DocumentError:
        found = None
    told = cast("dict[str, Any]", found) if isinstance(found, dict) else {}
    details = told.get("details")
    return told, cast("dict[str, Any]", details) if isinstance(details, dict) else {}


def _word[E: (Reason, Actor)](words: type[E], text: object, otherwise: E) -> E:
    try:
        return words(text)
    except ValueError:
        return otherwise
