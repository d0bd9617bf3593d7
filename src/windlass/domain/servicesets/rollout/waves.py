"""Which clusters form which wave."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from windlass.domain.errors import Actor, PermanentError, Reason
from windlass.domain.servicesets.rollout.policy import Order, RolloutPolicy, rounded_up, selects


@dataclass(frozen=True)
class Target:
    """A cluster of a rollout: its name, unique within it, and its labels."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True)
class Wave:
    """Clusters that go together.

    Attributes:
        number: from 1.
        canary: whether it is the wave that goes first to be watched.
        clusters: names in the order in which they begin.
    """

    number: int
    canary: bool
    clusters: tuple[str, ...]

    def __str__(self) -> str:
        return f"wave {self.number}" + (" (canary)" if self.canary else "")


class CanaryMissingError(PermanentError):
    """A canary is asked for, and no cluster would be one: the rollout would begin unwatched."""

    def __init__(self) -> None:
        super().__init__(
            Reason.VALIDATION_FAILED,
            "canarySelector picks none of the clusters",
            hint="label a cluster for it, or leave canarySelector out",
            actor=Actor.USER,
        )


def waves(policy: RolloutPolicy, targets: Iterable[Target]) -> tuple[Wave, ...]:
    """Return the waves of a rollout; every cluster is in exactly one. No clusters, no waves.

    The canary holds what ``canarySelector`` picks, or else the first ones; if both are given, at most ``canary``
    of those that are picked.

    Raises:
        CanaryMissingError: the selector picks none.
        ValueError: two clusters have the same name.
    """
    ordered = sorted(targets, key=lambda target: (_rank(policy.order_by, target.labels), target.name))
    if len({target.name for target in ordered}) < len(ordered):
        raise ValueError("two clusters of a rollout have the same name")
    canary = _canary(policy, ordered)
    left = [target.name for target in ordered if target.name not in canary]
    found = [Wave(1, canary=True, clusters=tuple(canary))] if canary else []
    sizes = iter(policy.waves)
    size = 0
    while left:
        amount = next(sizes, None)
        size = size if amount is None else rounded_up(amount, len(ordered))
        found.append(Wave(len(found) + 1, canary=False, clusters=tuple(left[:size])))
        left = left[size:]
    return tuple(found)


def _canary(policy: RolloutPolicy, ordered: list[Target]) -> dict[str, None]:
    picked = ordered
    if policy.canary_selector is not None:
        picked = [target for target in ordered if selects(policy.canary_selector, target.labels)]
        if ordered and not picked:
            raise CanaryMissingError
    elif policy.canary is None:
        return {}
    most = len(picked) if policy.canary is None else rounded_up(policy.canary, len(ordered))
    return dict.fromkeys(target.name for target in picked[:most])


def _rank(order: Order | None, labels: Mapping[str, str]) -> tuple[int, int, str]:
    """Return what clusters are sorted by: named values, numbers by size, other values, no value."""
    if order is None:
        return (0, 0, "")
    value = labels.get(order.label)
    if value is None:
        return (3, 0, "")
    if value in order.values:
        return (0, order.values.index(value), "")
    return (1, int(value), "") if value.isdecimal() and value.isascii() else (2, 0, value)
