"""Helm's failures as typed errors.

Helm hands its failures over as text only, through the library and through the program, and the text changes with
releases of Helm and Kubernetes. So this is the one place that looks at it, and a text that no row knows is transient:
trying again too often costs a little, giving up wrongly costs the release.
"""

from __future__ import annotations

import base64
import json
import re
from dataclasses import dataclass
from typing import Final

from windlass.domain.errors import Actor, PermanentError, Reason, TransientError, WindlassError

_MAX_LINES: Final = 20
_MAX_CHARS: Final = 2_000
_MASK: Final = "•••"
_SHORTEST_LINE: Final = 6
"""Characters of a line of a secret that is masked by itself; shorter ones are words such as ``data:``."""


@dataclass(frozen=True, kw_only=True)
class _Row:
    """``marks`` are parts of Helm's text in lower case; without an ``actor`` the failure is transient."""

    marks: tuple[str, ...]
    reason: Reason = Reason.APPLY_MANIFESTS_FAILED
    actor: Actor | None = None
    hint: str


# The first row with a mark in the text wins; texts seen with Helm 4.2 and Kubernetes 1.36.
_ROWS: Final = (
    _Row(
        marks=("invalid ownership metadata",),
        reason=Reason.RELEASE_CONFLICT,
        actor=Actor.USER,
        hint="rename or delete the object, or remove the release that owns it",
    ),
    _Row(
        marks=("provide credentials", "unauthorized"),
        reason=Reason.FORBIDDEN,
        actor=Actor.ADMIN,
        hint="renew the credentials in the kubeconfig",
    ),
    _Row(
        marks=("failed pre-", "failed post-"),  # a Helm hook; its text goes on like that of any late answer
        hint="it is tried again; look at the Helm hook that it names",
    ),
    _Row(
        marks=(
            "cluster unreachable",
            "connection refused",
            "connection reset",
            "no such host",
            "i/o timeout",
            "tls handshake timeout",
            "unexpected eof",
            "context deadline exceeded",
            "etcdserver:",
            "the server is currently unable to handle",
            "too many requests",
        ),
        reason=Reason.API_UNAVAILABLE,
        hint="it is tried again; check that the API server runs and is reachable",
    ),
    # An admission webhook that cannot be called, an aggregated API that is down: before "denied" and "is invalid".
    _Row(marks=("internal error occurred", "failed calling webhook"), hint="it is tried again"),
    _Row(
        marks=("no matches for kind",),
        hint="install the CustomResourceDefinition, or correct apiVersion and kind in the package",
    ),
    _Row(marks=("because it is being terminated", "object is being deleted"), hint="it is tried again once it is gone"),
    _Row(
        marks=("don't meet the specifications of the schema",),
        actor=Actor.USER,
        hint="correct the settings: the chart's values.schema.json refuses the values",
    ),
    _Row(
        marks=("execution error at",),  # `required` and `fail` in a template
        actor=Actor.USER,
        hint="correct the settings that the chart asks for",
    ),
    _Row(
        marks=(
            "parse error",
            "yaml parse error",
            "error converting yaml",
            "nil pointer evaluating",
            'executing "',
            "failed to load chart",
            "validation: chart.",
            "resource name may not be empty",
        ),
        actor=Actor.AUTHOR,
        hint="correct the package's templates",
    ),
    _Row(
        marks=("chart requires kubeversion",),
        actor=Actor.AUTHOR,
        hint="use a version of the package that supports this Kubernetes",
    ),
    _Row(
        marks=("entity too large", "too long: may not be more than", "too long: must have at most"),
        actor=Actor.AUTHOR,
        hint="Helm keeps chart and values in one Secret of at most 1 MiB compressed: make them smaller",
    ),
    _Row(
        marks=("exceeded quota",),
        reason=Reason.FORBIDDEN,
        actor=Actor.ADMIN,
        hint="raise the namespace's quota or lower what the package asks for",
    ),
    _Row(
        marks=("denied the request", "is forbidden:"),
        reason=Reason.FORBIDDEN,
        actor=Actor.ADMIN,
        hint="change the policy or role that forbids it, or the package",
    ),
    _Row(
        marks=("is invalid:", "cannot be handled as a", "field is immutable"),
        actor=Actor.AUTHOR,
        hint="correct the object in the package or the setting it comes from",
    ),
    _Row(marks=("not found",), hint="create the namespace or object that it names"),
)
_FORBIDDEN: Final = re.compile(
    r'(?:"(?P<name>[^"\s]{0,253})" )?is forbidden: User "[^"\s]{1,512}" cannot (?P<verb>[a-z]{1,32}) resource '
    r'"(?P<resource>[^"\s]{1,253})" in API group "(?P<group>[^"\s]{0,253})"'
    r'(?: in the namespace "(?P<namespace>[^"\s]{1,253})")?'
)
"""What the API server's RBAC authorizer says (k8s.io/apiserver, ``responsewriters.ForbiddenMessage``)."""
_UNKNOWN: Final = _Row(marks=(), hint="it is tried again")


