"""Who runs a filter next: packages take turns, and each has a budget of time.

A package has one filter running at a time, so that one whose filter loops leaves the other children to the others. Time
that its filters take is charged to it; beyond `BURST` it waits until `RATE` has paid for it. Packages that have used
much of their budget leave one child free together, however many they are.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

BURST: Final = 2.0
"""Seconds of filters that a package may use at once: two that loop until they are killed, or 4,000 ordinary ones."""

RATE: Final = 0.2
"""Seconds of filters that a package may use per second for good."""

SUSPECT: Final = 0.5
"""Seconds used, not yet paid for, from which a package leaves one child to the others."""


@dataclass
class _Account:
    """What a package has used: ``debt`` seconds at the time ``at``; who waits, and whether one runs."""

    at: float
    debt: float = 0.0
    waiting: deque[asyncio.Future[None]] = field(default_factory=deque[asyncio.Future[None]])
    running: bool = False
    suspect: bool = False

    def settle(self, now: float) -> None:
        self.debt = max(0.0, self.debt - RATE * (now - self.at))
        self.at = now


class Turns:
    """Hands ``size`` places to packages in rotation.

    Args:
        size: places.
        clock: seconds; the event loop's if none is given.
    """

    def __init__(self, size: int, clock: Callable[[], float] | None = None) -> None:
        self._free = size
        self._suspects = max(size - 1, 1)  # places that suspects may take together
        self._clock = clock
        self._accounts: OrderedDict[str, _Account] = OrderedDict()  # in the order of their turns
        self._timer: asyncio.TimerHandle | None = None

    @asynccontextmanager
    async def taken(self, package: str) -> AsyncGenerator[None]:
        """Hold a place for ``package`` while the block runs; its time is charged to the package."""
        account = self._accounts.setdefault(package, _Account(at=self._now()))
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        account.waiting.append(turn)
        self._grant()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._release(package, 0.0)
            else:
                account.waiting.remove(turn)
                self._forget(package)
            raise
        began = self._now()
        try:
            yield
        finally:
            self._release(package, self._now() - began)

    def _release(self, package: str, used: float) -> None:
        account = self._accounts[package]
        account.settle(self._now())
        account.debt += used
        account.running = False
        self._accounts.move_to_end(package)
        self._suspects += account.suspect
        self._free += 1
        self._grant()
        self._forget(package)

    def _grant(self) -> None:
        """Give free places to those whose turn it is."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._free:
            package = self._next()
            if package is None:
                return
            account = self._accounts[package]
            self._accounts.move_to_end(package)
            account.running = True
            account.suspect = account.debt > SUSPECT
            self._suspects -= account.suspect
            self._free -= 1
            account.waiting.popleft().set_result(None)

    def _next(self) -> str | None:
        now = self._now()
        soonest: float | None = None
        for package, account in self._accounts.items():
            if account.running or not account.waiting:
                continue
            account.settle(now)
            if account.debt >= BURST:
                wait = (account.debt - BURST) / RATE + 0.001
                soonest = wait if soonest is None else min(wait, soonest)
            elif account.debt <= SUSPECT or self._suspects:
                return package
        if soonest is not None:
            self._timer = asyncio.get_running_loop().call_later(soonest, self._grant)
        return None

    def _forget(self, package: str) -> None:
        """Drop the account of a package that owes nothing; of others a few stay until they are asked for again."""
        account = self._accounts.get(package)
        if account is not None and not account.running and not account.waiting and account.debt < SUSPECT / 100:
            del self._accounts[package]

    def _now(self) -> float:
        return self._clock() if self._clock is not None else asyncio.get_running_loop().time()
