"""The work queue: which keys wait, which are being worked on. Pure: no task, no lock, an injected clock.

The contract is that of client-go's work queue (frameworks.md section 2.3):

- A key that waits already is not added again.
- A key that is being worked on is never handed to a second worker; added meanwhile, it comes once more, once, after
  `WorkQueue.done`.
- A delayed key is added when its time comes. Of several times for one key the earliest counts; a plain `WorkQueue.add`
  neither waits for it nor cancels it.
- `WorkQueue.forget` clears the count of failures and takes nothing out of the queue.

`windlass.controllerruntime.workers` makes tasks wait on it.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Hashable
from itertools import count
from typing import Protocol

from windlass.controllerruntime.ratelimit import RateLimiter


class Observer(Protocol):
    """Who is told what happens in a queue."""

    def added(self, key: object) -> None:
        """A key was taken in that did not wait already."""
        ...

    def retried(self) -> None:
        """A key failed and will come again."""
        ...

    def taken(self, key: object) -> None:
        """A key was handed out."""
        ...

    def done(self, key: object) -> None:
        """A key that was handed out is not worked on any more."""
        ...

    def dropped(self) -> None:
        """All that waited was dropped."""
        ...


class WorkQueue[K: Hashable]:
    """Keys that wait for a worker, in the order in which they were added.

    After `shut_down` no key is taken in and none is handed out: what waits is dropped, since the next start begins with
    every primary there is, and a stop must not take as long as the queue is.

    Args:
        clock: monotonic seconds.
        limiter: the waits of `add_rate_limited`; the default of client-go when None.
        observer: is told what happens.
    """

    def __init__(
        self, clock: Callable[[], float], limiter: RateLimiter[K] | None = None, *, observer: Observer | None = None
    ) -> None:
        self._observer = observer
        self._clock = clock
        self._limiter = limiter or RateLimiter[K](clock)
        self._ready: deque[K] = deque()
        self._dirty: set[K] = set()
        self._processing: set[K] = set()
        self._due: dict[K, float] = {}
        self._heap: list[tuple[float, int, K]] = []
        self._sequence = count()
        self._shutting_down = False

    def add(self, key: K) -> None:
        """Take ``key`` in, unless it waits already."""
        if self._shutting_down or key in self._dirty:
            return
        self._dirty.add(key)
        if self._observer is not None:
            self._observer.added(key)
        if key not in self._processing:
            self._ready.append(key)

    def add_after(self, key: K, delay: float) -> None:
        """Take ``key`` in after ``delay`` seconds; at once if that is not positive."""
        if delay <= 0:
            self.add(key)
            return
        due = self._clock() + delay
        if self._shutting_down or self._due.get(key, due + 1) <= due:
            return
        self._due[key] = due
        heapq.heappush(self._heap, (due, next(self._sequence), key))  # an entry that was later is skipped when it comes

    def add_rate_limited(self, key: K) -> float:
        """Count a failure of ``key`` and take it in after the wait for that; return the wait in seconds."""
        delay = self._limiter.when(key)
        if self._observer is not None:
            self._observer.retried()
        self.add_after(key, delay)
        return delay

    def failures(self, key: K) -> int:
        """Return how often ``key`` has failed since it was last forgotten."""
        return self._limiter.failures(key)

    def forget(self, key: K) -> None:
        """Clear the count of failures of ``key``."""
        self._limiter.forget(key)

    def get(self) -> K | None:
        """Hand out the key that has waited longest; None if none may be worked on now.

        Whoever gets a key calls `done` with it, also after a failure: until then nobody else gets it.
        """
        self._promote()
        if self._shutting_down or not self._ready:
            return None
        key = self._ready.popleft()
        self._dirty.discard(key)
        self._processing.add(key)
        if self._observer is not None:
            self._observer.taken(key)
        return key

    def done(self, key: K) -> None:
        """Take note that ``key`` is not being worked on any more; it waits again if it was added meanwhile."""
        if key not in self._processing:
            return
        self._processing.discard(key)
        if self._observer is not None:
            self._observer.done(key)
        if key in self._dirty and not self._shutting_down:
            self._ready.append(key)

    def next_due(self) -> float | None:
        """Return the seconds until the next delayed key is due (0 if one is); None if none is delayed."""
        while self._heap and self._due.get(self._heap[0][2]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return max(0.0, self._heap[0][0] - self._clock()) if self._heap else None

    def shut_down(self) -> None:
        """Take nothing in and hand nothing out from now on."""
        self._shutting_down = True
        self._ready.clear()
        self._dirty.clear()
        self._due.clear()
        self._heap.clear()
        if self._observer is not None:
            self._observer.dropped()

    @property
    def shutting_down(self) -> bool:
        """Whether `shut_down` was called."""
        return self._shutting_down

    @property
    def idle(self) -> bool:
        """Whether no key is being worked on."""
        return not self._processing

    def __len__(self) -> int:
        """How many keys a worker could get now."""
        self._promote()
        return len(self._ready)

    def _promote(self) -> None:
        while self.next_due() == 0:
            _, _, key = heapq.heappop(self._heap)
            del self._due[key]
            self.add(key)
