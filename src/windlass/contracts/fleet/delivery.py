"""``ServiceSet`` and ``StateManagementProvider``: what is delivered to one cluster, and by whom."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from windlass.contracts.base import KubeModel
from windlass.contracts.fleet.parts import (
    ATOMIC,
    Conditions,
    LabelSelector,
    ObjectReference,
    OptionalName,
    ServiceState,
    Text,
)
from windlass.contracts.fleet.services import SERVICES, ProviderConfig, ServiceWithValues
from windlass.contracts.objects import KubeObject


class ServiceSetSpec(KubeModel):
    """What one provider delivers to one cluster. Written by Windlass."""

    cluster: OptionalName = Field(
        default="", description="ClusterDeployment in the same namespace; empty: the management cluster."
    )
    multi_cluster_service: OptionalName | None = Field(
        default=None, description="MultiClusterService they come from; absent: the cluster's own services."
    )
    provider: ProviderConfig | None = Field(default=None, description="Who delivers.")
    services: list[ServiceWithValues] | None = Field(
        default=None,
        max_length=SERVICES,
        description="The services at the version that each is to have now.",
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name", "namespace"]},
    )


class ProviderState(KubeModel):
    """What the provider says of itself."""

    ready: bool | None = None
    suspended: bool | None = None


class ServiceSetStatus(KubeModel):
    """What the provider reports."""

    cluster: ObjectReference | None = None
    deployed: bool | None = Field(default=None, description="Whether every service is deployed.")
    provider: ProviderState | None = None
    services: list[ServiceState] | None = Field(default=None, max_length=SERVICES, json_schema_extra=ATOMIC)
    conditions: Conditions | None = None
    observed_generation: int | None = Field(default=None, ge=0)


class ServiceSet(KubeObject):
    """The services of one owner on one cluster. Change the owner, not this object."""

    kind: Literal["ServiceSet"] = "ServiceSet"
    spec: ServiceSetSpec
    status: ServiceSetStatus | None = None


class ComponentReference(KubeModel):
    """A workload that the provider needs."""

    api_version: Text
    kind: Text
    name: Text
    namespace: Text | None = None
    readiness_rule: Annotated[str, StringConstraints(max_length=4096)] | None = Field(
        default=None, description="CEL expression over self: whether it is ready."
    )


class ProvisionerDefinition(KubeModel):
    """Kinds that the provider needs."""

    group: Text
    version: Text
    resources: list[Text] = Field(max_length=100, json_schema_extra=ATOMIC)


class StateManagementProviderSpec(KubeModel):
    """Which ServiceSets a provider serves, and what it consists of."""

    selector: LabelSelector | None = Field(default=None, description="Labels of its ServiceSets.")
    adapter: ComponentReference | None = Field(default=None, description="Who turns ServiceSets into its objects.")
    provisioner: list[ComponentReference] | None = Field(
        default=None, max_length=32, description="Who delivers its objects.", json_schema_extra=ATOMIC
    )
    provisioner_crds: list[ProvisionerDefinition] | None = Field(
        default=None,
        alias="provisionerCRDs",
        max_length=32,
        description="Kinds of its objects.",
        json_schema_extra=ATOMIC,
    )
    suspend: bool = Field(default=False, description="Deliver nothing for now.")


class StateManagementProviderStatus(KubeModel):
    """Whether the provider can serve."""

    ready: bool | None = None
    conditions: Conditions | None = None
    observed_generation: int | None = Field(default=None, ge=0)


class StateManagementProvider(KubeObject):
    """Who delivers ServiceSets."""

    kind: Literal["StateManagementProvider"] = "StateManagementProvider"
    spec: StateManagementProviderSpec
    status: StateManagementProviderStatus | None = None
