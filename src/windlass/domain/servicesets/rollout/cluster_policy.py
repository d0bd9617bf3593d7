"""When a cluster's own services may move: ``spec.rollout`` of a ClusterDeployment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Self

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel

from windlass.domain.servicesets.rollout.policy import selects
from windlass.domain.servicesets.rollout.state import Gate, Hold
from windlass.domain.servicesets.rollout.windows import Window, opening_from


class ClusterApproval(StrEnum):
    """Before which steps somebody has to agree."""

    NONE = "None"
    EVERY_CHANGE = "EveryChange"
    EVERY_STEP = "EveryStep"


class _Part(BaseModel):
    model_config = ConfigDict(
        frozen=True, extra="forbid", alias_generator=to_camel, validate_by_name=True, hide_input_in_errors=True
    )


class Freeze(_Part):
    """A time in which no step begins.

    Attributes:
        since: its first instant; None if it has begun.
        until: the first instant after it; None if it lasts until it is taken out of the object.
        reason: why, in the words of whoever wrote it.
    """

    since: AwareDatetime | None = None
    until: AwareDatetime | None = None
    reason: Annotated[str, Field(min_length=1)]

    @model_validator(mode="after")
    def _ends_after_it_begins(self) -> Self:
        if self.since is not None and self.until is not None and self.until <= self.since:
            raise ValueError("until must be later than since")
        return self

    def covers(self, at: datetime) -> bool:
        """Say whether ``at`` is in the freeze."""
        return (self.since is None or self.since <= at) and (self.until is None or at < self.until)


class ClusterPolicy(_Part):
    """When the own services of a cluster may begin a step. Without any field: at any time.

    Attributes:
        windows: when steps may begin; always if there are none. If none of them selects the cluster, never.
        approval: before which steps somebody has to agree.
        freeze: times in which no step begins, whatever the windows say.
    """

    windows: tuple[Window, ...] = ()
    approval: ClusterApproval = ClusterApproval.NONE
    freeze: tuple[Freeze, ...] = ()

    def approval_needed(self, *, first_step: bool) -> bool:
        """Say whether somebody has to agree to the next step; ``first_step`` is the first one towards a new spec."""
        return self.approval is ClusterApproval.EVERY_STEP or (
            self.approval is ClusterApproval.EVERY_CHANGE and first_step
        )


def gates(
    policy: ClusterPolicy, cluster: str, labels: Mapping[str, str], now: datetime, *, first_step: bool, approved: bool
) -> tuple[Hold, ...]:
    """Return what keeps the own services of a cluster from beginning a step ``now``; nothing if they may.

    Args:
        policy: of the cluster.
        cluster: its name, for texts.
        labels: its labels, which windows select by.
        now: with a time zone.
        first_step: whether the step is the first one towards a new spec.
        approved: whether somebody has agreed to it.
    """
    found: list[Hold] = []
    for freeze in policy.freeze:
        if freeze.covers(now):
            until = freeze.until.astimezone(UTC) if freeze.until else None
            end = f"until {_shown(until)}" if until else "until the freeze is taken out"
            found.append(Hold(Gate.FREEZE, (cluster,), f"cluster {cluster} is frozen {end}: {freeze.reason}", until))
    if policy.windows:
        found += _shut(policy.windows, cluster, labels, now)
    if policy.approval_needed(first_step=first_step) and not approved:
        found.append(Hold(Gate.APPROVAL, (cluster,), f"cluster {cluster} waits until somebody approves the step"))
    return tuple(found)


def _shut(windows: Iterable[Window], cluster: str, labels: Mapping[str, str], now: datetime) -> list[Hold]:
    mine = [one for one in windows if one.cluster_selector is None or selects(one.cluster_selector, labels)]
    opening = opening_from(mine, now)
    if opening is None:
        return [Hold(Gate.WINDOW, (cluster,), f"no window ever opens for cluster {cluster}: add one that selects it")]
    if opening.start <= now:
        return []
    text = f"the window of cluster {cluster} opens at {_shown(opening.start)}"
    return [Hold(Gate.WINDOW, (cluster,), text, opening.start)]


def _shown(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M} {at.tzname()}"
