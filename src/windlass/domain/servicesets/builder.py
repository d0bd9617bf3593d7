"""ServiceSets from their parts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

from windlass.domain.servicesets.errors import SelectorMissingError
from windlass.domain.servicesets.models import (
    ClusterDeployment,
    LabelSelector,
    MultiClusterService,
    OwnerReference,
    ServiceObject,
    ServiceSet,
    ServiceWithValues,
)
from windlass.domain.servicesets.provider import matching_labels, state_management_provider_config_from_service_spec
from windlass.domain.servicesets.snapshot import key_of


@dataclass(frozen=True)
class Builder:
    """What a ServiceSet is made of (contract: Builder, NewBuilder).

    Attributes:
        cluster_deployment: where the services go; None for the management cluster.
        service_set: the one to change, or an empty one; it is not changed itself.
        selector: the provider's, which gives the labels.
        multi_cluster_service: whose services they are; None for a cluster's own.
        services: what it should say.
    """

    cluster_deployment: ClusterDeployment | None
    service_set: ServiceSet
    selector: LabelSelector | None
    multi_cluster_service: MultiClusterService | None = None
    services: tuple[ServiceWithValues, ...] = ()

    def with_multi_cluster_service(self, multi_cluster_service: MultiClusterService | None) -> Self:
        """Return a builder of a ServiceSet of this MultiClusterService."""
        return replace(self, multi_cluster_service=multi_cluster_service)

    def with_services_to_deploy(self, services_to_deploy: tuple[ServiceWithValues, ...]) -> Self:
        """Return a builder of a ServiceSet with these services."""
        return replace(self, services=services_to_deploy)

    def build(self) -> ServiceSet:
        """Return the ServiceSet (kcm.md section 2, Builder.Build).

        Its one owner is the cluster, or else the MultiClusterService; the labels its provider selects by are added to
        those it has. The spec says services, cluster, MultiClusterService and provider; that of a MultiClusterService
        decides over the cluster's. ``selfManagement`` means that there is no cluster. Fields that this version does not
        know stay, and so does the status.

        Raises:
            SelectorMissingError: there is no selector, so no provider would see the ServiceSet.
            SelectorInvalidError: it is not valid, or it cannot pick any ServiceSet with the labels that follow from it.
            PriorityOutOfRangeError: a deprecated field is out of range.
            ValueError: there is neither a cluster nor a MultiClusterService.
        """
        if self.selector is None:
            raise SelectorMissingError(key_of(self.service_set))
        owner = self.cluster_deployment or self.multi_cluster_service
        if owner is None:
            raise ValueError("a ServiceSet belongs to a cluster, to a MultiClusterService, or to both")
        wanted = (self.multi_cluster_service or self.cluster_deployment or owner).spec.service_spec
        provider = state_management_provider_config_from_service_spec(wanted)
        metadata = self.service_set.metadata
        spec = self.service_set.spec.changed(
            services=self.services,
            cluster=self.cluster_deployment.metadata.name if self.cluster_deployment else "",
            multi_cluster_service=self.multi_cluster_service.metadata.name if self.multi_cluster_service else "",
            provider=provider.changed(self_management=self.cluster_deployment is None),
        )
        labels = matching_labels(self.selector, metadata.labels, key_of(self.service_set), provider.name)
        return self.service_set.changed(
            metadata=metadata.changed(labels=labels, owner_references=(_owned_by(owner),)), spec=spec
        )


def _owned_by(owner: ServiceObject) -> OwnerReference:
    return OwnerReference(
        api_version=owner.api_version,
        kind=owner.kind or owner.KIND,
        name=owner.metadata.name,
        uid=owner.metadata.uid,
        controller=True,
        block_owner_deletion=True,
    )
