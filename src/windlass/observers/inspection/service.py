"""Who may ask, and which worker answers: the one that serves the package's shard."""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol

import structlog

from windlass.adapters.inspection.callers import Callers
from windlass.adapters.inspection.server import Call, Reply
from windlass.adapters.inspection.wire import TooManyRequestsError
from windlass.contracts.inspection import Question, View
from windlass.domain.errors import Actor, PermanentError, Reason, TransientError
from windlass.domain.ids import PackageKey, member_of
from windlass.observers.inspection.pace import Pace
from windlass.observers.inspection.tickets import Tickets

UNKNOWN_CALLERS: Final = "anybody"
"""In `Pace`: requests whose caller is not known yet. Each costs the API server a review."""

_log = structlog.stdlib.get_logger(__name__)


class Owners(Protocol):
    """Who serves the shards, as this worker knows it."""

    @property
    def mine(self) -> str:
        """This worker's term."""
        ...

    def of(self, key: PackageKey) -> str:
        """Return the term that serves the package; empty if none does now."""
        ...


class Peers(Protocol):
    """The other workers."""

    async def ask(self, member: str, key: PackageKey, view: View, question: Question, caller: str) -> Reply:
        """Have another worker answer.

        Raises:
            WindlassError: it cannot be reached, or as it answers.
        """
        ...


type Answering = Callable[[PackageKey, View, Question], Awaitable[Any]]


class Inspection:
    """Answers requests. `adapters.inspection.server` calls it.

    Args:
        answers: reads what is asked for.
        callers: reviews tokens and rights.
        tickets: checks tickets.
        owners: who serves which shard.
        peers: the other workers.
    """

    def __init__(self, *, answers: Answering, callers: Callers, tickets: Tickets, owners: Owners, peers: Peers) -> None:
        self._answers = answers
        self._callers = callers
        self._tickets = tickets
        self._owners = owners
        self._peers = peers
        self._pace = Pace(time.monotonic)
        self._strangers = Pace(time.monotonic, rate=50.0, burst=200)

    async def __call__(self, call: Call) -> Reply:
        """Answer, or have the owner of the package's shard answer.

        Raises:
            PermanentError: UNAUTHORIZED, nobody knows who asks; FORBIDDEN, they may not; or as the view says.
            TransientError: nobody serves the shard now, somebody asks too often, or something does not answer.
        """
        caller = await self._caller(call)
        owner = self._owners.of(call.key)
        if owner == self._owners.mine:
            content = await self._answers(call.key, call.view, call.question)
            body = json.dumps(content, default=str).encode()
            _log.info("inspected", package=call.key.package_id, view=call.view.value, who=caller)
            return Reply(body=body, member=member_of(owner))
        if call.passed_on_for is not None or not owner:
            # Passed on once: two workers that see different tables must not send a request to and fro.
            raise TransientError(
                Reason.API_UNAVAILABLE,
                f"no worker serves {call.key.package_id} at this moment",
                hint="ask again in a few seconds; shards move when workers come and go",
            )
        return await self._peers.ask(member_of(owner), call.key, call.view, call.question, caller)

    async def _caller(self, call: Call) -> str:
        """Return who asks, once it is certain that they may."""
        if call.passed_on_for is not None:
            return call.passed_on_for
        if not self._strangers.admits(UNKNOWN_CALLERS):
            raise TooManyRequestsError("more requests than the worker can check")
        hypothetical = call.question.hypothetical
        if call.ticket:
            name = await self._tickets.holder(call.ticket, call.key, hypothetical=hypothetical)
            self._count(name)
            return name
        if not call.token:
            raise PermanentError(
                Reason.UNAUTHORIZED,
                "the request has neither a bearer token nor a ticket",
                hint="use the windlass program; docs/security.md says what it sends",
                actor=Actor.USER,
            )
        caller = await self._callers.authenticated(call.token)
        self._count(caller.name)
        await self._callers.require(caller, call.key, "get", "inspect")
        if hypothetical:
            await self._callers.require(caller, call.key, "update")
        return caller.name

    def _count(self, caller: str) -> None:
        if not self._pace.admits(caller):
            raise TooManyRequestsError(f"{caller} asks too often")
