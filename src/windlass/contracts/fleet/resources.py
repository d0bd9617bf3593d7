"""How the kinds of a fleet are served; short names and columns are K0rdent's."""

from __future__ import annotations

from typing import Final

from windlass.contracts.fleet.delivery import ServiceSet, StateManagementProvider
from windlass.contracts.fleet.owners import ClusterDeployment, MultiClusterService
from windlass.contracts.fleet.templates import ServiceTemplate, ServiceTemplateChain
from windlass.contracts.served import AGE, Column, Resource


def _condition(name: str, kind: str, field: str = "status", priority: int = 0, description: str = "") -> Column:
    path = f'.status.conditions[?(@.type=="{kind}")].{field}'
    return Column(name=name, path=path, priority=priority, description=description)


_VALID: Final = (
    Column(name="Valid", type="boolean", path=".status.valid"),
    Column(name="ValidationError", path=".status.validationError", priority=1),
)

FLEET: Final = (
    Resource(
        model=ServiceTemplate,
        plural="servicetemplates",
        short_names=("svctmpl",),
        namespaced=True,
        columns=(
            *_VALID,
            Column(name="Description", path=".status.description", priority=1),
            AGE,
        ),
    ),
    Resource(
        model=ServiceTemplateChain,
        plural="servicetemplatechains",
        short_names=("svctmplchain",),
        namespaced=True,
        columns=(*_VALID, AGE),
    ),
    Resource(
        model=ClusterDeployment,
        plural="clusterdeployments",
        short_names=("clusterd", "cld"),
        namespaced=True,
        columns=(
            _condition("Ready", "Ready"),
            _condition("Services", "ServicesInReadyState", "message", description="Ready services of all."),
            Column(name="Template", path=".spec.template", priority=1),
            _condition("Messages", "Ready", "message"),
            AGE,
            Column(name="DryRun", type="boolean", path=".spec.dryRun", priority=1),
        ),
    ),
    Resource(
        model=MultiClusterService,
        plural="multiclusterservices",
        short_names=("mcs",),
        namespaced=False,
        columns=(
            _condition("Services", "ServicesInReadyState", "message", description="Ready services of all."),
            _condition("Clusters", "ClusterInReadyState", "message", description="Ready clusters of all."),
            Column(name="Provider", path=".spec.serviceSpec.provider.name", priority=1),
            Column(
                name="Self-Management", type="boolean", path=".spec.serviceSpec.provider.selfManagement", priority=1
            ),
            AGE,
        ),
    ),
    Resource(
        model=ServiceSet,
        plural="servicesets",
        short_names=("svcset",),
        namespaced=True,
        columns=(
            Column(name="Cluster", path=".spec.cluster"),
            Column(name="MultiClusterService", path=".spec.multiClusterService"),
            Column(name="Provider", path=".spec.provider.name"),
            Column(name="Deployed", type="boolean", path=".status.deployed"),
            Column(name="Self-Management", type="boolean", path=".spec.provider.selfManagement", priority=1),
            AGE,
        ),
    ),
    Resource(
        model=StateManagementProvider,
        plural="statemanagementproviders",
        short_names=("smp",),
        namespaced=False,
        columns=(
            _condition("RBAC", "RBACReady", priority=1),
            _condition("Adapter", "AdapterReady", priority=1),
            _condition("Provisioners", "ProvisionersReady", priority=1),
            _condition("Provisioner-CRDs", "ProvisionerCRDsReady", priority=1),
            Column(name="Ready", type="boolean", path=".status.ready"),
            Column(name="Suspended", type="boolean", path=".spec.suspend"),
            AGE,
        ),
    ),
)
