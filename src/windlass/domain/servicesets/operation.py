"""The decision: what one ServiceSet should say now, and what has to be done for it (kcm.md section 2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from windlass.domain.servicesets.builder import Builder
from windlass.domain.servicesets.holds import Hold
from windlass.domain.servicesets.keys import ObjectKey, ServiceKey, service_key
from windlass.domain.servicesets.models import (
    ClusterDeployment,
    MultiClusterService,
    ServiceSet,
    ServiceSetSpec,
    ServiceSpec,
    ServiceWithValues,
)
from windlass.domain.servicesets.provider import provider_of, state_management_provider_config_from_service_spec
from windlass.domain.servicesets.resolve import build_services_list, resolve_services_to_apply, with_resolved_versions
from windlass.domain.servicesets.snapshot import Snapshot, key_of


class ServiceSetOperation(StrEnum):
    """What has to be done with a ServiceSet. There is no delete: owners and selectors see to that."""

    CREATE = "create"
    UPDATE = "update"
    NONE = "none"


@dataclass(frozen=True, kw_only=True)
class OperationRequisites:
    """Which ServiceSet, and whose services it holds.

    Attributes:
        object_key: where it lies; see `windlass.domain.servicesets.keys.object_key`.
        multi_cluster_service: whose services they are; None for a cluster's own.
        cluster_deployment: where they go; None for the management cluster.
        system_namespace: where the ServiceSets of the management cluster lie.
    """

    object_key: ObjectKey
    multi_cluster_service: MultiClusterService | None = None
    cluster_deployment: ClusterDeployment | None = None
    system_namespace: str

    @property
    def service_spec(self) -> ServiceSpec:
        """The services that are wanted: the MultiClusterService's, else the cluster's own.

        Raises:
            ValueError: there is neither.
        """
        owner = self.multi_cluster_service or self.cluster_deployment
        if owner is None:
            raise ValueError("a ServiceSet belongs to a cluster, to a MultiClusterService, or to both")
        return owner.spec.service_spec


@dataclass(frozen=True, kw_only=True)
class ServiceSetDecision:
    """What a ServiceSet should say, what has to be done for it, and which services are held back and why."""

    service_set: ServiceSet
    operation: ServiceSetOperation
    holds: tuple[Hold, ...]


def get_service_set_with_operation(snapshot: Snapshot, requisites: OperationRequisites) -> ServiceSetDecision:
    """Decide on the next spec of one ServiceSet.

    Services whose dependencies are not deployed as wanted stay as they are stored; of the others each makes at most one
    hop on its chain, and none while its last one is under way. Services that nobody wants any more are dropped; an
    empty list empties the ServiceSet. The same objects give the same decision, and a decision that was carried out is
    followed by `ServiceSetOperation.NONE` until something else changes.

    The order of services is of no account when specs are compared: they are a map by name and namespace. Labels and
    owners alone are no reason to write.

    Args:
        snapshot: ServiceSets, templates, chains and providers; stands in for the contract's reads. Templates and chains
            are those of the ServiceSet's namespace.
        requisites: which ServiceSet, and whose services.

    Raises:
        ProviderNotFoundError: of the spec's provider.
        SelectorMissingError: the provider has none.
        SelectorInvalidError: the provider's selector could never pick the ServiceSet.
        PriorityOutOfRangeError: a deprecated field is out of range.
        TemplateNotFoundError: of a desired or stored service.
        DependencyNotDesiredError: a service depends on one that was removed, or never was in the list.
        SeveralServiceSetsError: it is not clear which ServiceSet tells the state.
        UpgradePathsError: chains that are missing or do not list a stored template.
        ValueError: there is neither a cluster nor a MultiClusterService.
    """
    key = requisites.object_key
    wanted = requisites.service_spec
    provider = provider_of(snapshot, state_management_provider_config_from_service_spec(wanted).name, key)
    found = next((item for item in snapshot.service_sets if key_of(item) == key), None)
    stored = found or ServiceSet.new(*key)
    resolution = resolve_services_to_apply(
        snapshot,
        requisites.system_namespace,
        requisites.multi_cluster_service,
        requisites.cluster_deployment,
        wanted.services,
        stored,
    )
    current = with_resolved_versions(snapshot, stored)
    services = build_services_list(current.spec.services, resolution.services, wanted.services)
    built = (
        Builder(requisites.cluster_deployment, stored, provider.spec.selector)
        .with_multi_cluster_service(requisites.multi_cluster_service)
        .with_services_to_deploy(services)
        .build()
    )
    if found is None:
        return ServiceSetDecision(service_set=built, operation=ServiceSetOperation.CREATE, holds=resolution.holds)
    if _same(built.spec, current.spec):
        return ServiceSetDecision(service_set=found, operation=ServiceSetOperation.NONE, holds=resolution.holds)
    return ServiceSetDecision(service_set=built, operation=ServiceSetOperation.UPDATE, holds=resolution.holds)


def _same(one: ServiceSetSpec, other: ServiceSetSpec) -> bool:
    """Compare specs; a service that is stored twice is a difference, so that the next write repairs it."""
    return (
        one.changed(services=()) == other.changed(services=())
        and len(one.services) == len(other.services)
        and _by_key(one.services) == _by_key(other.services)
    )


def _by_key(services: Sequence[ServiceWithValues]) -> dict[ServiceKey, ServiceWithValues]:
    keyed = {service_key(service.namespace, service.name): service for service in services}
    return {key: service.changed(namespace=key.namespace) for key, service in keyed.items()}
