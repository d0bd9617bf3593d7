"""The objects of service sets with the API's own field names (reference kcm.md section 1).

A manifest of K0rdent moves over by changing its ``apiVersion``. Models read what manifests hold and judge little:
what must hold beyond types is `windlass.domain.servicesets.validation`'s affair.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, ClassVar, Final, Self

from pydantic import Field, StrictBool

from windlass.domain.ids import API_VERSION
from windlass.domain.servicesets.manifest import Int64, Manifest

DEFAULT_NAMESPACE: Final = "default"
"""Where a service goes that names no namespace."""

DEFAULT_PROVIDER: Final = "ksm-projectsveltos"
"""The StateManagementProvider of a spec that names none."""

PRIORITY_MIN: Final = 1
PRIORITY_MAX: Final = 2_147_483_646
"""Bounds of ``priority``; see `windlass.domain.servicesets.provider.priority_to_tier`."""

DEFAULT_PRIORITY: Final = 100
"""Of a spec that names none (kcm.md section 1)."""


class HelmAction(StrEnum):
    """What a provider does with a Helm service."""

    INSTALL = "Install"
    UNINSTALL = "Uninstall"


class State(StrEnum):
    """States a provider reports of a service. One that is not listed is not `DEPLOYED`."""

    DEPLOYED = "Deployed"
    PROVISIONING = "Provisioning"
    FAILED = "Failed"
    PENDING = "Pending"
    DELETING = "Deleting"
    DELETED = "Deleted"


# -- what every object has ---------------------------------------------------------------------------------------------


class OwnerReference(Manifest):
    """Who owns an object: it is collected when its owners are gone."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: StrictBool = False
    block_owner_deletion: StrictBool = False


class Metadata(Manifest):
    """The metadata that service sets read and write. Timestamps stay text."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    generation: Int64 = 0
    resource_version: str = ""
    creation_timestamp: str = ""
    deletion_timestamp: str = ""
    labels: Mapping[str, str] = Field(default_factory=dict[str, str])
    annotations: Mapping[str, str] = Field(default_factory=dict[str, str])
    finalizers: tuple[str, ...] = ()
    owner_references: tuple[OwnerReference, ...] = ()


class Condition(Manifest):
    """One condition of an object or a service."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str = ""
    observed_generation: Int64 = 0


class ServiceObject(Manifest):
    """A whole object. `new` makes one that names its kind; a loaded one keeps what its manifest says."""

    KIND: ClassVar[str] = ""

    api_version: str = API_VERSION
    kind: str = ""
    metadata: Metadata = Field(default_factory=Metadata)

    @classmethod
    def new(cls, namespace: str, name: str) -> Self:
        """Return an empty object under this name; cluster-scoped if ``namespace`` is empty."""
        metadata = Metadata(namespace=namespace, name=name) if namespace else Metadata(name=name)
        return cls(api_version=API_VERSION, kind=cls.KIND, metadata=metadata)

    @property
    def title(self) -> str:
        """How texts call it: ``ServiceSet prod/edge``, without a namespace ``MultiClusterService mesh``."""
        place = f"{self.metadata.namespace}/" if self.metadata.namespace else ""
        return f"{self.KIND} {place}{self.metadata.name}"


class LabelSelectorRequirement(Manifest):
    """One expression of a label selector."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class LabelSelector(Manifest):
    """A label selector of Kubernetes."""

    match_labels: Mapping[str, str] = Field(default_factory=dict[str, str])
    match_expressions: tuple[LabelSelectorRequirement, ...] = ()


class ObjectReference(Manifest):
    """Names another object."""

    api_version: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""


# -- templates and chains ----------------------------------------------------------------------------------------------


class ChartSpec(Manifest):
    """Which chart, from where; its version stands in for the template's."""

    chart: str = ""
    version: str = ""


class HelmSource(Manifest):
    """A template made of a Helm chart: one of ``chartSpec``, ``chartRef``, ``chartSource``."""

    chart_spec: ChartSpec | None = None
    chart_ref: Mapping[str, Any] | None = None
    chart_source: Mapping[str, Any] | None = None


class ServiceTemplateSpec(Manifest):
    """What a template deploys: exactly one of ``helm``, ``kustomize``, ``resources``. It cannot change."""

    helm: HelmSource | None = None
    kustomize: Mapping[str, Any] | None = None
    resources: Mapping[str, Any] | None = None
    helm_options: Mapping[str, Any] | None = None
    version: str = ""
    k8s_constraint: str = Field(default="", alias="k8sConstraint")


