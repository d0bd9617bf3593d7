"""What the drift monitor knows of one package, and when the package is due for a comparison."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Final

from windlass.domain.drift.comparison import Difference, Policy, Rule
from windlass.domain.ids import PackageKey
from windlass.ports.helm import ReleaseRef
from windlass.ports.kube import ObjectRef

QUIET: Final = 1.0
"""Seconds without a further change before a changed object is compared."""

INTERVAL: Final = 10.0
"""Seconds between two comparisons of one package because of changes."""

GONE_INTERVAL: Final = 0.5
"""Seconds between two comparisons of one package because of deletions: the first one is looked into at once, and
somebody who deletes an object again and again cannot keep the worker busy."""

RETELL: Final = 600.0
"""Seconds after which a lifecycle is told again what it has been told and its status does not say; also the longest
pause after failures."""


@dataclass
class Looked:
    """One package with a release that is looked after.

    Attributes:
        key: of the package.
        release: where it is, and as whom it is looked at.
        subject: uid, revision and policy; when one of them changes, everything is compared again.
        revision: of its release, as its status says.
        rules: what to ignore.
        known: digest of the differences that its status shows; ``shown`` is what it says of objects not watched.
        resting: whether no run is under way, as far as its status says.
        expected: the objects of the release.
        unwatched: the objects that are not watched; ``coverage`` says so in words, empty if there are none.
        resync_at: when those are compared again (seconds of the loop's clock).
        found: where objects differed when they were last compared; objects that do not differ are absent.
        dirty: what is to be compared; ``whole`` is everything, ``urgent`` is now.
        moved: when its revision was last seen to be another one.
        since: when the first of it became dirty (seconds of the loop's clock).
        compared: when it was last compared.
        told: what its lifecycle was told last, and ``told_at`` when.
        failures: how often in a row something could not be compared.
        foreign: the stored revision that its status does not know, if there is one.
        timer: begins the next comparison.
        busy: whether it is being compared.
        missed: whether a comparison was due while another one ran.
        dropped: whether it is no longer looked after; a comparison that still runs has no effect.
    """

    key: PackageKey
    release: ReleaseRef
    subject: tuple[str, int, Policy] | None = None
    revision: int = 0
    rules: tuple[Rule, ...] = ()
    known: str = ""
    shown: str = ""
    resting: bool = False
    expected: frozenset[ObjectRef] = frozenset()
    unwatched: frozenset[ObjectRef] = frozenset()
    coverage: str = ""
    resync_at: float = 0.0
    found: dict[ObjectRef, tuple[Difference, ...]] = field(default_factory=dict[ObjectRef, tuple[Difference, ...]])
    dirty: set[ObjectRef] = field(default_factory=set[ObjectRef])
    whole: bool = True
    urgent: bool = False
    moved: float = 0.0
    since: float = 0.0
    compared: float = 0.0
    told: tuple[str, ...] = ()
    told_at: float = 0.0
    foreign: int = 0
    failures: int = 0
    timer: asyncio.TimerHandle | None = None
    busy: bool = False
    missed: bool = False
    dropped: bool = False

    def later(self) -> float:
        """Count a failure; return the pause after it in seconds."""
        self.failures += 1
        return pause_after(self.failures)


def pause_after(failures: int) -> float:
    """Return the seconds until the next try after so many failures in a row: `INTERVAL`, doubled, at most `RETELL`."""
    return min(INTERVAL * 2.0 ** min(failures - 1, 16), RETELL) if failures > 0 else INTERVAL
