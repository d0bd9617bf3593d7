"""1,000 services on chains of ten hops: the what-if plan of a fleet, and one decision over all of them.

Each with 2,000 services too, to see that the time grows no faster than they do.
"""

from __future__ import annotations

import gc
import statistics
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from rows import Row

from windlass.devstack.stack import Stack
from windlass.domain.servicesets.keys import ObjectKey
from windlass.domain.servicesets.models import (
    DEFAULT_PROVIDER,
    ClusterDeployment,
    ServiceObject,
    ServiceSet,
    ServiceTemplate,
    ServiceTemplateChain,
    StateManagementProvider,
)
from windlass.domain.servicesets.operation import OperationRequisites, get_service_set_with_operation
from windlass.domain.servicesets.rollout.fleet import Fleet
from windlass.domain.servicesets.rollout.plan import plan
from windlass.domain.servicesets.rollout.policy import RolloutPolicy
from windlass.domain.servicesets.snapshot import Snapshot

HOPS: Final = 10
SERVICES_EACH: Final = 10
NOW: Final = datetime(2026, 6, 1, 12, tzinfo=UTC)
POLICY: Final = {
    "canary": 1,
    "waves": ["20%"],
    "maxConcurrent": "10%",
    "soak": "30m",
    "windows": [{"schedule": "0 22 * * *", "duration": "8h", "timeZone": "Europe/Berlin"}],
}
NAMESPACE: Final = "fleet"


async def measure(stack: Stack, folder: Path, *, runs: int) -> list[Row]:
    """Plan a fleet of 100 clusters with ten services each, half of which depend on another, and one twice as large."""
    del stack, folder  # pure: no part of the stack is asked
    policy = RolloutPolicy.model_validate(POLICY)
    rows: list[Row] = []
    for services in (1000, 2000):
        taken: list[float] = []
        for _ in range(runs):
            # Models anew each time: what they keep from the first look is not for free.
            whole = fleet(services)
            gc.collect()  # a collection of what making the models left behind is no part of the plan
            began = time.perf_counter()
            made = plan(policy, whole, NOW)
            taken.append((time.perf_counter() - began) * 1000)
            assert made.complete
            assert sum(len(one.hops) for cluster in made.clusters for one in cluster.services) == services * HOPS
        metric = "wall" if services == 1000 else f"wall of {services} services"
        rows.append(Row(name="plan_1000x10", metric=metric, unit="ms", value=statistics.median(taken), n=runs))
    return rows + [_decisions(services, runs) for services in (1000, 2000)]


def _decisions(services: int, runs: int) -> Row:
    """Decide on one ServiceSet whose services have a chain of their own each, the worst there is."""
    taken: list[float] = []
    # Once: a decision works out every chain anew.
    snapshot, owner = one_cluster(services)
    key = ObjectKey(NAMESPACE, owner.metadata.name)
    asked = OperationRequisites(object_key=key, cluster_deployment=owner, system_namespace="windlass-system")
    for _ in range(runs):
        gc.collect()
        began = time.perf_counter()
        decision = get_service_set_with_operation(snapshot, asked)
        taken.append((time.perf_counter() - began) * 1000)
        assert all(one.version == "1.1.0" for one in decision.service_set.spec.services)
    metric = f"decision on {services} services with a chain each"
    return Row(name="plan_1000x10", metric=metric, unit="ms", value=statistics.median(taken), n=runs)


def fleet(services: int) -> Fleet:
    """Return clusters with ten services each, all at the start of chains of `HOPS` steps and wanted at their ends."""
    objects: list[ServiceObject] = []
    clusters: list[ClusterDeployment] = []
    for kind in range(SERVICES_EACH):
        objects += _templates(kind)
    for number in range(services // SERVICES_EACH):
        name = f"c{number:04}"
        metadata = {"namespace": NAMESPACE, "name": name, "labels": {"ring": str(number % 5)}}
        wanted = [_service(kind, HOPS) | _depends(kind) for kind in range(SERVICES_EACH)]
        clusters.append(
            ClusterDeployment.from_object({"metadata": metadata, "spec": {"serviceSpec": {"services": wanted}}})
        )
        there = [_service(kind, 0) | {"version": "1.0.0"} for kind in range(SERVICES_EACH)]
        states = [one | {"state": "Deployed"} for one in there]
        objects.append(
            ServiceSet.from_object(
                {
                    "metadata": {"namespace": NAMESPACE, "name": name},
                    "spec": {"cluster": name, "services": [_stored(one) for one in there]},
                    "status": {"services": states},
                }
            )
        )
    return Fleet(clusters=tuple(clusters), snapshot=Snapshot.of(objects))


def one_cluster(services: int) -> tuple[Snapshot, ClusterDeployment]:
    """Return a cluster with services at the start of chains of their own, all wanted at their ends."""
    objects: list[ServiceObject] = [one for kind in range(services) for one in _templates(kind)]
    there = [_service(kind, 0) | {"version": "1.0.0"} for kind in range(services)]
    metadata = {"namespace": NAMESPACE, "name": "c0"}
    objects.append(
        ServiceSet.from_object(
            {
                "metadata": metadata,
                "spec": {"cluster": "c0", "services": there},
                "status": {"services": [one | {"state": "Deployed"} for one in there]},
            }
        )
    )
    objects.append(
        StateManagementProvider.from_object({"metadata": {"name": DEFAULT_PROVIDER}, "spec": {"selector": {}}})
    )
    wanted = [_service(kind, HOPS) for kind in range(services)]
    owner = ClusterDeployment.from_object({"metadata": metadata, "spec": {"serviceSpec": {"services": wanted}}})
    return Snapshot.of(objects), owner


def _templates(kind: int) -> list[ServiceObject]:
    """Return the templates of one service, and the chain that leads along them."""
    names = [f"app{kind}-1-{number}-0" for number in range(HOPS + 1)]
    supported = [
        {
            "name": name,
            "availableUpgrades": [
                {"name": other, "version": f"1.{number + 1}.0"} for other in names[number + 1 : number + 2]
            ],
        }
        for number, name in enumerate(names)
    ]
    return [
        *(
            ServiceTemplate.from_object(
                {"metadata": {"namespace": NAMESPACE, "name": name}, "spec": {"version": f"1.{number}.0"}}
            )
            for number, name in enumerate(names)
        ),
        ServiceTemplateChain.from_object(
            {
                "metadata": {"namespace": NAMESPACE, "name": f"app{kind}"},
                "spec": {"supportedTemplates": supported},
            }
        ),
    ]


def _service(kind: int, hop: int) -> dict[str, Any]:
    named = {"name": f"app{kind}", "namespace": "apps", "template": f"app{kind}-1-{hop}-0"}
    return named | ({"templateChain": f"app{kind}"} if hop else {})


def _stored(service: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in service.items() if key != "templateChain"}


def _depends(kind: int) -> dict[str, Any]:
    return {"dependsOn": [{"name": f"app{kind - 1}", "namespace": "apps"}]} if kind % 2 else {}
