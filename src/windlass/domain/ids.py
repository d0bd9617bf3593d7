"""Every name that Windlass gives to something outside itself is built here.

All start from the installation id, so that two installations share a Temporal namespace in peace.
Workflow ids are business keys: ``windlass/package/prod.billing``.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

DEFAULT_INSTALLATION: Final = "windlass"
SYSTEM_NAMESPACE: Final = "windlass-system"
"""Holds Windlass itself: Leases, state Secrets, keyring, Secrets of repositories; nothing of any package."""

MODULES_NAMESPACE: Final = "windlass-modules"
"""Holds what Modules refer to, and their releases unless they name another namespace."""

GROUP: Final = "windlass.dev"
API_VERSION: Final = f"{GROUP}/v1alpha1"
FINALIZER: Final = f"{GROUP}/lifecycle"
ABANDON_ANNOTATION: Final = f"{GROUP}/abandon"
"""The documented escape hatch: with the value "true" a removal runs no hooks and leaves the release in place."""

INSTALLATION_LABEL: Final = f"{GROUP}/installation"
"""Names the installation that serves an object; without it the object belongs to `DEFAULT_INSTALLATION`."""

MEMBER_LABEL: Final = f"{GROUP}/member"
"""Marks the Leases of an installation's processes; its value is what they do."""

RELEASE_NAME_MAX: Final = 53  # Helm: 63 less room for a revision suffix
LABEL_MAX: Final = 63  # Kubernetes label values and DNS labels

_DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_HASH_LENGTH = 8
_RECORD_READABLE = 120  # of the 253 characters that the name of a Secret may have


class Kind(StrEnum):
    """Kinds whose objects are packages."""

    APPLICATION = "Application"
    MODULE = "Module"


@dataclass(frozen=True, kw_only=True)
class PackageKey:
    """Which package: the installation, the kind and the object's name.

    ``namespace`` is the object's namespace for an Application and empty for a Module.
    """

    installation: str = DEFAULT_INSTALLATION
    kind: Kind = Kind.APPLICATION
    namespace: str = ""
    name: str

    @property
    def package_id(self) -> str:
        """``<namespace>.<instance>`` for an Application, ``<name>`` for a Module."""
        return f"{self.namespace}.{self.name}" if self.kind is Kind.APPLICATION else self.name

    @property
    def cluster_wide(self) -> bool:
        """Whether its hooks act on the whole cluster."""
        return self.kind is Kind.MODULE

    @property
    def home(self) -> str:
        """The namespace on the management cluster of everything that its object refers to by name.

        Unless the object says otherwise, also the namespace of its release.
        """
        return self.namespace if self.kind is Kind.APPLICATION else MODULES_NAMESPACE

    def __str__(self) -> str:
        return f"{self.kind.value} {self.namespace}/{self.name}" if self.namespace else f"{self.kind.value} {self.name}"


def is_dns_label(name: str) -> bool:
    """Say whether ``name`` is a DNS label of RFC 1123 (at most 63 characters)."""
    return len(name) <= LABEL_MAX and _DNS_LABEL.fullmatch(name) is not None


def shorten(name: str, limit: int) -> str:
    """Return ``name`` if it fits in ``limit`` characters, else its start and a hash of the whole.

    The hash keeps two long names with one prefix apart; the result never ends its readable part in ``-`` or ``.``.
    """
    if len(name) <= limit:
        return name
    suffix = hashlib.sha256(name.encode()).hexdigest()[:_HASH_LENGTH]
    return name[: limit - _HASH_LENGTH - 1].rstrip("-.") + "-" + suffix


def release_name(key: PackageKey) -> str:
    """Return the Helm release name of a package that names none: the object's, shortened to 53 characters.

    No dots: release names end up in names of Services and containers, which must be DNS labels.
    """
    return shorten(key.name, RELEASE_NAME_MAX)


def owner_name(key: PackageKey) -> str:
    """Return how a release names the package that it was applied for."""
    return f"{key} of installation {key.installation}"


