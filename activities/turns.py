"""Turns at Helm: how many releases a process works on before they have been applied."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final
from weakref import WeakSet

BEGINS_WITHIN: Final = 2.0
"""Seconds after which a release that was fetched and has not begun is no longer counted: it was refused or given up."""


class Turns:
    """Counts the releases that are on their way to Helm or in it, in one process.

    A release that waits for Helm as an activity sends heartbeats, each a write in Temporal's database, and holds one
    of the worker's slots. So the worker fetches only as many as Helm will be free for soon (`windlass.worker.slots`);
    the others wait in their task queue and cost nothing.

    Args:
        most: releases at a time. Those that were applied and wait for readiness have given their turn back.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._taken = 0
        self._expected: deque[asyncio.TimerHandle] = deque()
        self._told: WeakSet[asyncio.Event] = WeakSet()

    @property
    def free(self) -> bool:
        """Whether one more release would have a turn."""
        return self._taken < self._most

    def expect(self) -> None:
        """Count a release that has been fetched and is about to begin."""
        self._taken += 1
        self._expected.append(asyncio.get_running_loop().call_later(BEGINS_WITHIN, self._expected_in_vain))

    @contextmanager
    def taken(self) -> Generator[Turn]:
        """Take a turn, also beyond the bound: who has been fetched goes on."""
        if self._expected:
            self._expected.popleft().cancel()
        else:
            self._taken += 1
        turn = Turn(self)
        try:
            yield turn
        finally:
            turn.give_back()

    def tell(self, changed: asyncio.Event) -> None:
        """Set ``changed`` whenever a turn is given back, for as long as somebody else holds it."""
        self._told.add(changed)

    def _expected_in_vain(self) -> None:
        self._expected.popleft()  # timers of one length end in their order
        self.given_back()

    def given_back(self) -> None:
        """Count one less, and tell it."""
        self._taken -= 1
        for changed in self._told:
            changed.set()


class Turn:
    """One release's turn at Helm."""

    def __init__(self, turns: Turns) -> None:
        self._turns: Turns | None = turns

    def give_back(self) -> None:
        """Let another one have it; once is enough."""
        turns, self._turns = self._turns, None
        if turns is not None:
            turns.given_back()