def failed(
    what: str, text: str, *, secrets: frozenset[str] = frozenset(), whom: str = "the user of the kubeconfig"
) -> WindlassError:
    """Return the error for a failed operation.

    Args:
        what: the operation and its release, as the sentence's subject.
        text: what Helm said.
        secrets: texts among the values that the message must not quote (`windlass.domain.text.secret_texts`).
        whom: who acted.
    """
    if (refused := _FORBIDDEN.search(text)) is not None:
        return _forbidden(what, refused, whom)
    lowered = text.lower()
    row = next((row for row in _ROWS if any(mark in lowered for mark in row.marks)), _UNKNOWN)
    message = f"{what} failed: {shorten(mask(text, secrets))}"
    if row.actor is None:
        return TransientError(row.reason, message, hint=row.hint)
    return PermanentError(row.reason, message, hint=row.hint, actor=row.actor)


def _forbidden(what: str, refused: re.Match[str], whom: str) -> PermanentError:
    """Return the error for what RBAC does not allow; resource names are in the manifest and no secret."""
    resource, name, verb = refused["resource"], refused["name"], refused["verb"]
    group = f".{refused['group']}" if refused["group"] else ""
    where = f" in namespace {refused['namespace']}" if refused["namespace"] else ""
    return PermanentError(
        Reason.FORBIDDEN,
        f"{what} failed: {whom} may not {verb} {resource}{group}{f'/{name}' if name else ''}{where}",
        hint="install it as a Module, name a service account that may (spec.target.serviceAccountName), or allow it "
        "with a role; for all Applications: a ClusterRole labelled windlass.dev/aggregate-to-application",
        actor=Actor.ADMIN,
    )


def shorten(text: str) -> str:
    """Keep the first lines: Helm appends whole rendered manifests to some errors."""
    lines = [line.rstrip() for line in text.strip().splitlines() if line.strip()]
    kept = "\n".join(lines[:_MAX_LINES])[:_MAX_CHARS]
    return kept if len(lines) <= _MAX_LINES and len(kept) < _MAX_CHARS else f"{kept} …"


def mask(text: str, secrets: frozenset[str]) -> str:
    """Replace every secret where ``text`` quotes it: whole, a line of it, in base64, or as Go and JSON escape it."""
    quoted: set[str] = set()
    for secret in secrets:
        lines = {line for line in map(str.strip, secret.splitlines()) if len(line) >= _SHORTEST_LINE}
        pieces = {secret, secret.strip(), *lines}
        escaped = {json.dumps(piece, ensure_ascii=plain)[1:-1] for piece in pieces for plain in (True, False)}
        encoded = base64.b64encode(secret.encode()).decode()
        quoted |= {piece for piece in pieces | escaped | {encoded} if piece and piece in text}
    for piece in sorted(quoted, key=len, reverse=True):
        text = text.replace(piece, _MASK)
    return text
