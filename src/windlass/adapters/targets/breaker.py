"""Remembers which clusters do not answer, so that nobody waits for them again and again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

PROVEN_SECONDS: Final = 5.0
"""After an answer a cluster counts as reachable for so long; then the next use asks it for its version first."""

FIRST_PAUSE: Final = 1.0
LONGEST_PAUSE: Final = 15.0
"""Seconds until a cluster that does not answer is asked again; doubled after each failure up to the longest."""

FORGOTTEN_SECONDS: Final = 300.0
"""Seconds after its last pause in which a cluster that nobody asks for is remembered."""


@dataclass
class Breaker:
    """The state of one cluster.

    Attributes:
        clock: monotonic seconds.
        text: what the last failure said; empty while the cluster answers.
    """

    clock: Callable[[], float]
    text: str = ""
    _proven_at: float = float("-inf")
    _failures: int = 0
    _closed_until: float = float("-inf")

    @property
    def proven(self) -> bool:
        """Whether the cluster has answered a moment ago."""
        return not self.text and self.clock() - self._proven_at < PROVEN_SECONDS

    @property
    def idle(self) -> bool:
        """Whether it says nothing any more: the cluster was not asked for a while, nobody knows how it is."""
        return not self.proven and self.clock() - self._closed_until > FORGOTTEN_SECONDS

    @property
    def pausing(self) -> bool:
        """Whether the cluster is known not to answer and is not asked again yet."""
        return self.clock() < self._closed_until

    def answered(self) -> None:
        """Note an answer."""
        self._proven_at, self._failures, self.text = self.clock(), 0, ""

    def failed(self, text: str) -> None:
        """Note that there was none."""
        pause = min(FIRST_PAUSE * 2.0 ** min(self._failures, 10), LONGEST_PAUSE)
        self._failures += 1
        self._closed_until, self.text = self.clock() + pause, text

    def doubt(self) -> None:
        """Ask the cluster before its next use: a request to it has failed."""
        self._proven_at = float("-inf")
