"""``ClusterDeployment`` and ``MultiClusterService``: which services which clusters should have."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AwareDatetime, Field, StringConstraints

from windlass.contracts.base import KubeModel
from windlass.contracts.fleet.parts import (
    ATOMIC,
    Conditions,
    FreeObject,
    LabelSelector,
    Name,
    ObjectReference,
    OptionalName,
    ServiceState,
    ServiceUpgradePaths,
    Text,
)
from windlass.contracts.fleet.rollout import ClusterRolloutSpec, PastStep, RolloutSpec
from windlass.contracts.fleet.services import SERVICES, ServiceSpec
from windlass.contracts.objects import KubeObject
from windlass.contracts.target import KubeconfigSecret

CLUSTERS = 1000
"""Clusters of one MultiClusterService (docs/servicesets.md)."""

STEPS_KEPT = 200
"""Durations of past steps that stay in status."""

type States = Annotated[list[ServiceState], Field(max_length=2 * SERVICES, json_schema_extra=ATOMIC)]
type Paths = Annotated[list[ServiceUpgradePaths], Field(max_length=SERVICES, json_schema_extra=ATOMIC)]


class ClusterDeploymentSpec(KubeModel):
    """An adopted cluster and its services. Windlass creates no clusters."""

    kubeconfig_secret: KubeconfigSecret | None = Field(
        default=None, description="How to reach the cluster; absent: it is the management cluster."
    )
    service_account_name: Name | None = Field(
        default=None,
        description="On the management cluster: service account of this namespace that acts for the services.",
    )
    service_spec: ServiceSpec | None = Field(default=None, description="The cluster's own services.")
    rollout: ClusterRolloutSpec | None = Field(default=None, description="When the cluster's own services may move.")
    dry_run: bool = Field(default=False, description="Decide and report, and change nothing.")
    template: OptionalName | None = Field(
        default=None, description="K0rdent's ClusterTemplate. Kept and not used: Windlass creates no clusters."
    )
    credential: OptionalName | None = Field(
        default=None, description="K0rdent's Credential. Kept and not used: see kubeconfigSecret."
    )
    config: FreeObject | None = Field(default=None, description="Parameters of the ClusterTemplate. Kept and not used.")


class ClusterDeploymentStatus(KubeModel):
    """What is known of a cluster and of its services, over all its ServiceSets."""

    services: States | None = None
    services_upgrade_paths: Paths | None = None
    k8s_version: Text | None = Field(default=None, alias="k8sVersion", description="Version of Kubernetes.")
    available_upgrades: list[Text] | None = Field(default=None, max_length=100, json_schema_extra=ATOMIC)
    conditions: Conditions | None = None
    observed_generation: int | None = Field(default=None, ge=0)


class ClusterDeployment(KubeObject):
    """A cluster and the services it should have."""

    kind: Literal["ClusterDeployment"] = "ClusterDeployment"
    spec: ClusterDeploymentSpec
    status: ClusterDeploymentStatus | None = None


class MultiClusterServiceSpec(KubeModel):
    """Services for every cluster that a selector picks."""

    cluster_selector: LabelSelector | None = Field(
        default=None, description="Labels of the ClusterDeployments; an empty selector picks none."
    )
    depends_on: list[Name] | None = Field(
        default=None,
        max_length=100,
        description="MultiClusterServices whose services must be deployed on a cluster first.",
        json_schema_extra=ATOMIC,
    )
    service_spec: ServiceSpec | None = Field(default=None, description="The services.")
    keep_services_on_selector_mismatch: bool = Field(
        default=False, description="Leave the services on clusters that are not selected any more."
    )
    rollout: RolloutSpec | None = Field(default=None, description="How a change goes over the clusters.")


class Permit(KubeModel):
    """That a cluster may take a generation of the object."""

    generation: int = Field(ge=0)
    since: AwareDatetime
    by: Text = Field(description="The rollout, or who approved it.")


class MatchingCluster(ObjectReference):
    """A cluster that is selected, and what holds it up."""

    last_transition_time: AwareDatetime | None = None
    regional: bool | None = None
    deployed: bool | None = None
    reason: Text | None = None
    message: Annotated[str, StringConstraints(max_length=1024)] | None = None
    permit: Permit | None = None


class MultiClusterServiceStatus(KubeModel):
    """What is known of the services and of the clusters."""

    services: States | None = None
    services_upgrade_paths: Paths | None = None
    matching_clusters: list[MatchingCluster] | None = Field(default=None, max_length=CLUSTERS, json_schema_extra=ATOMIC)
    past_steps: list[PastStep] | None = Field(
        default=None,
        max_length=STEPS_KEPT,
        description="How long the newest steps took, oldest first; plans predict from them.",
        json_schema_extra=ATOMIC,
    )
    conditions: Conditions | None = None
    observed_generation: int | None = Field(default=None, ge=0)


class MultiClusterService(KubeObject):
    """Services for many clusters, and how a change goes over them."""

    kind: Literal["MultiClusterService"] = "MultiClusterService"
    spec: MultiClusterServiceSpec
    status: MultiClusterServiceStatus | None = None
