"""Workers that take keys from a `WorkQueue`, and the flow around each key.

    get -> valid? no: forget, done. yes: handle -> ok: forget, done; error: add rate limited, done.

(contract: "About the workqueue flow"). A key without a legal form is never tried again.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

import structlog

from windlass.controllerruntime.workqueue import WorkQueue
from windlass.domain.entities import Operation, is_valid_key
from windlass.domain.errors import WindlassError

_log: Final = structlog.stdlib.get_logger(__name__)


class Workers:
    """Hands keys to ``handle``, each key to one worker at a time.

    Args:
        queue: the keys; nobody else may add to it or take from it.
        handle: brings one primary to its target; whatever it raises, the key is tried again.
        controller: name for the log.
    """

    def __init__(
        self, queue: WorkQueue[str], handle: Callable[[str], Awaitable[None]], *, controller: str = ""
    ) -> None:
        self._queue = queue
        self._handle = handle
        self._controller = controller
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._operations: dict[str, Operation] = {}

    def add(self, key: str, operation: Operation) -> None:
        """Let ``key`` be worked on; the latest ``operation`` before that is what the log says."""
        if not self._queue.shutting_down:
            self._operations[key] = operation
            self._queue.add(key)
            self._wake()

    def add_after(self, key: str, operation: Operation, delay: float) -> None:
        """As `add`, after ``delay`` seconds."""
        if not self._queue.shutting_down:
            self._operations.setdefault(key, operation)
            self._queue.add_after(key, delay)
            self._wake()

    async def run(self, threadiness: int) -> None:
        """Work with so many keys at a time until `shut_down`; return when the last of them is done."""
        async with asyncio.TaskGroup() as group:
            for number in range(threadiness):
                group.create_task(self._work(), name=f"{self._controller}/worker-{number}")

    def shut_down(self) -> None:
        """Begin nothing from now on; keys that are being worked on end."""
        self._queue.shut_down()
        if self._timer is not None:
            self._timer.cancel()
        self._wake()

    async def _work(self) -> None:
        while (key := await self._get()) is not None:
            try:
                await self._process(key)
            finally:
                # Whatever happened: a key that is not done is locked for ever.
                self._queue.done(key)
                self._wake()

    async def _process(self, key: str) -> None:
        operation = self._operations.pop(key, Operation.PUT)
        log = _log.bind(controller=self._controller, key=key, operation=operation.name.lower())
        if not is_valid_key(key):
            self._queue.forget(key)
            log.error("no legal key: dropped")
            return
        try:
            await self._handle(key)
        except Exception as error:  # noqa: BLE001 - a handler is anybody's code; one key must not end the others' worker
            delay = self._queue.add_rate_limited(key)
            failures = self._queue.failures(key)
            trace = {} if isinstance(error, WindlassError) else {"exc_info": error}
            log.warning("failed, tried again", error=str(error), failures=failures, delay=round(delay, 3), **trace)
        else:
            self._queue.forget(key)
            log.debug("done")

    async def _get(self) -> str | None:
        while (key := self._queue.get()) is None:
            if self._queue.shutting_down:
                return None
            waiter = asyncio.get_running_loop().create_future()
            self._waiting.append(waiter)
            self._arm()
            try:
                await waiter
            finally:
                with suppress(ValueError):  # who wakes it has taken it out
                    self._waiting.remove(waiter)
        self._arm()
        return key

    def _wake(self) -> None:
        """Wake as many workers as there are keys; all of them to go home."""
        wanted = len(self._waiting) if self._queue.shutting_down else len(self._queue)
        while wanted > 0 and self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(None)
                wanted -= 1
        self._arm()

    def _arm(self) -> None:
        """Let the clock wake a worker when the next delayed key is due."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        due = self._queue.next_due()
        if due is not None and self._waiting:
            self._timer = asyncio.get_running_loop().call_later(due, self._wake)
