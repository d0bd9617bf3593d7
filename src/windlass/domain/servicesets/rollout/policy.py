"""What people say about how a rollout goes over their clusters."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta
from enum import StrEnum
from typing import Annotated, Final

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic.alias_generators import to_camel

from windlass.domain.servicesets.models import LabelSelector
from windlass.domain.servicesets.rollout.windows import Duration, Window
from windlass.domain.servicesets.selectors import matches

_PERCENT: Final = re.compile(r"(0|[1-9]\d{0,2})%")


def _amount(value: object) -> int | str:
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    if isinstance(value, str) and (match := _PERCENT.fullmatch(value)) and int(match[1]) <= 100:
        return value
    raise ValueError("write a number of clusters (3) or a percentage (25%)")


def _some(value: object) -> int | str:
    amount = _amount(value)
    if amount in {0, "0%"}:
        raise ValueError("with none at all nothing would ever begin")
    return amount


type Amount = Annotated[int | str, BeforeValidator(_amount)]
"""A number of clusters, or a percentage of all clusters of the rollout, as text: ``25%``."""

type SomeAmount = Annotated[int | str, BeforeValidator(_some)]
"""The same, and not none."""


def rounded_up(amount: int | str, total: int) -> int:
    """Return how many of ``total`` clusters an amount is, rounded up, as Kubernetes does with ``maxSurge``."""
    return amount if isinstance(amount, int) else -(-total * int(amount.rstrip("%")) // 100)


def rounded_down(amount: int | str, total: int) -> int:
    """Return how many of ``total`` clusters an amount is, rounded down, as Kubernetes does with ``maxUnavailable``."""
    return amount if isinstance(amount, int) else total * int(amount.rstrip("%")) // 100


class Approval(StrEnum):
    """Before which waves somebody has to agree."""

    NONE = "None"
    AFTER_CANARY = "AfterCanary"
    EVERY_WAVE = "EveryWave"


class _Part(BaseModel):
    model_config = ConfigDict(
        frozen=True, extra="forbid", alias_generator=to_camel, validate_by_name=True, hide_input_in_errors=True
    )


class Order(_Part):
    """In which order clusters come.

    Attributes:
        label: whose values decide. Numbers come by size and before other text; clusters without the label come last.
        values: these come first, in this order.
    """

    label: str = Field(min_length=1)
    values: tuple[str, ...] = ()


class RolloutPolicy(_Part):
    """How a rollout goes over its clusters. Without any field: all at once, and the first failure stops it.

    Attributes:
        canary: clusters of the first wave, by number or percentage; the first ones in order.
        canary_selector: or by labels.
        waves: sizes of the waves after the canary; the last one repeats until no cluster is left. Percentages are of
            all clusters and are rounded up.
        order_by: the order of clusters; by name if it is absent.
        max_concurrent: clusters under way at a time; rounded up.
        failure_budget: failed clusters that are put up with; rounded down. One more, and nothing begins any more.
        soak: how long a wave is watched, from its last cluster's end on, before the next one begins.
        approval: before which waves somebody has to agree.
        windows: when clusters may begin a step; always if there are none. A cluster that no window selects may never.
    """

    canary: Amount | None = None
    canary_selector: LabelSelector | None = None
    waves: Annotated[tuple[SomeAmount, ...], Field(min_length=1)] = ("100%",)
    order_by: Order | None = None
    max_concurrent: SomeAmount = "100%"
    failure_budget: Amount = 0
    soak: Duration = timedelta()
    approval: Approval = Approval.NONE
    windows: tuple[Window, ...] = ()

    def windows_of(self, labels: Mapping[str, str]) -> tuple[Window, ...] | None:
        """Return the windows of a cluster with these labels; None if it may begin at any time."""
        if not self.windows:
            return None
        return tuple(
            one for one in self.windows if one.cluster_selector is None or selects(one.cluster_selector, labels)
        )

    def approval_needed(self, number: int, *, after_canary: bool) -> bool:
        """Say whether somebody has to agree before wave ``number`` (from 1)."""
        return self.approval is Approval.EVERY_WAVE or (
            self.approval is Approval.AFTER_CANARY and number == 2 and after_canary
        )


def selects(selector: LabelSelector, labels: Mapping[str, str]) -> bool:
    """Say whether a selector picks an object with these labels; an empty one picks nothing (kcm.md section 3)."""
    if not selector.match_labels and not selector.match_expressions:
        return False
    return matches(selector, labels)
