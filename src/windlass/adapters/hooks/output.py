"""What a hook prints: read as fast as it comes, so that the hook never blocks, and kept within bounds."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, Protocol

CHUNK: Final = 64 * 1024
"""Bytes read at once: the size of a Linux pipe."""

MAX_LINE: Final = 16 * 1024
"""Bytes of one logged line; the rest of a longer line is dropped."""

MAX_LOGGED: Final = 1024 * 1024
"""Bytes logged of one run, both streams together; what follows is read and dropped."""

LINE_COST: Final = 100
"""Bytes that a line counts beside its own, so that a flood of empty lines ends too (at about 10,000 lines)."""

TAIL_LINES: Final = 20
"""Last lines kept of each stream for the error text."""

# Lines reach terminals and status: no escape sequences, no NUL. Tab stays.
_CONTROLS: Final = dict.fromkeys([*range(9), *range(10, 32), 127, *range(128, 160)])

_LINES_PER_TURN: Final = 100  # lines are logged at 20 to 50 µs each: other work gets its turn every 5 ms


class Sink(Protocol):
    """Takes what one stream brings."""

    async def feed(self, chunk: bytes) -> None:
        """Take the next bytes."""
        ...

    async def close(self) -> None:
        """Take note that nothing more comes."""
        ...


class Budget:
    """What may still be logged of one run; shared by its two streams."""

    def __init__(self, limit: int = MAX_LOGGED) -> None:
        self._left = limit

    @property
    def exceeded(self) -> bool:
        """Whether something was not logged."""
        return self._left <= 0

    def spend(self, size: int) -> bool:
        """Say whether a line of ``size`` bytes may be logged, and count it; once it may not, none may."""
        self._left = self._left - size - LINE_COST if self._left > 0 else 0
        return self._left > 0


class Lines:
    """Cuts a stream into lines, hands each on while the budget lasts, and keeps the last ones.

    Words in ``hidden`` are blotted out.
    """

    def __init__(self, take: Callable[[str], None], budget: Budget, hidden: Sequence[str] = ()) -> None:
        self._take = take
        self._budget = budget
        self._hidden = tuple(hidden)
        self._partial = b""
        self._overlong = False
        self._unlogged = b""  # once nothing is logged any more, only its end is worth cutting into lines
        self._tail: deque[str] = deque(maxlen=TAIL_LINES)

    @property
    def tail(self) -> tuple[str, ...]:
        """The last lines that were not blank, at most `TAIL_LINES`; complete once the stream is closed."""
        return tuple(self._tail)

    async def feed(self, chunk: bytes) -> None:
        """Take bytes; control goes back to the event loop between batches of lines."""
        if self._budget.exceeded:
            self._unlogged = (self._unlogged + chunk)[-MAX_LINE:]
            return
        *lines, rest = chunk.split(b"\n")
        for count, line in enumerate(lines, start=1):
            self._end_line(line)
            if count % _LINES_PER_TURN == 0:
                await asyncio.sleep(0)
        self._extend(rest)

    async def close(self) -> None:
        """Take a last line that has no end, and the last lines of what was not looked at."""
        *lines, rest = self._unlogged.split(b"\n")
        for line in lines:
            self._end_line(line)
        self._end_line(rest)

    def _extend(self, part: bytes) -> None:
        room = MAX_LINE - len(self._partial)
        self._overlong = self._overlong or len(part) > room
        self._partial += part[:room]

    def _end_line(self, last: bytes) -> None:
        self._extend(last)
        text = self._partial.decode(errors="replace").translate(_CONTROLS).rstrip()
        if self._overlong:
            text += " … (line cut)"
        for word in self._hidden:
            text = text.replace(word, "…")
        size = len(self._partial)
        self._partial, self._overlong = b"", False
        if not text:
            return
        self._tail.append(text)
        if self._budget.spend(size):
            self._take(text)


class Capture:
    """Keeps a stream's bytes up to a limit, for an answer that is read as a whole."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._chunks: list[bytes] = []
        self._size = 0

    @property
    def overflowed(self) -> bool:
        """Whether more came than was kept."""
        return self._size > self._limit

    @property
    def content(self) -> bytes:
        """What was kept."""
        return b"".join(self._chunks)[: self._limit]

    async def feed(self, chunk: bytes) -> None:
        """Keep bytes while there is room."""
        if self._size <= self._limit:
            self._chunks.append(chunk)
        self._size += len(chunk)

    async def close(self) -> None:
        """Nothing to do."""


class Reader(Protocol):
    """Where bytes come from."""

    async def read(self, size: int) -> bytes:
        """Return at most ``size`` bytes; none at the end."""
        ...


async def pump(reader: Reader, sink: Sink) -> None:
    """Feed ``sink`` until the stream ends or the caller cancels; either way the sink is closed."""
    try:
        while chunk := await reader.read(CHUNK):
            await sink.feed(chunk)
    finally:
        await sink.close()
