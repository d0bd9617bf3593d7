"""Why a service does not move: every service that is not yet what is wanted has a stated reason."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from windlass.domain.servicesets.keys import ServiceKey
from windlass.domain.servicesets.models import Condition

NAMED: Final = 3
"""Services that one message names; the rest is counted."""

UPGRADES_PERMITTED: Final = "ServicesUpgradesPermitted"
"""Type of the condition that is False while a service is held because no route leads to what is wanted."""


class HoldReason(StrEnum):
    """Why; values are wire values."""

    DEPENDENCY_NOT_READY = "DependencyNotReady"
    DEPENDENCY_CYCLE = "DependencyCycle"
    UPGRADE_IN_FLIGHT = "UpgradeInFlight"
    NO_UPGRADE_ROUTE = "NoUpgradeRoute"
    DISABLED = "Disabled"


@dataclass(frozen=True, kw_only=True)
class Hold:
    """One service that is kept as it is.

    Attributes:
        service: which one.
        reason: the word for conditions and metrics.
        message: what it waits for, or what somebody has to do.
        blockers: the services it depends on directly that hold it up.
    """

    service: ServiceKey
    reason: HoldReason
    message: str
    blockers: tuple[ServiceKey, ...] = ()


def upgrade_condition(holds: Iterable[Hold]) -> Condition:
    """Return the condition that tells of targets no route reaches; its writer adds time and generation."""
    held = [hold for hold in holds if hold.reason is HoldReason.NO_UPGRADE_ROUTE]
    if not held:
        return Condition(type=UPGRADES_PERMITTED, status="True", reason="Succeeded", message="")
    return Condition(
        type=UPGRADES_PERMITTED,
        status="False",
        reason=HoldReason.NO_UPGRADE_ROUTE.value,
        message=listed([hold.message for hold in held], "; "),
    )


def listed(parts: Sequence[str], separator: str = ", ") -> str:
    """Join the first few of ``parts`` and count the rest."""
    rest = len(parts) - NAMED
    return separator.join([*parts[:NAMED], f"and {rest} more"] if rest > 0 else parts)
