"""Where a package is installed and as whom: cluster, identity and namespace.

A `Target` is part of everything that touches a cluster on behalf of a package. What is Windlass' own (status, state
Secrets, Leases, Events) is always on the management cluster and is written by Windlass' own account.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from windlass.domain.errors import Actor, PermanentError, Reason
from windlass.domain.ids import MODULES_NAMESPACE, SYSTEM_NAMESPACE, Kind, PackageKey, release_name

APPLICATION_ACCOUNT: Final = "windlass-application"
"""Service account that the Applications of a namespace act as by default; also the ClusterRole it is bound to."""

MODULE_ACCOUNT: Final = "windlass-module"
"""Service account in `MODULES_NAMESPACE` that Modules act as by default; `deploy/` binds it once."""

DEFAULT_KUBECONFIG_KEY: Final = "kubeconfig"

_KUBERNETES_PREFIX: Final = "kube-"


@dataclass(frozen=True, kw_only=True, order=True)
class Kubeconfig:
    """A key of a Secret that holds a kubeconfig; the Secret is in the namespace of the target's account."""

    name: str
    key: str = DEFAULT_KUBECONFIG_KEY


@dataclass(frozen=True, kw_only=True, order=True)
class Account:
    """A service account on the management cluster."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"service account {self.name} in {self.namespace}"


@dataclass(frozen=True, kw_only=True, order=True)
class Target:
    """Cluster, identity and namespace of one package.

    Attributes:
        account: acts for the package on the management cluster: it reads what the object refers to, such as
            ``valuesFrom`` and the kubeconfig, and
            without ``cluster`` everything of the package is done as this account.
        cluster: another cluster, where the user of this kubeconfig acts; None for the management cluster.
        namespace: of the release.
    """

    account: Account
    cluster: Kubeconfig | None = None
    namespace: str

    @property
    def whom(self) -> str:
        """Who acts in the target's cluster, for people."""
        if self.cluster is None:
            return str(self.account)
        return f"the user of the kubeconfig in Secret {self.cluster.name} in {self.account.namespace}"

    @property
    def cluster_name(self) -> str:
        """The cluster, for people; empty for the management cluster."""
        return "" if self.cluster is None else f"{self.account.namespace}/{self.cluster.name}"

    def __str__(self) -> str:
        where = f" of cluster {self.cluster_name}" if self.cluster else ""
        return f"namespace {self.namespace}{where} as {self.whom}"


@dataclass(frozen=True, kw_only=True)
class Placement:
    """A target and the name of the release there.

    ``create_namespace`` says that the target's namespace is created if it is missing.
    """

    target: Target
    release: str
    create_namespace: bool = False

    def same_place(self, other: Placement) -> bool:
        """Say whether both name the same release: account and ``create_namespace`` may differ."""
        return self._place == other._place

    @property
    def _place(self) -> tuple[str, Kubeconfig | None, str, str]:
        home = self.target.account.namespace if self.target.cluster else ""
        return home, self.target.cluster, self.target.namespace, self.release


@dataclass(frozen=True, kw_only=True)
class Wish:
    """What an object says about its target; empty fields are left to the defaults."""

    namespace: str = ""
    create_namespace: bool = False
    account: str = ""
    cluster: Kubeconfig | None = None
    release: str = ""


def placement_of(key: PackageKey, wish: Wish, *, allow_defaults: bool = True) -> Placement:
    """Return where a package is installed and as whom.

    Args:
        key: the package.
        wish: what its object says.
        allow_defaults: whether objects that name no service account get the default one.

    Raises:
        PermanentError: TARGET_REFUSED, names the field and what would be allowed.
    """
    if not key.cluster_wide:
        _check_home(key)
    namespace = wish.namespace or key.home
    if wish.cluster is None and is_reserved(namespace, module=key.cluster_wide):
        raise _refused(f"spec.target.namespace: {namespace} is reserved", "choose another namespace")
    if wish.create_namespace and wish.cluster is None and not key.cluster_wide:
        raise _refused(
            "spec.target.createNamespace: only Modules and packages on another cluster create namespaces",
            "remove it",
        )
    account = Account(namespace=key.home, name=wish.account or _default_account(key))
    if not wish.account:
        _check_default(key, account, namespace, wish, allowed=allow_defaults)
    target = Target(account=account, cluster=wish.cluster, namespace=namespace)
    return Placement(target=target, release=wish.release or release_name(key), create_namespace=wish.create_namespace)


def is_reserved(namespace: str, *, module: bool = False) -> bool:
    """Say whether a namespace of the management cluster is closed to packages.

    `SYSTEM_NAMESPACE` holds Windlass itself and ``kube-*`` belongs to Kubernetes. `MODULES_NAMESPACE` is for Modules:
    who may run a Pod there may act as their account.
    """
    if namespace == SYSTEM_NAMESPACE or namespace.startswith(_KUBERNETES_PREFIX):
        return True
    return namespace == MODULES_NAMESPACE and not module


def _check_home(key: PackageKey) -> None:
    if is_reserved(key.namespace):
        raise _refused(
            f"metadata.namespace: Applications are not allowed in {key.namespace}",
            "create the Application in a namespace of its own",
        )


def _default_account(key: PackageKey) -> str:
    return MODULE_ACCOUNT if key.kind is Kind.MODULE else APPLICATION_ACCOUNT


def _check_default(key: PackageKey, account: Account, namespace: str, wish: Wish, *, allowed: bool) -> None:
    if not allowed:
        raise _refused(
            "spec.target.serviceAccountName: this installation has no default service account",
            f"name a service account of namespace {account.namespace}",
        )
    if not key.cluster_wide and wish.cluster is None and namespace != key.namespace:
        raise _refused(
            f"spec.target.namespace: {account} cannot act in {namespace}",
            "leave the namespace out, name a service account that may act there (spec.target.serviceAccountName), "
            "use a kubeconfig (spec.target.cluster), or make it a Module",
        )


def _refused(message: str, hint: str) -> PermanentError:
    return PermanentError(Reason.TARGET_REFUSED, message, hint=hint, actor=Actor.USER)