class ValidityStatus(Manifest):
    """Whether a template or a chain was found valid; ``valid`` is None before anybody looked."""

    valid: StrictBool | None = None
    validation_error: str = ""
    observed_generation: Int64 = 0


class ServiceTemplate(ServiceObject):
    """One version of one service."""

    KIND = "ServiceTemplate"

    spec: ServiceTemplateSpec = Field(default_factory=ServiceTemplateSpec)
    status: ValidityStatus = Field(default_factory=ValidityStatus)


class AvailableUpgrade(Manifest):
    """An edge of a chain: the template it leads to, and that template's version if the chain says it."""

    name: str = ""
    version: str = ""


class SupportedTemplate(Manifest):
    """A template of a chain and where it may be upgraded to."""

    name: str = ""
    available_upgrades: tuple[AvailableUpgrade, ...] = ()


class ServiceTemplateChainSpec(Manifest):
    """A directed graph of templates. Edges are explicit; version numbers imply none."""

    supported_templates: tuple[SupportedTemplate, ...] = ()


class ServiceTemplateChain(ServiceObject):
    """Which template may be upgraded to which."""

    KIND = "ServiceTemplateChain"

    spec: ServiceTemplateChainSpec = Field(default_factory=ServiceTemplateChainSpec)
    status: ValidityStatus = Field(default_factory=ValidityStatus)


# -- services ----------------------------------------------------------------------------------------------------------


class ValuesFrom(Manifest):
    """A ConfigMap or Secret that holds values."""

    kind: str = ""
    name: str = ""


class ServiceDependsOn(Manifest):
    """Another service of the same list."""

    name: str = ""
    namespace: str = ""


class Service(Manifest):
    """A service somebody wants. ``values`` is YAML text and may hold templating."""

    name: str = ""
    namespace: str = ""
    template: str = ""
    template_chain: str = ""
    version: str = ""
    values: str = ""
    values_from: tuple[ValuesFrom, ...] = ()
    helm_options: Mapping[str, Any] | None = None
    helm_action: HelmAction | None = None
    depends_on: tuple[ServiceDependsOn, ...] = ()
    disable: StrictBool = False


class ServiceWithValues(Manifest):
    """A service as a ServiceSet stores it for its provider."""

    name: str = ""
    namespace: str = ""
    template: str = ""
    version: str = ""
    values: str = ""
    values_from: tuple[ValuesFrom, ...] = ()
    helm_options: Mapping[str, Any] | None = None
    helm_action: HelmAction | None = None


class StateManagementProviderConfig(Manifest):
    """Which provider delivers, and its configuration, which only that provider understands."""

    name: str = ""
    config: Any = None
    self_management: StrictBool = False


class ServiceSpec(Manifest):
    """The services of a cluster or of a MultiClusterService.

    What follows ``provider`` is deprecated: it moves into ``provider.config``.
    """

    services: tuple[Service, ...] = ()
    provider: StateManagementProviderConfig = Field(default_factory=StateManagementProviderConfig)
    sync_mode: str = ""
    template_resource_refs: tuple[Mapping[str, Any], ...] = ()
    policy_refs: tuple[Mapping[str, Any], ...] = ()
    drift_ignore: tuple[Mapping[str, Any], ...] = ()
    drift_exclusions: tuple[Mapping[str, Any], ...] = ()
    priority: Int64 | None = None
    stop_on_conflict: StrictBool = False
    reload: StrictBool = False
    continue_on_error: StrictBool = False


class ServiceState(Manifest):
    """What a provider reports of one service; ``version`` is the one that is known to be deployed."""

    type: str = ""
    name: str = ""
    namespace: str = ""
    template: str = ""
    version: str = ""
    state: str = ""
    failure_message: str = ""
    last_state_transition_time: str = ""
    last_deployed_hash: str = ""
    conditions: tuple[Condition, ...] = ()


class UpgradePath(Manifest):
    """One route: the templates on the way, in walking order, without the start.

    ``upgradePaths`` is the old form: versions alone.
    """

    versions: tuple[AvailableUpgrade, ...] = ()
    upgrade_paths: tuple[str, ...] = ()


class ServiceUpgradePaths(Manifest):
    """Where a service may be upgraded to from the template it has."""

    name: str = ""
    namespace: str = ""
    template: str = ""
    available_upgrades: tuple[UpgradePath, ...] = ()


# -- what wants services -----------------------------------------------------------------------------------------------


class SecretKey(Manifest):
    """A key of a Secret."""

    name: str = ""
    key: str = ""


