"""Where stored services may be upgraded to along the chains that are wanted for them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from windlass.domain.servicesets.chain_graphs import ChainGraphs
from windlass.domain.servicesets.chains import Route, UpgradeStep
from windlass.domain.servicesets.errors import ServiceSetError
from windlass.domain.servicesets.keys import ObjectKey, ServiceKey, service_key
from windlass.domain.servicesets.models import (
    AvailableUpgrade,
    Service,
    ServiceUpgradePaths,
    ServiceWithValues,
    UpgradePath,
)
from windlass.domain.servicesets.snapshot import Chains
from windlass.domain.servicesets.versions import version_or_template

type Routes = tuple[UpgradePath, ...]


@dataclass(frozen=True, kw_only=True)
class PathsAndErrors:
    """The paths of the services that have some, and what is wrong with the others."""

    paths: tuple[ServiceUpgradePaths, ...]
    errors: tuple[ServiceSetError, ...]


def services_with_desired_chains(
    desired_services: Iterable[Service], deployed_services: Iterable[ServiceWithValues]
) -> tuple[Service, ...]:
    """Return each stored service with the chain wanted for it, in stored order (kcm.md section 2).

    Name, effective namespace and the *stored* template, and the chain of the desired service of that name; no chain if
    nobody wants the service any more. Versions are left out.
    """
    wanted = {service_key(service.namespace, service.name): service.template_chain for service in desired_services}
    return tuple(
        Service(name=key.name, namespace=key.namespace, template=stored.template, template_chain=wanted.get(key, ""))
        for stored in deployed_services
        for key in (service_key(stored.namespace, stored.name),)
    )


def services_upgrade_paths(services: Iterable[Service], namespace: str, chains: Chains) -> PathsAndErrors:
    """Return where each service may be upgraded to from its template (kcm.md section 2).

    A service without a chain has one route, which is its own template: nothing restricts it. Whether a chain was found
    valid is not looked at here; validation does that.

    Args:
        services: with the templates they have; see `services_with_desired_chains`.
        namespace: where the chains lie.
        chains: the ServiceTemplateChains; stands in for the contract's reads.

    Returns:
        One entry per service, but for those whose chain is missing or does not list their template: these are errors.
    """
    paths: list[ServiceUpgradePaths] = []
    errors: list[ServiceSetError] = []
    walked = _Walked(namespace, chains)
    for service in services:
        try:
            routes = walked.routes(service)
        except ServiceSetError as error:
            errors.append(error)
            continue
        key = _key(service)
        paths.append(
            ServiceUpgradePaths(
                name=key.name, namespace=key.namespace, template=service.template, available_upgrades=routes
            )
        )
    return PathsAndErrors(paths=tuple(paths), errors=tuple(errors))


class _Walked:
    """What was worked out before: many services stand at one template of one chain."""

    def __init__(self, namespace: str, chains: Chains) -> None:
        self._namespace = namespace
        self._graphs = ChainGraphs(chains)
        self._known: dict[tuple[str, str], Routes] = {}
        self._steps: dict[UpgradeStep, AvailableUpgrade] = {}

    def routes(self, service: Service) -> Routes:
        if not service.template_chain:
            return (self._path((UpgradeStep(service.template, version_or_template(service)),)),)
        start = (service.template_chain, service.template)
        if start not in self._known:
            chain = ObjectKey(self._namespace, service.template_chain)
            graph = self._graphs.at(chain, service.template, _key(service))
            self._known[start] = tuple(map(self._path, graph.routes(service.template)))
        return self._known[start]

    def _path(self, route: Route) -> UpgradePath:
        """Return a route as the API has it; steps that many routes share are one object."""
        for step in route:
            if step not in self._steps:
                self._steps[step] = AvailableUpgrade(name=step.name, version=step.version)
        return UpgradePath(versions=tuple(self._steps[step] for step in route))


def _key(service: Service) -> ServiceKey:
    return service_key(service.namespace, service.name)
