"""Words for situations of service sets: what is wanted, stored, reported, and a chain in a line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from windlass.servicesets import (
    ClusterDeployment,
    MultiClusterService,
    ObjectKey,
    OperationRequisites,
    Service,
    ServiceSet,
    ServiceState,
    ServiceTemplate,
    ServiceTemplateChain,
    ServiceUpgradePaths,
    ServiceWithValues,
    Snapshot,
    StateManagementProvider,
)

NAMESPACE: Final = "prod"
SYSTEM: Final = "windlass-system"
CLUSTER: Final = ClusterDeployment.from_object(
    {"kind": "ClusterDeployment", "metadata": {"namespace": NAMESPACE, "name": "edge", "uid": "u1"}}
)
PROVIDER: Final = StateManagementProvider.from_object(
    {"metadata": {"name": "ksm-projectsveltos"}, "spec": {"selector": {"matchLabels": {"adapter": "sveltos"}}}}
)


def template_of(version: str) -> str:
    """``1.2.0`` is the version of template ``t-1-2-0``."""
    return "t-" + version.replace(".", "-")


def wanted(name: str, version: str, *depends_on: str, chain: str = "", **fields: Any) -> Service:
    """``wanted("b", "1.0.0", "a")``: service b at 1.0.0, which depends on a."""
    return Service.from_object(
        {
            "name": name,
            "template": template_of(version),
            "templateChain": chain,
            "version": version,
            "dependsOn": [{"name": other} for other in depends_on],
            **fields,
        }
    )


def stored(name: str, version: str, **fields: Any) -> ServiceWithValues:
    return ServiceWithValues.from_object(
        {"name": name, "namespace": "default", "template": template_of(version), "version": version, **fields}
    )


def reported(name: str, state: str, version: str = "", **fields: Any) -> ServiceState:
    return ServiceState.from_object(
        {"name": name, "namespace": "default", "state": state, "version": version, **fields}
    )


def service_set(
    services: Sequence[ServiceWithValues] = (), states: Sequence[ServiceState] = (), **spec: Any
) -> ServiceSet:
    return ServiceSet.from_object(
        {
            "apiVersion": "windlass.dev/v1alpha1",
            "kind": "ServiceSet",
            "metadata": {"namespace": NAMESPACE, "name": "edge", "resourceVersion": "7"},
            "spec": {"cluster": "edge", "services": [one.to_object() for one in services], **spec},
            "status": {"services": [one.to_object() for one in states]},
        }
    )


def cluster(*services: Service, **service_spec: Any) -> ClusterDeployment:
    document = CLUSTER.to_object()
    document["spec"] = {"serviceSpec": {"services": [one.to_object() for one in services], **service_spec}}
    return ClusterDeployment.from_object(document)


def mcs(name: str, *services: Service, **spec: Any) -> MultiClusterService:
    document = {
        "kind": "MultiClusterService",
        "metadata": {"name": name, "uid": "u2"},
        "spec": {"serviceSpec": {"services": [one.to_object() for one in services]}, **spec},
    }
    return MultiClusterService.from_object(document)


def template(chart: str, /, name: str = "", **spec: Any) -> ServiceTemplate:
    return ServiceTemplate.from_object(
        {
            "metadata": {"namespace": NAMESPACE, "name": name or template_of(chart)},
            "spec": {"helm": {"chartSpec": {"chart": "x", "version": chart}}, **spec},
        }
    )


def chain(name: str, edges: Mapping[str, Sequence[str]]) -> ServiceTemplateChain:
    """``chain("c", {"1": ["2"], "2": []})``: an edge from t-1 to t-2, whose version is 2."""
    return ServiceTemplateChain.from_object(
        {
            "metadata": {"namespace": NAMESPACE, "name": name},
            "spec": {
                "supportedTemplates": [
                    {
                        "name": template_of(start),
                        "availableUpgrades": [{"name": template_of(end), "version": end} for end in ends],
                    }
                    for start, ends in edges.items()
                ]
            },
        }
    )


def paths(name: str, at: str, *routes: Sequence[str]) -> ServiceUpgradePaths:
    """``paths("a", "1", ["2", "3"])``: from 1 over 2 to 3."""
    return ServiceUpgradePaths.from_object(
        {
            "name": name,
            "namespace": "default",
            "template": template_of(at),
            "availableUpgrades": [
                {"versions": [{"name": template_of(version), "version": version} for version in route]}
                for route in routes
            ],
        }
    )


def snapshot(*objects: Any, versions: Sequence[str] = ()) -> Snapshot:
    """The objects, the provider, and a template for each of ``versions``."""
    return Snapshot.of([PROVIDER, *(template(version) for version in versions), *objects])


def own(cluster_deployment: ClusterDeployment) -> OperationRequisites:
    """The requisites of a cluster's own services."""
    return OperationRequisites(
        object_key=ObjectKey(NAMESPACE, "edge"), cluster_deployment=cluster_deployment, system_namespace=SYSTEM
    )


def brief(services: Sequence[ServiceWithValues | Service]) -> list[str]:
    """``["a 1.0.0"]``."""
    return [f"{one.name} {one.version}".strip() for one in services]