def package_label(key: PackageKey) -> str:
    """Return the value of the label that marks a package's objects: the package id, at most 63 characters."""
    return shorten(key.package_id, LABEL_MAX)


def record_name(key: PackageKey) -> str:
    """Return the name of the Secret in `SYSTEM_NAMESPACE` that keeps what must outlive the workflow.

    It always ends in a hash: the Secrets of all namespaces are in one, and parts that are joined could be cut anew.
    """
    parts = (key.installation, key.kind.value.lower(), *([key.namespace] if key.namespace else []), key.name)
    suffix = hashlib.sha256(f"{key.installation}/{key.kind.value}/{key.namespace}/{key.name}".encode()).hexdigest()
    return shorten("-".join(parts), _RECORD_READABLE) + "-" + suffix[:_HASH_LENGTH]


def package_workflow_id(key: PackageKey) -> str:
    """Return ``<installation>/package/<package id>``."""
    return f"{key.installation}/package/{key.package_id}"


def package_of(installation: str, workflow_id: str) -> PackageKey | None:
    """Return the package whose lifecycle has this workflow id; None if it is no package lifecycle of ours."""
    prefix = package_workflow_prefix(installation)
    if not workflow_id.startswith(prefix):
        return None
    namespace, dot, name = workflow_id.removeprefix(prefix).partition(".")
    if not dot:
        return PackageKey(installation=installation, kind=Kind.MODULE, name=namespace)
    return PackageKey(installation=installation, namespace=namespace, name=name)


def package_workflow_prefix(installation: str) -> str:
    """Return what every package workflow id of one installation starts with."""
    return f"{installation}/package/"


def repository_workflow_id(installation: str, name: str) -> str:
    """Return ``<installation>/repository/<name>``."""
    return f"{installation}/repository/{name}"


def task_queue(installation: str, shard: int) -> str:
    """Return the task queue of one shard."""
    return f"{installation}/shard-{shard}"


def helm_queue(queue: str) -> str:
    """Return the task queue beside that of a shard in which its releases wait for Helm."""
    return f"{queue}/helm"


def pool_queue(installation: str, pool: str) -> str:
    """Return the task queue of the workers that do one kind of work for all shards."""
    return f"{installation}/{pool}"


def shard_of(key: PackageKey, shards: int) -> int:
    """Return the shard (0 to ``shards`` - 1) that serves this package: a stable hash of its id."""
    return int.from_bytes(hashlib.sha256(key.package_id.encode()).digest()[:4]) % shards


def member_name(installation: str, identity: str) -> str:
    """Return the name of the Lease by which a worker process tells that it lives."""
    return shorten(f"{installation}-worker-{identity}", LABEL_MAX)


def member_of(term: str) -> str:
    """Return the member of a term: ``<member>/<random>``, see `windlass.adapters.kube.coordination.members`."""
    return term.partition("/")[0]


def shards_name(installation: str) -> str:
    """Return the name of the ConfigMap that holds the number of shards and who serves them."""
    return shorten(f"{installation}-shards", LABEL_MAX)


def inspect_name(installation: str) -> str:
    """Return the name of the inspect endpoint's Service, and of the ConfigMap that says where it is."""
    return shorten(f"{installation}-inspect", LABEL_MAX)


def inspect_authority_name(installation: str) -> str:
    """Return the name of the Secret with the certificate authority of the inspect endpoint."""
    return shorten(f"{installation}-inspect-ca", LABEL_MAX)


def shard_of_repository(name: str, shards: int) -> int:
    """Return the shard (0 to ``shards`` - 1) that scans this repository: a stable hash of its name."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:4]) % shards


def operation_name(key: PackageKey) -> str:
    """Return the name of the Lease that a pool's worker holds while it works on a package."""
    return shorten(f"{key.installation}-operation-{key.package_id}", LABEL_MAX)


def lease_name(installation: str, role: str) -> str:
    """Return the name of the Lease that one role of the installation holds."""
    return shorten(f"{installation}-{role}", LABEL_MAX)
