"""What a rollout knows, what it sees, and what it decides."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Self

from windlass.domain.servicesets.rollout.policy import RolloutPolicy
from windlass.domain.servicesets.rollout.waves import Target, Wave, waves


class ClusterState(StrEnum):
    """Where a cluster stands on its way to what is desired."""

    WAITING = "Waiting"  # something is to be done and nothing is under way
    RUNNING = "Running"  # a step is under way
    BETWEEN = "Between"  # a step is done, the next one has not begun
    DEPLOYED = "Deployed"  # everything is as desired
    FAILED = "Failed"  # a step failed
    HELD = "Held"  # only a person can move it: no route, a missing template
    GONE = "Gone"  # the rollout is for it no longer


@dataclass(frozen=True)
class Observed:
    """What is seen of one cluster; ``message`` says why it is held or has failed."""

    state: ClusterState
    message: str = ""


@dataclass(frozen=True, kw_only=True)
class Rollout:
    """A rollout and what it has to remember; all of it is plain data.

    Attributes:
        policy: how it goes.
        waves: which clusters, in which order; they stay as they are once it has begun.
        labels: of each cluster, for windows.
        started: when each cluster was told to begin. What stands here is never told again.
        settled: when each started cluster was first seen deployed or failed, without being anything else since.
        approved: number of the wave to who agreed.
    """

    policy: RolloutPolicy
    waves: tuple[Wave, ...]
    labels: Mapping[str, Mapping[str, str]] = field(default_factory=dict[str, Mapping[str, str]])
    started: Mapping[str, datetime] = field(default_factory=dict[str, datetime])
    settled: Mapping[str, datetime] = field(default_factory=dict[str, datetime])
    approved: Mapping[int, str] = field(default_factory=dict[int, str])

    @classmethod
    def over(cls, policy: RolloutPolicy, targets: Iterable[Target]) -> Self:
        """Return a rollout over these clusters that has not begun.

        Raises:
            CanaryMissingError: see `waves`.
            ValueError: two clusters have the same name.
        """
        targets = tuple(targets)
        return cls(
            policy=policy, waves=waves(policy, targets), labels={target.name: target.labels for target in targets}
        )

    def approve(self, wave: int, by: str) -> Self:
        """Return it with somebody's agreement to a wave (numbers from 1); the first one to agree stays named.

        Raises:
            ValueError: there is no such wave.
        """
        if not 1 <= wave <= len(self.waves):
            raise ValueError(f"there is no wave {wave}; there are {len(self.waves)}")
        return replace(self, approved={wave: by, **self.approved})


class Gate(StrEnum):
    """What keeps clusters from going on."""

    BUDGET = "FailureBudget"
    SOAK = "Soak"
    APPROVAL = "Approval"
    FREEZE = "Freeze"
    WINDOW = "Window"
    CONCURRENCY = "Concurrency"
    DEPENDENCY = "Dependency"
    PROGRESS = "Progress"  # others are under way and have to end first
    CLUSTER = "Cluster"  # a cluster cannot go on by itself
    OBSERVATION = "Observation"  # nothing is known of a cluster


@dataclass(frozen=True)
class Hold:
    """Why something does not go on now.

    Attributes:
        gate: what keeps it.
        clusters: whom.
        reason: a sentence for people: what it waits for, and who can change that.
        until: when it opens by itself; None if it does not.
    """

    gate: Gate
    clusters: tuple[str, ...]
    reason: str
    until: datetime | None = None


class ActionKind(StrEnum):
    """What to do with a cluster."""

    START = "Start"  # for the first time in this rollout
    CONTINUE = "Continue"  # with its next step


@dataclass(frozen=True)
class Action:
    """Let a cluster begin a step; ``reason`` says why now."""

    kind: ActionKind
    cluster: str
    reason: str


class Phase(StrEnum):
    """Where a rollout stands."""

    PROGRESSING = "Progressing"  # something is told to begin, or under way
    WAITING = "Waiting"  # a time will come at which it goes on by itself
    HELD = "Held"  # somebody must act
    COMPLETE = "Complete"  # every cluster has ended, failures within the budget


@dataclass(frozen=True, kw_only=True)
class Decision:
    """What to do now.

    Attributes:
        rollout: as it is to be remembered when the actions are carried out.
        phase: where it stands.
        actions: what to do now.
        holds: why no more is done; without any it is complete.
        look_again: when to ask again if nothing changes before; None if only a change can matter.
    """

    rollout: Rollout
    phase: Phase
    actions: tuple[Action, ...] = ()
    holds: tuple[Hold, ...] = ()
    look_again: datetime | None = None
