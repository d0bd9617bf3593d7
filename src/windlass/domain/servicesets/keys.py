"""Which service and which ServiceSet: the identities that everything else compares."""

from __future__ import annotations

import hashlib
from typing import Final, NamedTuple, override

from windlass.domain.ids import shorten
from windlass.domain.servicesets.models import DEFAULT_NAMESPACE, ClusterDeployment, MultiClusterService

MANAGEMENT: Final = "management"
"""Stands for the cluster in names of ServiceSets of the management cluster."""

_HASHED_BYTES: Final = 4
_NAME_MAX: Final = 253
"""Characters of an object's name in Kubernetes."""


class ObjectKey(NamedTuple):
    """Namespace and name of an object; sorts by namespace, then name."""

    namespace: str
    name: str

    @override
    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class ServiceKey(NamedTuple):
    """Identity of a service within one list; sorts by namespace, then name."""

    namespace: str
    name: str

    @override
    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


def service_key(namespace: str, name: str) -> ServiceKey:
    """Return the identity of a service; an empty namespace is ``default`` (reference kcm.md section 2, ServiceKey)."""
    return ServiceKey(namespace or DEFAULT_NAMESPACE, name)


def object_key(
    system_namespace: str,
    cluster_deployment: ClusterDeployment | None,
    multi_cluster_service: MultiClusterService | None,
) -> ObjectKey:
    """Return where the ServiceSet of a cluster, a MultiClusterService, or of both lies (kcm.md section 2, ObjectKey).

    ===========================  ===============================================
    for                          key
    ===========================  ===============================================
    a cluster's own services     the cluster's namespace and name
    a cluster and an MCS         its namespace, ``<cluster>-<hash of the MCS>``
    the management cluster       the system namespace, ``management-<hash>``
    ===========================  ===============================================

    The hash is the first four bytes of SHA-256 of the MCS's name in hex, for a namespaced one of ``namespace/name``.

    Raises:
        ValueError: neither is given.
    """
    if multi_cluster_service is None:
        if cluster_deployment is None:
            raise ValueError("a ServiceSet belongs to a cluster, to a MultiClusterService, or to both")
        return ObjectKey(cluster_deployment.metadata.namespace, cluster_deployment.metadata.name)
    owner = multi_cluster_service.metadata
    named = f"{owner.namespace}/{owner.name}" if owner.namespace else owner.name
    suffix = "-" + hashlib.sha256(named.encode()).digest()[:_HASHED_BYTES].hex()
    if cluster_deployment is None:
        return ObjectKey(system_namespace, MANAGEMENT + suffix)
    cluster = cluster_deployment.metadata
    return ObjectKey(cluster.namespace, shorten(cluster.name, _NAME_MAX - len(suffix)) + suffix)
