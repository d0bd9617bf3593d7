"""Which services may move now: those whose dependencies, direct and transitive, are deployed as they are wanted.

Reference kcm.md section 2 (FilterServiceDependencies); gating is transitive and knows versions (design.md section 1).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from windlass.domain.servicesets.errors import DependencyNotDesiredError, SeveralServiceSetsError
from windlass.domain.servicesets.holds import Hold, HoldReason, listed
from windlass.domain.servicesets.keys import ServiceKey, service_key
from windlass.domain.servicesets.models import (
    ClusterDeployment,
    MultiClusterService,
    Service,
    ServiceSet,
    ServiceState,
    ServiceWithValues,
    State,
)
from windlass.domain.servicesets.snapshot import key_of
from windlass.domain.servicesets.versions import is_deployed, version_or_template


@dataclass(frozen=True, kw_only=True)
class Eligible:
    """Services that may move, by namespace and name, and why the others may not."""

    services: tuple[Service, ...]
    holds: tuple[Hold, ...]


def filter_service_dependencies(
    service_sets: Iterable[ServiceSet],
    system_namespace: str,
    multi_cluster_service: MultiClusterService | None,
    cluster_deployment: ClusterDeployment | None,
    desired_services: Sequence[Service],
) -> Eligible:
    """Return the desired services that wait for no other.

    A service is *satisfied* when the provider reports it Deployed at the stored version and that is the desired one. A
    service may move when everything it depends on, directly or through others, is satisfied. Its own state never
    matters: what fails can be mended. Members of a dependency cycle, and what depends on them, never may.

    Args:
        service_sets: the ServiceSets; stands in for the contract's reads. The one that counts is that of
            `service_set_of`.
        system_namespace: where the ServiceSets of the management cluster lie.
        multi_cluster_service: whose services they are; None for a cluster's own.
        cluster_deployment: where they go; None for the management cluster.
        desired_services: with resolved versions.

    Raises:
        DependencyNotDesiredError: a service depends on one that is not in the list.
        SeveralServiceSetsError: it is not clear which ServiceSet tells the state.
    """
    desired = {service_key(service.namespace, service.name): service for service in desired_services}
    dependencies = {key: _dependencies(key, service, desired) for key, service in desired.items()}
    service_set = service_set_of(service_sets, system_namespace, multi_cluster_service, cluster_deployment)
    missing = _missing(desired, service_set)
    clear = _clear(dependencies, missing)
    cyclic = {key for key in desired if key not in clear}
    services: list[Service] = []
    holds: list[Hold] = []
    for key in sorted(desired):
        blockers = [one for one in dependencies[key] if one in missing or not clear.get(one, False)]
        if blockers or key in cyclic:
            holds.append(_hold(key, blockers, missing, cyclic))
        else:
            services.append(desired[key])
    return Eligible(services=tuple(services), holds=tuple(holds))


def service_set_of(
    service_sets: Iterable[ServiceSet],
    system_namespace: str,
    multi_cluster_service: MultiClusterService | None,
    cluster_deployment: ClusterDeployment | None,
) -> ServiceSet | None:
    """Return the one ServiceSet of this cluster and this MultiClusterService; None if there is none.

    Raises:
        SeveralServiceSetsError: there are more.
    """
    namespace = cluster_deployment.metadata.namespace if cluster_deployment else system_namespace
    cluster = cluster_deployment.metadata.name if cluster_deployment else ""
    owner = multi_cluster_service.metadata.name if multi_cluster_service else ""
    found = [
        item
        for item in service_sets
        if item.metadata.namespace == namespace
        and item.spec.cluster == cluster
        and item.spec.multi_cluster_service == owner
    ]
    if len(found) > 1:
        raise SeveralServiceSetsError(cluster, owner, sorted(map(key_of, found)))
    return found[0] if found else None


def states_of(service_set: ServiceSet | None) -> dict[ServiceKey, ServiceState]:
    """Return what the provider reports, by service."""
    reported = service_set.status.services if service_set else ()
    return {service_key(state.namespace, state.name): state for state in reported}


def stored_of(service_set: ServiceSet | None) -> dict[ServiceKey, ServiceWithValues]:
    """Return what a ServiceSet stores, by service."""
    stored = service_set.spec.services if service_set else ()
    return {service_key(service.namespace, service.name): service for service in stored}


def _dependencies(key: ServiceKey, service: Service, desired: Mapping[ServiceKey, Service]) -> tuple[ServiceKey, ...]:
    named = tuple(dict.fromkeys(service_key(one.namespace, one.name) for one in service.depends_on))
    for dependency in named:
        if dependency not in desired:
            raise DependencyNotDesiredError(key, dependency)
    return named


def _missing(desired: Mapping[ServiceKey, Service], service_set: ServiceSet | None) -> dict[ServiceKey, str]:
    """Return what is not satisfied, and what it lacks."""
    stored, states = stored_of(service_set), states_of(service_set)
    lacks = {key: _lack(service, stored.get(key), states.get(key)) for key, service in desired.items()}
    return {key: lack for key, lack in lacks.items() if lack}


def _lack(desired: Service, stored: ServiceWithValues | None, state: ServiceState | None) -> str:
    if stored is None:
        return "disabled, not installed" if desired.disable else "not there yet"
    if not is_deployed(stored, state):
        if state is None or not state.state:
            return "not deployed yet"
        if state.state != State.DEPLOYED:
            return state.state
        return f"still at {version_or_template(state)}, not {version_or_template(stored)}"
    if stored.template != desired.template or version_or_template(stored) != version_or_template(desired):
        lack = f"at {version_or_template(stored)}, not {version_or_template(desired)}"
        return f"disabled {lack}" if desired.disable else lack
    return ""


def _clear(
    dependencies: Mapping[ServiceKey, Sequence[ServiceKey]], missing: Mapping[ServiceKey, str]
) -> dict[ServiceKey, bool]:
    """Return for each service whether all it depends on is satisfied; one in or behind a cycle is left out.

    Every service and every dependency is looked at once.
    """
    dependents: dict[ServiceKey, list[ServiceKey]] = {key: [] for key in dependencies}
    waiting = {key: len(named) for key, named in dependencies.items()}
    for key, named in dependencies.items():
        for dependency in named:
            dependents[dependency].append(key)
    ready = [key for key, count in waiting.items() if count == 0]
    clear = dict.fromkeys(ready, True)
    while ready:
        done = ready.pop()
        passes = clear[done] and done not in missing
        for dependent in dependents[done]:
            clear[dependent] = clear.get(dependent, True) and passes
            waiting[dependent] -= 1
            if waiting[dependent] == 0:
                ready.append(dependent)
    return {key: value for key, value in clear.items() if waiting[key] == 0}


def _hold(
    key: ServiceKey, blockers: Sequence[ServiceKey], missing: Mapping[ServiceKey, str], cyclic: set[ServiceKey]
) -> Hold:
    if key in cyclic:
        around = [str(one) for one in blockers if one in cyclic]
        return Hold(
            service=key,
            reason=HoldReason.DEPENDENCY_CYCLE,
            message=f"service {key} is in a dependency cycle or waits for one, through {listed(around)}",
            blockers=tuple(blockers),
        )
    told = [f"{one} ({missing.get(one, 'waits for its own dependencies')})" for one in blockers]
    return Hold(
        service=key,
        reason=HoldReason.DEPENDENCY_NOT_READY,
        message=f"service {key} waits for {listed(told)}",
        blockers=tuple(blockers),
    )
