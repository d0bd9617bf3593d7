"""Services: as people want them, and as a ServiceSet stores them for its provider."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from windlass.contracts.base import KubeModel
from windlass.contracts.fleet.parts import (
    ATOMIC,
    FREE,
    FreeObject,
    Name,
    Namespace,
    OptionalName,
    Span,
    Text,
    ValuesFrom,
)
from windlass.contracts.schema_rules import rule
from windlass.domain.servicesets.models import DEFAULT_NAMESPACE, PRIORITY_MAX, PRIORITY_MIN

SERVICES = 500
"""Services of one owner, and of one ServiceSet."""

type Values = Annotated[str, StringConstraints(max_length=131_072)]
"""YAML text."""

type HelmAction = Literal["Install", "Uninstall"]
type References = Annotated[list[FreeObject], Field(max_length=100, json_schema_extra=ATOMIC)]


class HelmOptions(KubeModel):
    """Options of Helm's install, upgrade and uninstall."""

    atomic: bool | None = None
    create_namespace: bool | None = None
    dependency_update: bool | None = None
    description: Text | None = None
    disable_hooks: bool | None = None
    disable_open_api_validation: bool | None = Field(default=None, alias="disableOpenAPIValidation")
    enable_client_cache: bool | None = None
    labels: dict[str, Text] | None = Field(default=None, max_length=64)
    replace: bool | None = None
    skip_crds: bool | None = Field(default=None, alias="skipCRDs")
    skip_schema_validation: bool | None = None
    timeout: Span | None = None
    wait: bool | None = None
    wait_for_jobs: bool | None = None


class ServiceDependency(KubeModel):
    """Another service of the same list."""

    name: Name = Field(description="Name of the service.")
    namespace: Namespace | None = Field(default=None, description=f"Its namespace; {DEFAULT_NAMESPACE} if absent.")


class Service(KubeModel):
    """A service that a cluster should have."""

    name: Name = Field(description="Name of the service; of a Helm chart, the name of the release.")
    namespace: Namespace = Field(default=DEFAULT_NAMESPACE, description="Namespace on the cluster.")
    template: Name = Field(description="ServiceTemplate, in the namespace of the ServiceSet.")
    template_chain: OptionalName | None = Field(
        default=None, description="ServiceTemplateChain that upgrades walk; absent: straight to the template."
    )
    version: Text | None = Field(default=None, description="Version; absent: that of the template.")
    values: Values | None = Field(default=None, description="Values as YAML text.")
    values_from: list[ValuesFrom] | None = Field(
        default=None, max_length=32, description="Further sources of values.", json_schema_extra=ATOMIC
    )
    helm_options: HelmOptions | None = Field(default=None, description="Options of Helm.")
    helm_action: HelmAction | None = Field(default=None, description="Install or Uninstall.")
    depends_on: list[ServiceDependency] | None = Field(
        default=None,
        max_length=100,
        description="Services that must be deployed as wanted before this one moves.",
        json_schema_extra=ATOMIC,
    )
    disable: bool = Field(default=False, description="Do not install or move it; what is there stays.")


class ServiceWithValues(KubeModel):
    """A service as a ServiceSet stores it."""

    name: Name
    namespace: Namespace = Field(default=DEFAULT_NAMESPACE)
    template: Name
    version: Text | None = None
    values: Values | None = None
    values_from: list[ValuesFrom] | None = Field(default=None, max_length=32, json_schema_extra=ATOMIC)
    helm_options: HelmOptions | None = None
    helm_action: HelmAction | None = None


class ProviderConfig(KubeModel):
    """Which StateManagementProvider delivers, and its configuration."""

    name: OptionalName | None = Field(
        default=None,
        description="Name of a StateManagementProvider. It cannot change once it is set.",
        json_schema_extra=rule("oldSelf == '' || self == oldSelf", "the provider cannot change once it is set"),
    )
    config: Any = Field(default=None, description="Configuration that the provider reads.", json_schema_extra=FREE)
    self_management: bool = Field(
        default=False, description="Deliver to the management cluster, too; for MultiClusterServices."
    )


class ServiceSpec(KubeModel):
    """The services of a cluster or of a MultiClusterService, and who delivers them."""

    services: list[Service] | None = Field(
        default=None,
        max_length=SERVICES,
        description="The services; name and namespace identify one.",
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name", "namespace"]},
    )
    provider: ProviderConfig | None = Field(default=None, description="Who delivers them.")
    sync_mode: Literal["OneTime", "Continuous", "ContinuousWithDriftDetection", "DryRun"] | None = Field(
        default=None, description="Deprecated: provider.config.syncMode."
    )
    template_resource_refs: References | None = Field(
        default=None, description="Deprecated: provider.config.templateResourceRefs."
    )
    policy_refs: References | None = Field(default=None, description="Deprecated: provider.config.policyRefs.")
    drift_ignore: References | None = Field(default=None, description="Deprecated: provider.config.driftIgnore.")
    drift_exclusions: References | None = Field(
        default=None, description="Deprecated: provider.config.driftExclusions."
    )
    priority: int | None = Field(
        default=None, ge=PRIORITY_MIN, le=PRIORITY_MAX, description="Deprecated: provider.config.priority."
    )
    stop_on_conflict: bool | None = Field(default=None, description="Deprecated: provider.config.stopOnConflict.")
    reload: bool | None = Field(default=None, description="Deprecated: provider.config.reloader.")
    continue_on_error: bool | None = Field(default=None, description="Deprecated: provider.config.continueOnError.")
