"""What the demo shows: acts, the packages in them, what each was seen to do, and what was checked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum


class Mark(StrEnum):
    """How far something is."""

    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    LOST = "lost"
    """The worker that did it is gone."""


@dataclass(frozen=True, kw_only=True)
class Fact:
    """One thing seen in a workflow's history.

    ``scheduled`` is the id of the event that scheduled the activity: facts with one id are about one attempt.
    ``at`` is in seconds since the epoch, by the server's clock; ``worker`` names who did it, where the event says so.
    """

    event: int
    scheduled: int
    step: str
    mark: Mark
    detail: str = ""
    at: float = 0.0
    worker: str = ""


@dataclass
class StepLine:
    """One step of a package within an act."""

    scheduled: int
    step: str
    detail: str
    mark: Mark
    began: float
    ended: float = 0.0

    @property
    def took(self) -> float:
        """Seconds from schedule to end; 0 while it runs and for steps too short to be timed by the server."""
        return max(self.ended - self.began, 0.0) if self.ended else 0.0


@dataclass
class Subject:
    """One package within an act: its head line from the watched object, its steps from the history."""

    name: str
    head: str = ""
    ready: str = "Unknown"
    release: str = ""
    steps: list[StepLine] = field(default_factory=list[StepLine])

    def take(self, fact: Fact) -> StepLine:
        """Fold a fact in and return the line it is about."""
        for line in self.steps:
            if line.scheduled == fact.scheduled:
                line.mark, line.ended = fact.mark, fact.at
                return line
        line = StepLine(
            scheduled=fact.scheduled,
            step=fact.step,
            detail=fact.detail,
            mark=fact.mark,
            began=fact.at,
            ended=0.0 if fact.mark is Mark.RUNNING else fact.at,
        )
        self.steps.append(line)
        return line


@dataclass
class Check:
    """One thing that must be seen in the cluster; ``seen`` is what was last found there."""

    text: str
    mark: Mark = Mark.RUNNING
    seen: str = ""


@dataclass
class Act:
    """One act of the story.

    ``began`` and ``ended`` are seconds of the monotonic clock; ``since`` is the begin in seconds since the epoch.
    """

    title: str
    began: float
    since: float
    ended: float = 0.0
    subjects: dict[str, Subject] = field(default_factory=dict[str, Subject])
    entries: list[Check | str] = field(default_factory=list["Check | str"])

    @property
    def failed(self) -> bool:
        """Whether a check was not met."""
        return any(isinstance(one, Check) and one.mark is Mark.FAILED for one in self.entries)


type Line = Act | Check | str | tuple[str, StepLine] | Subject
"""What has just changed: an act begins or ends, a check, a remark, a package's step, a package's head."""

type Show = Callable[[Act | None, Line], None]
"""Takes the running act and what has just changed in it."""
