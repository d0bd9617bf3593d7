"""HTTP answers of the API server as errors of `windlass.domain.errors`, told apart by codes and reasons, not text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

import aiohttp

from windlass.domain.errors import Actor, PermanentError, Reason, TransientError, WindlassError
from windlass.domain.text.documents import DocumentError, parse_json

STORED_MAX: Final = 1_572_864
"""Bytes of one request that etcd takes unless told otherwise (``--max-request-bytes``). The API server says 413 above
its own limit of 3 MiB, and between the two passes on etcd's refusal as 500, without a reason of its own."""

UNDECLARED: Final = "field not declared in schema"
"""Server-side apply's words for a field that the kind's definition does not know (structured-merge-diff). The API
server passes them on as 500 without a reason of its own, so there is nothing but the text to tell it by."""

_CAUSES_MAX: Final = 10
_NAMESPACE_TERMINATING: Final = "NamespaceTerminating"  # cause type of the admission plugin NamespaceLifecycle


@dataclass(frozen=True, kw_only=True)
class Call:
    """What was asked, in RBAC's words, for error texts: ``create secrets/db in shop``."""

    verb: str
    resource: str
    name: str = ""
    namespace: str = ""

    def __str__(self) -> str:
        target = f"{self.resource}/{self.name}" if self.name else self.resource
        return f"{self.verb} {target}" + (f" in {self.namespace}" if self.namespace else "")


def unreachable(call: Call, error: BaseException) -> TransientError:
    """Return the error of a request that got no answer; the exception's own text may hold nothing but addresses."""
    # aiohttp adds how it would have connected, a Python object among it, to what the system says.
    connecting = isinstance(error, aiohttp.ClientConnectorError)
    text = f"{error.host}:{error.port}: {error.os_error}" if connecting else str(error)
    cause = ": ".join(part for part in (type(error).__name__, text) if part)
    return TransientError(
        Reason.API_UNAVAILABLE,
        f"cannot {call}: the API server does not answer ({cause})",
        hint="it is tried again; check that the API server runs and is reachable",
    )


def garbled(call: Call, what: str = "JSON") -> TransientError:
    """Return the error of a good answer that is not ``what`` it has to be. Its content is left out: nobody knows it."""
    return TransientError(
        Reason.API_UNAVAILABLE,
        f"cannot {call}: the answer is not {what}",
        hint="is there a proxy between here and the API server?",
    )


def endless(call: Call) -> TransientError:
    """Return the error of an answer that is larger than what is read."""
    return TransientError(
        Reason.API_UNAVAILABLE,
        f"cannot {call}: the answer is too large",
        hint="is this an API server?",
    )


def rejected(call: Call, status: int, body: bytes, *, sent: int = 0, whom: str = "") -> WindlassError:
    """Return the error for an answer with an HTTP status of 400 and above, to a request of ``sent`` bytes by ``whom``.

    The server's text is passed on with the fields it names, except for Secrets: there it may quote their values, so
    only reasons and field paths are kept. Request bodies are never part of an error.
    """
    answer = _status(body)
    details = _mapping(answer.get("details"))
    causes = [_mapping(cause) for cause in cast("list[Any]", details.get("causes") or [])]
    said = _said(call, answer, causes)
    if status == 401:
        return PermanentError(
            Reason.FORBIDDEN,
            f"cannot {call}: the API server does not accept our credentials (401)",
            hint="renew the credentials in the kubeconfig",
            actor=Actor.ADMIN,
        )
    if status == 403 and any(cause.get("reason") == _NAMESPACE_TERMINATING for cause in causes):
        return TransientError(Reason.API_REJECTED, f"cannot {call}: the namespace is being deleted")
    if status == 403:
        return PermanentError(
            Reason.FORBIDDEN,
            f"{whom} cannot {call}: {said}" if whom else f"cannot {call}: {said}",
            hint=f"allow {call.verb} on {call.resource} by RBAC, or lift the quota or policy that forbids it; "
            "an API server that has just started may not have loaded its roles yet, which goes away by itself",
            actor=Actor.ADMIN,
        )
    if status == 413 or (status >= 500 and sent > STORED_MAX):
        return PermanentError(
            Reason.API_REJECTED,
            f"cannot {call}: it has {sent} bytes; the cluster stores about {STORED_MAX} of one object at most",
            hint="spread large settings over several ConfigMaps or Secrets and name them in spec.valuesFrom",
        )
    if status == 409:
        return TransientError(Reason.API_CONFLICT, f"cannot {call}: {said}")
    if status == 404:
        return TransientError(
            Reason.API_REJECTED, f"cannot {call}: {said}", hint="create the namespace, owner or definition it needs"
        )
    if status == 500 and UNDECLARED in str(answer.get("message")):
        return PermanentError(
            Reason.API_REJECTED,
            f"cannot {call}: {said}",
            hint="the definition in the cluster is older than what is written, or the field is misspelt; "
            "for kinds of Windlass apply the newer definitions (deploy/crds)",
            actor=Actor.ADMIN,
        )
    if status in (408, 429) or status >= 500:
        return TransientError(Reason.API_UNAVAILABLE, f"cannot {call}: {said} ({status})", hint="it is tried again")
    return PermanentError(Reason.API_REJECTED, f"cannot {call}: {said}", hint="correct the object")


def not_served(call: Call, api_version: str, kind: str) -> TransientError:
    """Return the error for a kind that discovery does not know; it may still come, with its CRD."""
    return TransientError(
        Reason.API_REJECTED,
        f"cannot {call}: the API server does not serve {kind} of {api_version or 'any group'}",
        hint="install the CustomResourceDefinition, or correct apiVersion and kind",
    )


def _said(call: Call, answer: Mapping[str, Any], causes: list[Mapping[str, Any]]) -> str:
    reason = str(answer.get("reason") or "no reason given")
    if call.resource.partition("/")[0] == "secrets":
        fields = sorted({f"{cause.get('field') or '?'} ({cause.get('reason') or reason})" for cause in causes})
        return f"{reason}: {', '.join(fields[:_CAUSES_MAX])}" if fields else reason
    fields = [f"{cause.get('field') or '?'}: {cause.get('message') or cause.get('reason')}" for cause in causes]
    if fields:
        more = f"; and {len(fields) - _CAUSES_MAX} more" if len(fields) > _CAUSES_MAX else ""
        return f"{reason}: {'; '.join(fields[:_CAUSES_MAX])}{more}"
    return str(answer.get("message") or reason)


def _status(body: bytes) -> Mapping[str, Any]:
    """Parse a Status object; a proxy between us and the API server may answer with anything."""
    try:
        return _mapping(parse_json(body))
    except DocumentError:
        return {"reason": "the answer is not a Kubernetes Status (is there a proxy in between?)"}


def _mapping(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else {}
