"""Fleets for tests: clusters, services, templates and chains in a line each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from windlass.domain.servicesets.models import (
    ClusterDeployment,
    MultiClusterService,
    ServiceObject,
    ServiceSet,
    ServiceTemplate,
    ServiceTemplateChain,
)
from windlass.domain.servicesets.rollout.fleet import Fleet
from windlass.domain.servicesets.rollout.plan import Plan, plan
from windlass.domain.servicesets.rollout.policy import RolloutPolicy
from windlass.domain.servicesets.rollout.predictions import Predictions
from windlass.domain.servicesets.snapshot import Snapshot

NOW: Final = datetime(2026, 6, 1, 12, tzinfo=UTC)
MINUTE: Final = timedelta(minutes=1)
MINUTES: Final = Predictions(default=MINUTE)
"""Every step takes a minute."""


def wanted(name: str, hop: int, *after: str, chain: str = "line", **more: Any) -> dict[str, Any]:
    """Service ``name`` at template ``t<hop>``."""
    depends = {"dependsOn": [{"name": one} for one in after]} if after else {}
    return {"name": name, "template": f"t{hop}", "templateChain": chain} | depends | more


def there(name: str, hop: int, state: str = "Deployed", **more: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """What is stored and reported of a service; ``state`` is empty if nothing is."""
    stored = {"name": name, "namespace": "default", "template": f"t{hop}", "version": f"{hop}.0.0"}
    return stored | more, {**stored, "state": state}


def templates(count: int = 6) -> list[ServiceObject]:
    """Templates t1 to t<count> with versions 1.0.0 and so on, and ``line``, the chain that leads along them."""
    edges = {number: [number + 1] if number < count else [] for number in range(1, count + 1)}
    return [
        *(
            ServiceTemplate.from_object(
                {
                    "metadata": {"namespace": "prod", "name": f"t{number}"},
                    "spec": {"version": f"{number}.0.0", "helm": {}},
                }
            )
            for number in range(1, count + 1)
        ),
        chain("line", edges),
    ]


def chain(name: str, edges: Mapping[int, Sequence[int]]) -> ServiceTemplateChain:
    supported = [
        {
            "name": f"t{start}",
            "availableUpgrades": [{"name": f"t{end}", "version": f"{end}.0.0"} for end in ends],
        }
        for start, ends in edges.items()
    ]
    return ServiceTemplateChain.from_object(
        {"metadata": {"namespace": "prod", "name": name}, "spec": {"supportedTemplates": supported}}
    )


def cluster(name: str, *services: Mapping[str, Any], **labels: str) -> ClusterDeployment:
    return ClusterDeployment.from_object(
        {
            "kind": "ClusterDeployment",
            "metadata": {"namespace": "prod", "name": name, "labels": labels},
            "spec": {"serviceSpec": {"services": list(services)}},
        }
    )


def shared(
    name: str, *services: Mapping[str, Any], after: Sequence[str] = (), keep: bool = False, **labels: str
) -> MultiClusterService:
    return MultiClusterService.from_object(
        {
            "metadata": {"name": name},
            "spec": {
                "clusterSelector": {"matchLabels": labels},
                "dependsOn": list(after),
                "keepServicesOnSelectorMismatch": keep,
                "serviceSpec": {"services": list(services)},
            },
        }
    )


def stored_on(
    name: str, *services: tuple[dict[str, Any], dict[str, Any]], cluster: str = "", owner: str = ""
) -> ServiceSet:
    return ServiceSet.from_object(
        {
            "kind": "ServiceSet",
            "metadata": {"namespace": "prod", "name": name},
            "spec": {
                "cluster": cluster or name,
                "multiClusterService": owner,
                "services": [stored for stored, _ in services],
            },
            "status": {"services": [state for _, state in services if state["state"]]},
        }
    )


def fleet(*objects: ServiceObject, shared: Sequence[MultiClusterService] = ()) -> Fleet:
    return Fleet(
        clusters=tuple(one for one in objects if isinstance(one, ClusterDeployment)),
        multi_cluster_services=tuple(shared),
        snapshot=Snapshot.of([*templates(), *objects]),
    )


def planned(one: Fleet, predictions: Predictions = MINUTES, **policy: Any) -> Plan:
    return plan(RolloutPolicy.model_validate(policy), one, NOW, predictions)


def minute(at: datetime | None) -> float | None:
    """Minutes since the plan's beginning."""
    return None if at is None else (at - NOW) / MINUTE


def shown(made: Plan) -> dict[str, list[str]]:
    """``{"edge a": ["2.0.0 0-1", "3.0.0 1-2"], "edge b": ["held: ..."]}``."""
    found: dict[str, list[str]] = {}
    for one in made.clusters:
        for service in one.services:
            hops = [f"{hop.version or '-'} {minute(hop.begins):g}-{minute(hop.ends):g}" for hop in service.hops]
            if service.hold:
                hops.append(f"held: {service.hold}")
            found[f"{one.name.removeprefix('prod/')} {service.intent.service.name}"] = hops
    return found