class ClusterDeploymentSpec(Manifest):
    """An adopted cluster and its services.

    ``rollout`` says when its own services may move; see `windlass.domain.servicesets.rollout.documents`.
    """

    kubeconfig_secret: SecretKey | None = None
    service_account_name: str = ""
    rollout: Mapping[str, Any] | None = None
    template: str = ""
    credential: str = ""
    config: Any = None
    dry_run: StrictBool = False
    service_spec: ServiceSpec = Field(default_factory=ServiceSpec)


class ClusterDeploymentStatus(Manifest):
    """What is known of a cluster's services, over all its ServiceSets."""

    services: tuple[ServiceState, ...] = ()
    services_upgrade_paths: tuple[ServiceUpgradePaths, ...] = ()
    conditions: tuple[Condition, ...] = ()
    observed_generation: Int64 = 0


class ClusterDeployment(ServiceObject):
    """A cluster."""

    KIND = "ClusterDeployment"

    spec: ClusterDeploymentSpec = Field(default_factory=ClusterDeploymentSpec)
    status: ClusterDeploymentStatus = Field(default_factory=ClusterDeploymentStatus)


class MultiClusterServiceSpec(Manifest):
    """Services for every cluster that the selector picks; an empty selector picks none.

    ``rollout`` says how a change goes over them; see `windlass.domain.servicesets.rollout.documents`.
    """

    cluster_selector: LabelSelector = Field(default_factory=LabelSelector)
    depends_on: tuple[str, ...] = ()
    service_spec: ServiceSpec = Field(default_factory=ServiceSpec)
    keep_services_on_selector_mismatch: StrictBool = False
    rollout: Mapping[str, Any] | None = None


class MatchingCluster(ObjectReference):
    """A cluster that a MultiClusterService picks, and what holds it up there."""

    last_transition_time: str = ""
    regional: StrictBool = False
    deployed: StrictBool = False
    reason: str = ""
    message: str = ""


class MultiClusterServiceStatus(Manifest):
    """What is known of the services of a MultiClusterService."""

    services: tuple[ServiceState, ...] = ()
    services_upgrade_paths: tuple[ServiceUpgradePaths, ...] = ()
    matching_clusters: tuple[MatchingCluster, ...] = ()
    past_steps: tuple[Mapping[str, Any], ...] = ()
    conditions: tuple[Condition, ...] = ()
    observed_generation: Int64 = 0


class MultiClusterService(ServiceObject):
    """Services for many clusters; cluster-scoped."""

    KIND = "MultiClusterService"

    spec: MultiClusterServiceSpec = Field(default_factory=MultiClusterServiceSpec)
    status: MultiClusterServiceStatus = Field(default_factory=MultiClusterServiceStatus)


# -- what delivers them ------------------------------------------------------------------------------------------------


class ServiceSetSpec(Manifest):
    """What one provider delivers to one cluster; an empty ``cluster`` is the management cluster."""

    cluster: str = ""
    multi_cluster_service: str = ""
    provider: StateManagementProviderConfig = Field(default_factory=StateManagementProviderConfig)
    services: tuple[ServiceWithValues, ...] = ()


class ProviderState(Manifest):
    """What the provider says of itself."""

    ready: StrictBool = False
    suspended: StrictBool = False


class ServiceSetStatus(Manifest):
    """What the provider reports; ``deployed`` means that every service is."""

    cluster: ObjectReference = Field(default_factory=ObjectReference)
    conditions: tuple[Condition, ...] = ()
    deployed: StrictBool = False
    provider: ProviderState = Field(default_factory=ProviderState)
    services: tuple[ServiceState, ...] = ()


class ServiceSet(ServiceObject):
    """The services of one owner on one cluster."""

    KIND = "ServiceSet"

    spec: ServiceSetSpec = Field(default_factory=ServiceSetSpec)
    status: ServiceSetStatus = Field(default_factory=ServiceSetStatus)


class StateManagementProviderSpec(Manifest):
    """Which ServiceSets a provider serves, and what it consists of."""

    selector: LabelSelector | None = None
    adapter: Mapping[str, Any] | None = None
    provisioner: tuple[Mapping[str, Any], ...] = ()
    provisioner_crds: tuple[Mapping[str, Any], ...] = Field(default=(), alias="provisionerCRDs")
    suspend: StrictBool = False


class StateManagementProviderStatus(Manifest):
    """Whether a provider can serve."""

    ready: StrictBool = False
    conditions: tuple[Condition, ...] = ()


class StateManagementProvider(ServiceObject):
    """Who delivers ServiceSets; cluster-scoped."""

    KIND = "StateManagementProvider"

    spec: StateManagementProviderSpec = Field(default_factory=StateManagementProviderSpec)
    status: StateManagementProviderStatus = Field(default_factory=StateManagementProviderStatus)
