"""Tickets: who asks, for callers without a token, or whose token must not leave their machine.

A ticket is an ActionRequest with the action ``inspect``. Creating it takes whatever login the API server accepts, and
the policy windlass-actions asks RBAC for the very right that a token's owner would need. Its detail is the SHA-256 of a
secret that only its creator knows; who presents the secret is the creator.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from datetime import UTC, datetime, timedelta
from typing import Final

from windlass.contracts.actions import INSPECT, ActionRequest, parse_request
from windlass.contracts.inspection import CHANGE
from windlass.contracts.schema_rules import DNS_SUBDOMAIN_PATTERN
from windlass.domain.errors import Actor, PermanentError, Reason
from windlass.domain.ids import API_VERSION, PackageKey
from windlass.observers.watcher.policies import ActionPolicies
from windlass.ports.kube import Kube, ObjectRef

VALID: Final = timedelta(seconds=60)
"""How long a ticket can be used after its creation."""

SKEW: Final = timedelta(seconds=30)
"""By how much the clock of the API server may be ahead."""

_MAX: Final = 512
_NAME: Final = re.compile(DNS_SUBDOMAIN_PATTERN)


class Tickets:
    """Checks tickets.

    Args:
        kube: may get ActionRequests, and the policies that guard them.
    """

    def __init__(self, kube: Kube) -> None:
        self._kube = kube
        self._policies = ActionPolicies(kube)

    async def holder(self, ticket: str, key: PackageKey, *, hypothetical: bool, now: datetime | None = None) -> str:
        """Return who created a ticket for this package.

        Args:
            ticket: ``<name>/<secret>``.
            key: what is asked about.
            hypothetical: whether another version or other settings are asked about.
            now: the time.

        Raises:
            PermanentError: UNAUTHORIZED, it is no ticket for this; says why unless the secret is wrong.
            TransientError: the API server does not answer.
        """
        name, slash, secret = ticket.partition("/")
        if not slash or not _NAME.fullmatch(name) or not secret or len(ticket) > _MAX:
            raise _refused("the ticket is malformed")
        ref = ObjectRef(api_version=API_VERSION, kind="ActionRequest", namespace=key.home, name=name)
        found = await self._kube.get(ref)
        try:
            request = parse_request(found) if found is not None else None
        except ValueError:
            request = None
        if request is None or not _proves(request, secret):
            raise _refused("there is no such ticket")
        if request.spec.action != INSPECT or request.key(key.installation) != key:
            raise _refused("the ticket is for something else")
        age = (now or datetime.now(UTC)) - request.created
        if not -SKEW <= age <= VALID:
            raise _refused("the ticket has expired")
        if reason := await self._policies.refusal(request.created):
            raise _refused(reason)
        if not request.spec.who:
            raise _refused("the ticket does not say who created it")
        if hypothetical and not (request.spec.detail or "").startswith(CHANGE):
            raise _refused("the ticket does not cover another version or other settings")
        return request.spec.who


def proof_of(secret: str, *, hypothetical: bool = False) -> str:
    """Return the detail of a ticket with this secret."""
    digest = hashlib.sha256(secret.encode()).hexdigest()
    return CHANGE + digest if hypothetical else digest


def _proves(request: ActionRequest, secret: str) -> bool:
    expected = (request.spec.detail or "").removeprefix(CHANGE)
    return hmac.compare_digest(expected.encode(), proof_of(secret).encode())


def _refused(why: str) -> PermanentError:
    return PermanentError(
        Reason.UNAUTHORIZED, why, hint="ask again: each command makes itself a new ticket", actor=Actor.USER
    )
