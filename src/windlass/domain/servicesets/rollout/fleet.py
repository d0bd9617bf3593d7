"""What a plan is made from, a fleet, and what it is to do on each of its clusters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from windlass.domain.ids import SYSTEM_NAMESPACE
from windlass.domain.servicesets.chains import Route, UpgradeStep
from windlass.domain.servicesets.keys import ServiceKey
from windlass.domain.servicesets.models import ClusterDeployment, MultiClusterService
from windlass.domain.servicesets.snapshot import Snapshot

MANAGEMENT_LABELS: Final[Mapping[str, str]] = {"windlass.dev/management-cluster": "true"}
"""Labels of the management cluster, which no object holds: policies pick it by them."""


@dataclass(frozen=True, kw_only=True)
class Fleet:
    """Clusters, what they should have, and what they have.

    Attributes:
        clusters: with their own services.
        multi_cluster_services: services for the clusters that each selects, and for the management cluster where they
            say ``selfManagement``. All there are: what a ServiceSet holds for one that is missing here is removed.
        snapshot: ServiceSets (what is there), templates and chains.
        system_namespace: where ServiceSets, templates and chains of the management cluster lie.
    """

    clusters: tuple[ClusterDeployment, ...]
    multi_cluster_services: tuple[MultiClusterService, ...] = ()
    snapshot: Snapshot = field(default_factory=Snapshot)
    system_namespace: str = SYSTEM_NAMESPACE


class Change(StrEnum):
    """What happens to a service."""

    NONE = "None"
    INSTALL = "Install"
    UPGRADE = "Upgrade"
    UPDATE = "Update"  # the same template and version with other values
    REMOVE = "Remove"


@dataclass(frozen=True, kw_only=True, slots=True)
class Intent:
    """What is to be done with one service on one cluster.

    Attributes:
        owner: the MultiClusterService it comes from; empty for the cluster's own.
        service: which one.
        change: what happens to it.
        current: template and version that are stored; None before an installation.
        desired: template and version that are wanted; None for a removal.
        under_way: the step that has begun already.
        steps: the ones that follow.
        after: services of the same owner and cluster it waits for: their places in the cluster's list, all before it.
        hold: why it will not get to what is desired unless somebody acts; empty if it will.
        failed: whether that is a failure that counts against the budget.
        disabled: whether it stays away from what is desired because somebody wants it so: no hold, but what depends
            on it waits for ever.
        cycle: the dependency cycle that it is a member of, in words: neither it nor what depends on it ever moves.
    """

    owner: str
    service: ServiceKey
    change: Change
    current: UpgradeStep | None = None
    desired: UpgradeStep | None = None
    under_way: UpgradeStep | None = None
    steps: Route = ()
    after: tuple[int, ...] = ()
    hold: str = ""
    failed: bool = False
    disabled: bool = False
    cycle: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Owned:
    """The services of one owner on a cluster.

    Attributes:
        name: MultiClusterService; empty for the cluster's own services.
        first: place of its first service in the cluster's list.
        count: how many there are.
        after: other owners on this cluster whose services must all be deployed first.
        hold: why none of its services can be moved; empty if they can.
    """

    name: str
    first: int
    count: int
    after: tuple[str, ...] = ()
    hold: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class ClusterIntents:
    """What is to be done on one cluster.

    Attributes:
        name: ``namespace/name``; ``management`` for the management cluster.
        labels: of the cluster; `MANAGEMENT_LABELS` for the management cluster.
        services: each after all that it waits for within its owner.
        owners: each after all that it waits for.
    """

    name: str
    labels: Mapping[str, str]
    services: tuple[Intent, ...]
    owners: tuple[Owned, ...]
