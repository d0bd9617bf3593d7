"""The two versions of what a tenant consists of. A new one is added beside the old; old tenants stay as they are."""

from __future__ import annotations

from typing import Any

import structlog
from resources import Desired, ObjectOps, Status, bundle, namespace_of

from windlass.framework import CRUDResource, Resource, ResourceSet, wrap_with_metrics, wrap_with_retry
from windlass.ports.kube import Kube, Object

LOGGER = structlog.stdlib.get_logger("tenant-namespaces")
RBAC = "rbac.authorization.k8s.io"


def resource_sets(kube: Kube) -> list[ResourceSet]:
    """Return one set for each bundle."""
    return [
        _set(kube, "1", namespace=namespace, policies=own_traffic, bindings=admins),
        _set(kube, "2", namespace=restricted_namespace, policies=own_traffic_and_dns, bindings=admins_and_viewers),
    ]


def _set(kube: Kube, version: str, *, namespace: Desired, policies: Desired, bindings: Desired) -> ResourceSet:
    ops = [
        ObjectOps(kube, "namespace", "v1", "Namespace", desired=namespace, delete=True),
        ObjectOps(kube, "quota", "v1", "ResourceQuota", desired=quota),
        ObjectOps(kube, "policy", "networking.k8s.io/v1", "NetworkPolicy", desired=policies),
        ObjectOps(kube, "bindings", f"{RBAC}/v1", "RoleBinding", desired=bindings),
    ]
    resources: list[Resource] = [*(CRUDResource(logger=LOGGER, ops=one) for one in ops), Status(kube)]
    retried = wrap_with_retry(resources, logger=LOGGER)
    measured = wrap_with_metrics(retried, name="tenant-namespaces")
    return ResourceSet(handles=bundle(version), logger=LOGGER, resources=measured)


def namespace(tenant: Object) -> list[Object]:
    """The tenant's namespace."""
    return [{"metadata": {"name": namespace_of(tenant)}}]


def restricted_namespace(tenant: Object) -> list[Object]:
    """Bundle 2: the namespace takes restricted pods only."""
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    return [{"metadata": {"name": namespace_of(tenant), "labels": labels}}]


def quota(tenant: Object) -> list[Object]:
    """The limits of the namespace."""
    return [_inside(tenant, "tenant", spec={"hard": tenant["spec"]["quota"]})]


def own_traffic(tenant: Object) -> list[Object]:
    """Pods of the namespace hear each other and nobody else."""
    spec = {"podSelector": {}, "policyTypes": ["Ingress"], "ingress": [{"from": [{"podSelector": {}}]}]}
    return [_inside(tenant, "own-traffic", spec=spec)]


def own_traffic_and_dns(tenant: Object) -> list[Object]:
    """Bundle 2: nor do they speak to anybody else but the name service."""
    dns = [{"port": 53, "protocol": "UDP"}, {"port": 53, "protocol": "TCP"}]
    egress = {
        "podSelector": {},
        "policyTypes": ["Egress"],
        "egress": [{"to": [{"podSelector": {}}]}, {"ports": dns}],
    }
    return [*own_traffic(tenant), _inside(tenant, "own-egress", spec=egress)]


def admins(tenant: Object) -> list[Object]:
    """The role ``admin`` for the tenant's admins."""
    return _binding(tenant, "admins", "admin", tenant["spec"]["admins"])


def admins_and_viewers(tenant: Object) -> list[Object]:
    """Bundle 2: and the role ``view`` for its viewers."""
    return [*admins(tenant), *_binding(tenant, "viewers", "view", tenant["spec"]["viewers"])]


def _binding(tenant: Object, name: str, role: str, users: list[str]) -> list[Object]:
    if not users:
        return []
    return [
        _inside(
            tenant,
            name,
            roleRef={"apiGroup": RBAC, "kind": "ClusterRole", "name": role},
            subjects=[{"apiGroup": RBAC, "kind": "User", "name": user} for user in users],
        )
    ]


def _inside(tenant: Object, name: str, **fields: Any) -> Object:
    return {"metadata": {"namespace": namespace_of(tenant), "name": name}, **fields}
