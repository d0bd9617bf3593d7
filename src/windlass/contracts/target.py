"""What an object says about where its package is installed and as whom."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StringConstraints

from windlass.contracts.base import KubeModel
from windlass.contracts.schema_rules import DNS_LABEL_PATTERN, DNS_SUBDOMAIN_PATTERN
from windlass.domain.target import DEFAULT_KUBECONFIG_KEY, Kubeconfig


class KubeconfigSecret(KubeModel):
    """A key of a Secret that holds a kubeconfig with inline credentials and an https server."""

    name: Annotated[str, StringConstraints(pattern=DNS_SUBDOMAIN_PATTERN, min_length=1, max_length=253)] = Field(
        description="Name of the Secret, in the namespace of the object (of a Module: windlass-modules)."
    )
    key: Annotated[str, StringConstraints(pattern=r"^[-._a-zA-Z0-9]+$", min_length=1, max_length=253)] = Field(
        default=DEFAULT_KUBECONFIG_KEY, description="Key in the Secret's data."
    )


class TargetCluster(KubeModel):
    """Another cluster than the one that holds the object."""

    kubeconfig_secret: KubeconfigSecret = Field(description="How to reach it; its user acts there for the package.")


class TargetSpec(KubeModel):
    """Where a package is installed and as whom."""

    namespace: Annotated[str, StringConstraints(pattern=DNS_LABEL_PATTERN, min_length=1, max_length=63)] | None = Field(
        default=None,
        description="Namespace of the release; absent: that of the object, for a Module windlass-modules. It cannot "
        "change.",
    )
    create_namespace: bool = Field(
        default=False,
        description="Create the namespace if it is missing; for Modules and packages on another cluster.",
    )
    service_account_name: (
        Annotated[str, StringConstraints(pattern=DNS_SUBDOMAIN_PATTERN, min_length=1, max_length=253)] | None
    ) = Field(
        default=None,
        description="Service account, in the namespace of the object (of a Module: windlass-modules), that acts for "
        "the package; absent: windlass-application, for a Module windlass-module.",
    )
    cluster: TargetCluster | None = Field(
        default=None, description="Another cluster; absent: the one that holds the object. It cannot change."
    )

    @property
    def kubeconfig(self) -> Kubeconfig | None:
        """The Secret with the kubeconfig of another cluster, if one is named; it is in the object's home namespace."""
        if self.cluster is None:
            return None
        return Kubeconfig(name=self.cluster.kubeconfig_secret.name, key=self.cluster.kubeconfig_secret.key)
