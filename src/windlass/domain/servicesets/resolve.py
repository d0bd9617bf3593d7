"""From what is wanted and what is stored to what the ServiceSet should say next (kcm.md section 2)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from windlass.domain.servicesets import chains as graph
from windlass.domain.servicesets.chain_graphs import ChainGraphs
from windlass.domain.servicesets.chains import ChainGraph, UpgradeStep
from windlass.domain.servicesets.dependencies import filter_service_dependencies, states_of, stored_of
from windlass.domain.servicesets.errors import ServiceSetError, TemplateNotFoundError, UpgradePathsError
from windlass.domain.servicesets.holds import Hold, HoldReason
from windlass.domain.servicesets.keys import ObjectKey, ServiceKey, service_key
from windlass.domain.servicesets.models import (
    ClusterDeployment,
    MultiClusterService,
    Service,
    ServiceSet,
    ServiceState,
    ServiceUpgradePaths,
    ServiceWithValues,
)
from windlass.domain.servicesets.snapshot import Chains, Snapshot, key_of
from windlass.domain.servicesets.upgrade_paths import services_with_desired_chains
from windlass.domain.servicesets.versions import (
    is_deployed,
    is_downgrade,
    resolve_service_versions,
    version_or_template,
)

type NextHop = Callable[[ServiceKey, str, str], UpgradeStep | None]
"""From a service, its template and the one it is wanted at to the step between them; None where no route leads on."""


@dataclass(frozen=True, kw_only=True)
class Resolution:
    """Services to write with their versions, and why others, or the rest of their way, are held."""

    services: tuple[ServiceWithValues, ...]
    holds: tuple[Hold, ...]


def services_to_deploy(
    upgrade_paths: Iterable[ServiceUpgradePaths], filtered_services: Sequence[Service], service_set: ServiceSet
) -> Resolution:
    """Return what each eligible service should be next: at most one hop further (kcm.md section 2).

    =============================================  =============================================================
    a service that                                 is
    =============================================  =============================================================
    has a stored version that is not deployed yet  kept at it, with the desired values and options
    is disabled                                    left out
    is not stored                                  given the desired template at once; the chain does not matter
    has the desired template                       kept at it, also in a chain that leads round to it
    has a route to the desired template            given the next template on the longest one
    is wanted in an older version, without route   given the desired template at once
    has a chain, and no route                      left out and held: the stored entry stays
    has neither chain nor route                    given the desired template at once: nothing restricts it
    =============================================  =============================================================

    Those in flight come first, in stored order; the others follow in the order of ``filtered_services``. A hop without
    a version of its own has an empty one, to be resolved from its template.

    Args:
        upgrade_paths: of the stored services. The first entry for a service counts, if it starts at the stored
            template; one without a template starts there, too.
        filtered_services: those whose dependencies are satisfied, with resolved versions.
        service_set: what is stored, with resolved versions, and what the provider reports.
    """
    paths: dict[ServiceKey, ServiceUpgradePaths] = {}
    for entry in upgrade_paths:
        paths.setdefault(service_key(entry.namespace, entry.name), entry)

    def next_hop(key: ServiceKey, start: str, end: str) -> UpgradeStep | None:
        entry = paths.get(key)
        return graph.next_hop(entry, start, end) if entry is not None and entry.template in {"", start} else None

    return _step(next_hop, filtered_services, service_set)


def _step(next_hop: NextHop, filtered_services: Sequence[Service], service_set: ServiceSet) -> Resolution:
    """Return what `services_to_deploy` does, wherever hops come from."""
    eligible = {service_key(service.namespace, service.name): service for service in filtered_services}
    states = states_of(service_set)
    services: list[ServiceWithValues] = []
    holds: list[Hold] = []
    settled: dict[ServiceKey, ServiceWithValues] = {}
    in_flight: set[ServiceKey] = set()
    for key, stored in stored_of(service_set).items():
        desired = eligible.get(key)
        if desired is None:
            continue
        if is_deployed(stored, states.get(key)):
            settled[key] = stored
            continue
        in_flight.add(key)
        services.append(_with_options(stored, desired))
        if _elsewhere(stored, desired):
            holds.append(_in_flight(key, stored, desired, states.get(key)))
    for key, desired in eligible.items():
        if key in in_flight:
            continue
        stored = settled.get(key)
        if desired.disable:
            holds += [_disabled(key)] if withheld(stored, desired) else []
            continue
        target = _next(key, stored, desired, next_hop)
        if target is None:
            holds.append(_no_route(key, stored, desired))
            continue
        template, version = target
        base = stored or ServiceWithValues(name=key.name)
        services.append(
            _with_options(base.changed(namespace=key.namespace, template=template, version=version), desired)
        )
    return Resolution(services=tuple(services), holds=tuple(holds))


def build_services_list(
    stored: Sequence[ServiceWithValues], filtered: Sequence[ServiceWithValues], desired: Iterable[Service]
) -> tuple[ServiceWithValues, ...]:
    """Return the services of the next spec (kcm.md section 2).

    All of ``filtered``, in their order; then the stored ones that are still desired and not among them, verbatim and in
    stored order: they are locked or disabled. Stored services that nobody desires any more are dropped. A service that
    is stored more than once is kept once: the last entry, which is the one that all decisions look at.
    """
    resolved = {service_key(service.namespace, service.name) for service in filtered}
    wanted = {service_key(service.namespace, service.name) for service in desired}
    kept = {
        key: service
        for service in stored
        for key in (service_key(service.namespace, service.name),)
        if key in wanted and key not in resolved
    }
    return (*filtered, *kept.values())


def resolve_services_to_apply(
    snapshot: Snapshot,
    system_namespace: str,
    multi_cluster_service: MultiClusterService | None,
    cluster_deployment: ClusterDeployment | None,
    desired_services: Sequence[Service],
    service_set: ServiceSet,
) -> Resolution:
    """Return which services may be applied now, and at which versions (kcm.md section 2).

    Resolves versions, filters by dependencies, works out upgrade paths and takes one step on them. Templates and chains
    are those of the ServiceSet's namespace.

    Args:
        snapshot: templates, chains and ServiceSets; stands in for the contract's reads.
        system_namespace: where the ServiceSets of the management cluster lie.
        multi_cluster_service: whose services they are; None for a cluster's own.
        cluster_deployment: where they go; None for the management cluster.
        desired_services: the whole list.
        service_set: what is stored; an empty one if there is none yet.

    Raises:
        TemplateNotFoundError: of a desired or stored service.
        DependencyNotDesiredError: a service depends on one that is not in the list.
        SeveralServiceSetsError: it is not clear which ServiceSet tells the state.
        UpgradePathsError: chains that are missing or do not list a stored template. Nothing is applied until then.
    """
    namespace = service_set.metadata.namespace
    desired = resolve_service_versions(snapshot.templates, namespace, desired_services)
    current = with_resolved_versions(snapshot, service_set)
    service_sets = [current if key_of(item) == key_of(current) else item for item in snapshot.service_sets]
    eligible = filter_service_dependencies(
        service_sets, system_namespace, multi_cluster_service, cluster_deployment, desired
    )
    chains = _chains_of(services_with_desired_chains(desired, current.spec.services), namespace, snapshot.chains)

    def next_hop(key: ServiceKey, start: str, end: str) -> UpgradeStep | None:
        chain = chains.get(key)
        return chain.next_hop(start, end) if chain is not None else None

    step = _step(next_hop, eligible.services, current)
    wanted = {service_key(service.namespace, service.name): service for service in desired}
    stored = stored_of(current)
    gated = [hold for hold in eligible.holds if withheld(stored.get(hold.service), wanted[hold.service])]
    return Resolution(
        services=tuple(_with_version(snapshot, namespace, service, wanted) for service in step.services),
        holds=tuple(sorted([*gated, *step.holds], key=lambda hold: hold.service)),
    )


def _chains_of(services: Iterable[Service], namespace: str, chains: Chains) -> dict[ServiceKey, ChainGraph]:
    """Return the chain of each service that has one.

    The decision asks it for the one next hop. All routes, as `services_upgrade_paths` lists them for people, would be
    work that grows with the square of the chain's length; the hop is the same (a test over any chain).

    Raises:
        UpgradePathsError: chains that are missing or do not list the template.
    """
    graphs = ChainGraphs(chains)
    found: dict[ServiceKey, ChainGraph] = {}
    errors: list[ServiceSetError] = []
    for service in services:
        key = service_key(service.namespace, service.name)
        try:
            if service.template_chain:
                found[key] = graphs.at(ObjectKey(namespace, service.template_chain), service.template, key)
        except ServiceSetError as error:
            errors.append(error)
    if errors:
        raise UpgradePathsError(errors)
    return found


def with_resolved_versions(snapshot: Snapshot, service_set: ServiceSet) -> ServiceSet:
    """Return ``service_set`` with the versions of its stored services, so that one without is no difference.

    Raises:
        TemplateNotFoundError: of a stored service without a version.
    """
    services = resolve_service_versions(snapshot.templates, service_set.metadata.namespace, service_set.spec.services)
    return service_set.changed(spec=service_set.spec.changed(services=services))


def _with_version(
    snapshot: Snapshot, namespace: str, service: ServiceWithValues, wanted: Mapping[ServiceKey, Service]
) -> ServiceWithValues:
    """Return a service of the next spec with its version.

    Raises:
        TemplateNotFoundError: names the chain if the template is a hop that nobody asked for by name.
    """
    try:
        (resolved,) = resolve_service_versions(snapshot.templates, namespace, [service])
    except TemplateNotFoundError as error:
        desired = wanted[error.service]
        if service.template == desired.template:
            raise
        raise TemplateNotFoundError(
            error.template, error.service, chain=ObjectKey(namespace, desired.template_chain)
        ) from None
    return resolved


def withheld(stored: ServiceWithValues | None, desired: Service) -> bool:
    """Say whether a service that stays as it is stored stays behind what is wanted."""
    return stored is None or _elsewhere(stored, desired) or _with_options(stored, desired) != stored


def _next(
    key: ServiceKey, stored: ServiceWithValues | None, desired: Service, next_hop: NextHop
) -> tuple[str, str] | None:
    """Return the template and version of the next step, None where no route leads on."""
    target = desired.template, desired.version
    if stored is None or stored.template == desired.template:
        return target
    hop = next_hop(key, stored.template, desired.template)
    if hop is not None:
        named = "" if hop.version == hop.name else hop.version
        return target if hop.name == desired.template else (hop.name, named)
    return target if not desired.template_chain or is_downgrade(stored, desired) else None


def _with_options(entry: ServiceWithValues, desired: Service) -> ServiceWithValues:
    """Return ``entry`` with what may change at any time, also when that clears it."""
    return entry.changed(
        values=desired.values,
        values_from=desired.values_from,
        helm_options=desired.helm_options,
        helm_action=desired.helm_action,
    )


def _elsewhere(stored: ServiceWithValues, desired: Service) -> bool:
    return stored.template != desired.template or version_or_template(stored) != version_or_template(desired)


def _in_flight(key: ServiceKey, stored: ServiceWithValues, desired: Service, state: ServiceState | None) -> Hold:
    reported = state.state if state and state.state else "not reported yet"
    return Hold(
        service=key,
        reason=HoldReason.UPGRADE_IN_FLIGHT,
        message=f"service {key} goes on to {version_or_template(desired)} "
        f"once {version_or_template(stored)} is deployed ({reported})",
    )


def _disabled(key: ServiceKey) -> Hold:
    return Hold(service=key, reason=HoldReason.DISABLED, message=f"service {key} is disabled")


def _no_route(key: ServiceKey, stored: ServiceWithValues | None, desired: Service) -> Hold:
    at = f"{stored.template} {stored.version}".strip() if stored else "nothing"
    return Hold(
        service=key,
        reason=HoldReason.NO_UPGRADE_ROUTE,
        message=f"service {key} stays at {at}: "
        f"chain {desired.template_chain} has no route from it to {desired.template}",
    )
