"""Actions that come from ActionRequests: each one is carried out once (docs/adr/0023).

The uid of a request is in the package's status before the action takes effect. A lifecycle that was rebuilt from that
status after Temporal lost its data cannot tell whether the effect was lost as well; it says so and does nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final

from temporalio import workflow

from windlass.workflows._actions import Answered

with workflow.unsafe.imports_passed_through():
    from temporalio.exceptions import ApplicationError

    from windlass.contracts.lifecycle import Action, ActionResult, Answer, LifecycleState
    from windlass.contracts.objects import ACTIONS_KEPT
    from windlass.domain.errors import Reason

ANSWERS_KEPT: Final = 2 * ACTIONS_KEPT
"""More than the uids in status: what is still there was answered by this lifecycle, whatever else was."""

LOST: Final = (
    "Temporal lost its data around this request: whether it was carried out is unknown, and it is not carried out again"
)
OBSERVED_WITHIN: Final = timedelta(seconds=8)
"""Of a lifecycle that has just begun; less than a sender waits for an answer."""

GONE: Final = "the object is gone"


def answered_before(state: LifecycleState, action: Action) -> ActionResult | None:
    """Return the answer to an action that this lifecycle has met already, or that it must not carry out."""
    for answer in state.answers:
        if answer.uid == action.uid:
            return answer.result
    known = any(record.uid == action.uid for record in state.actions)
    # Status keeps the newest uids only: of what was asked before the oldest of them nobody can tell.
    forgotten = len(state.actions) >= ACTIONS_KEPT and action.asked < state.actions[0].at.timestamp()
    if known or forgotten:
        return ActionResult(accepted=False, unknown=True, phase="", step="", message=LOST)
    if not state.desired.exists:
        return ActionResult(accepted=False, phase="", step="", message=GONE)
    return None


def announced(state: LifecycleState, action: Action, ahead: LifecycleState) -> LifecycleState:
    """Return ``state`` with the record of an action that has yet to take effect; ``ahead`` is the state after it."""
    record = next(one for one in reversed(ahead.actions) if one.uid == action.uid)
    return state.model_copy(update={"actions": (*state.actions, record)[-ACTIONS_KEPT:]})


def withdrawn(state: LifecycleState, action: Action) -> LifecycleState:
    """Return ``state`` without the record of an action that did not take effect."""
    return state.model_copy(update={"actions": tuple(one for one in state.actions if one.uid != action.uid)})


def remembered(state: LifecycleState, action: Action, result: ActionResult) -> LifecycleState:
    """Return ``state`` with the answer to an action."""
    answers = (*state.answers, Answer(uid=action.uid, result=result))[-ANSWERS_KEPT:]
    return state.model_copy(update={"answers": answers})


@dataclass(frozen=True, kw_only=True)
class Host:
    """What carrying out an action needs of the lifecycle.

    Attributes:
        observed: says whether the state holds what the package's status says.
        read: returns the state.
        take_over: replaces it.
        show: writes status now; returns whether that succeeded.
        answer: takes over an accepted action and says where the lifecycle stands.
    """

    observed: Callable[[], bool]
    read: Callable[[], LifecycleState]
    take_over: Callable[[LifecycleState], None]
    show: Callable[[], Awaitable[bool]]
    answer: Callable[[Answered], ActionResult]


type Decide = Callable[[LifecycleState], Answered]
"""What an action does to a state."""


class Requests:
    """Carries out the actions of people, those with a uid once."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._turn = asyncio.Lock()  # the second of two equal actions gets the answer of the first

    async def carry_out(self, action: Action, decide: Decide) -> ActionResult:
        """Carry out an action and return what it met.

        Raises:
            ApplicationError: API_UNAVAILABLE, the cluster could not be read or written; nothing has happened.
        """
        if not action.uid:
            return self._host.answer(decide(self._host.read()))
        if not self._host.observed():
            try:
                await workflow.wait_condition(self._host.observed, timeout=OBSERVED_WITHIN)
            except TimeoutError:
                raise _not_now("read") from None
        async with self._turn:
            return answered_before(self._host.read(), action) or await self._first(action, decide)

    async def _first(self, action: Action, decide: Decide) -> ActionResult:
        host = self._host
        answered = decide(host.read())
        if answered.accepted:
            host.take_over(announced(host.read(), action, answered.state))
            if not await host.show():
                host.take_over(withdrawn(host.read(), action))
                raise _not_now("written")
            answered = decide(host.read())  # things may have changed meanwhile
            if not answered.accepted:
                answered = replace(answered, state=withdrawn(host.read(), action), look_again=True)
        result = host.answer(answered)
        host.take_over(remembered(host.read(), action, result))
        return result


def _not_now(what: str) -> ApplicationError:
    message = f"the package's status cannot be {what} now"
    return ApplicationError(message, type=Reason.API_UNAVAILABLE.value, non_retryable=True)
