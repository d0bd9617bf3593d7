"""How changes go over clusters: ``spec.rollout`` of MultiClusterServices and of ClusterDeployments.

The meaning of each field is that of `windlass.domain.servicesets.rollout.policy`, which reads the same documents.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import AwareDatetime, Field, StringConstraints, WithJsonSchema

from windlass.contracts.base import KubeModel
from windlass.contracts.fleet.parts import ATOMIC, LabelKey, LabelSelector, LabelValue, Text
from windlass.domain.servicesets.rollout import policy

_PERCENT: Final = "([1-9][0-9]?|100)%"
_PLAIN_DURATION: Final = r"^(0|([0-9]{1,9}(\.[0-9]{1,6})?[smhd])+)$"

WINDOWS: Final = 64
WAVES: Final = 100


def _amount(pattern: str, minimum: int) -> dict[str, Any]:
    return {"x-kubernetes-int-or-string": True, "pattern": f"^{pattern}$", "minimum": minimum, "maxLength": 4}


type Amount = Annotated[policy.Amount, WithJsonSchema(_amount(f"(0%|{_PERCENT})", 0))]
type SomeAmount = Annotated[policy.SomeAmount, WithJsonSchema(_amount(_PERCENT, 1))]
type PlainDuration = Annotated[str, StringConstraints(pattern=_PLAIN_DURATION, min_length=1, max_length=32)]


class MaintenanceWindow(KubeModel):
    """When steps may begin."""

    schedule: Annotated[str, StringConstraints(min_length=9, max_length=128)] = Field(
        description="When it opens: cron with five fields, such as 0 22 * * 1-5."
    )
    duration: PlainDuration = Field(description="How long it stays open: 90s, 30m, 1h30m, 2d.")
    time_zone: Annotated[str, StringConstraints(min_length=1, max_length=64)] = Field(
        default="UTC", description="IANA name of the time zone of the schedule, such as Europe/Berlin."
    )
    cluster_selector: LabelSelector | None = Field(default=None, description="Clusters it is for; all if absent.")


class FreezePeriod(KubeModel):
    """A time in which no step begins; what is under way is finished."""

    since: AwareDatetime | None = Field(default=None, description="From when on; absent: at once.")
    until: AwareDatetime | None = Field(default=None, description="Until when; absent: until it is taken out.")
    reason: Annotated[str, StringConstraints(min_length=1, max_length=1024)] = Field(
        description="Why; shown wherever something waits for it."
    )


class ClusterOrder(KubeModel):
    """In which order clusters come."""

    label: LabelKey = Field(description="Label whose values decide: numbers by size, then other text.")
    values: list[LabelValue] | None = Field(
        default=None, max_length=100, description="Values that come first, in this order.", json_schema_extra=ATOMIC
    )


class RolloutSpec(KubeModel):
    """How a change goes over the clusters. Without any field: all at once, and the first failure stops it."""

    canary: Amount | None = Field(
        default=None, description="Clusters of the first wave: a number, or a percentage such as 5%."
    )
    canary_selector: LabelSelector | None = Field(
        default=None, description="Clusters of the first wave by their labels; with canary at most so many of them."
    )
    waves: list[SomeAmount] | None = Field(
        default=None,
        min_length=1,
        max_length=WAVES,
        description="Sizes of the waves after the canary, rounded up; the last one repeats. 100% if absent.",
        json_schema_extra=ATOMIC,
    )
    order_by: ClusterOrder | None = Field(default=None, description="Order of the clusters; by name if absent.")
    max_concurrent: SomeAmount | None = Field(
        default=None, description="Clusters that may be under way at a time, rounded up; 100% if absent."
    )
    failure_budget: Amount | None = Field(
        default=None, description="Failed clusters that are tolerated, rounded down; none if absent."
    )
    soak: PlainDuration | None = Field(
        default=None, description="How long a wave is watched before the next one begins; 0s if absent."
    )
    approval: Literal["None", "AfterCanary", "EveryWave"] | None = Field(
        default=None, description="Before which waves somebody has to agree; None if absent."
    )
    windows: list[MaintenanceWindow] | None = Field(
        default=None,
        max_length=WINDOWS,
        description="When steps may begin; always if absent. A cluster that no window selects may never begin.",
        json_schema_extra=ATOMIC,
    )


class ClusterRolloutSpec(KubeModel):
    """When a cluster's own services may move."""

    windows: list[MaintenanceWindow] | None = Field(
        default=None,
        max_length=WINDOWS,
        description="When steps may begin; always if absent.",
        json_schema_extra=ATOMIC,
    )
    approval: Literal["None", "EveryChange", "EveryStep"] | None = Field(
        default=None,
        description="EveryChange: somebody has to agree before the first step towards a new spec; EveryStep: before "
        "each step; None if absent.",
    )
    freeze: list[FreezePeriod] | None = Field(
        default=None, max_length=32, description="Times in which no step begins.", json_schema_extra=ATOMIC
    )


class PastStep(KubeModel):
    """How long one step took."""

    start: Text | None = Field(default=None, alias="from", description="Template before it; absent: an installation.")
    end: Text = Field(alias="to", description="Template after it.")
    duration: PlainDuration
