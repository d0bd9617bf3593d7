"""By which watch an object of a release is followed, and what is said of objects that none follows.

Three ways, in this order:

1. Kinds of `LISTED` by one watch over the whole cluster, as the account `windlass-reader`, shared by all packages.
2. Other kinds, and those that the reader may not watch, by one watch over a namespace, as the package's account. Their
   number is bounded (`Limits`).
3. The rest is not watched and is compared from time to time, and so are packages on other clusters.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from windlass.domain.errors import Actor, PermanentError, Reason
from windlass.domain.ids import MODULES_NAMESPACE
from windlass.domain.target import Account

type KindOf = tuple[str, str]
"""API version and kind."""

READER: Final = Account(namespace=MODULES_NAMESPACE, name="windlass-reader")
"""Watches the kinds of `LISTED`; `deploy/rbac/reader.yaml` says what it may read, Secrets are not among it."""

RESYNC: Final = 600.0
"""Seconds between two comparisons of what is not watched."""

WATCHES: Final = 128
"""Watches of one process as accounts of packages. Each holds a connection with TLS: 0.3 MB in the worker, 0.05 MB in
the API server (256 idle watches, PSS), so these are 38 MB of the 1 GiB that ``deploy/`` grants a worker. A chart with a
Secret needs one in its namespace."""

SHARE: Final = 8
"""One account gets at most the eighth part, so that the packages of one tenant do not use up the watches of others."""

KINDS_SHOWN: Final = 5
"""Kinds that a condition's message names."""

_LISTED_KINDS: Final[Mapping[str, tuple[str, ...]]] = {
    "v1": ("ConfigMap", "LimitRange", "PersistentVolumeClaim", "ResourceQuota", "Service", "ServiceAccount"),
    "apps/v1": ("DaemonSet", "Deployment", "StatefulSet"),
    "batch/v1": ("CronJob", "Job"),
    "autoscaling/v1": ("HorizontalPodAutoscaler",),
    "autoscaling/v2": ("HorizontalPodAutoscaler",),
    "policy/v1": ("PodDisruptionBudget",),
    "networking.k8s.io/v1": ("Ingress", "IngressClass", "NetworkPolicy"),
    "rbac.authorization.k8s.io/v1": ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"),
    "storage.k8s.io/v1": ("CSIDriver", "StorageClass"),
    "scheduling.k8s.io/v1": ("PriorityClass",),
    "apiextensions.k8s.io/v1": ("CustomResourceDefinition",),
    "apiregistration.k8s.io/v1": ("APIService",),
    "admissionregistration.k8s.io/v1": (
        "MutatingWebhookConfiguration",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
        "ValidatingWebhookConfiguration",
    ),
    "windlass.dev/v1alpha1": ("Application", "Module", "PackageRepository"),
}

LISTED: Final[frozenset[KindOf]] = frozenset(
    (version, kind) for version, kinds in _LISTED_KINDS.items() for kind in kinds
)
"""What most charts consist of. Versions are listed too: a release record that somebody has edited may name any."""


class Why(StrEnum):
    """Why objects are not watched; values are not shown."""

    ELSEWHERE = "elsewhere"
    REFUSED = "refused"
    LIMIT = "limit"


@dataclass(frozen=True, kw_only=True, order=True)
class Scope:
    """What one watch covers: a kind, in one namespace or (empty) everywhere, as an account of a package.

    Without an account it is a watch of the reader.
    """

    api_version: str
    kind: str
    namespace: str = ""
    account: Account | None = None

    @property
    def who(self) -> Account:
        """The account that watches."""
        return self.account or READER


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What is watched.

    Attributes:
        watches: how many watches there may be as accounts of packages, in one process.
        kinds: further kinds that the reader watches.
        resync: seconds between two comparisons of what is not watched.
    """

    watches: int = WATCHES
    kinds: frozenset[KindOf] = frozenset()
    resync: float = RESYNC

    @property
    def each(self) -> int:
        """How many of the watches one account may have."""
        return max(1, self.watches // SHARE)


def ways(kind: KindOf, namespace: str, account: Account, listed: AbstractSet[KindOf]) -> tuple[Scope, ...]:
    """Return the watches that would follow objects, the one to try first first.

    Args:
        kind: of the objects.
        namespace: where they are; empty for kinds without namespaces.
        account: of the package.
        listed: the kinds that the reader watches.
    """
    version, name = kind
    own = Scope(api_version=version, kind=name, namespace=namespace, account=account)
    return (Scope(api_version=version, kind=name), own) if kind in listed else (own,)


def told(unwatched: Iterable[tuple[KindOf, Why]], account: Account, limits: Limits) -> str:
    """Return what the condition `InSync` says of objects that are not watched; empty if there are none."""
    groups: defaultdict[Why, set[str]] = defaultdict(set)
    for (_, kind), why in unwatched:
        groups[why].add(kind)
    every = f"compared every {limits.resync / 60:g} min"
    reasons = {
        Why.ELSEWHERE: "packages on other clusters are not watched",
        Why.REFUSED: f"{account} may not watch them, or they are not served",
        Why.LIMIT: f"this worker has used up its watches: {limits.watches}, {limits.each} for one account",
    }
    if Why.ELSEWHERE in groups:
        return f"{every}: {reasons[Why.ELSEWHERE]}"
    return "; ".join(f"{_named(groups[why])}: {every} ({reasons[why]})" for why in Why if why in groups)


def _named(kinds: AbstractSet[str]) -> str:
    shown = sorted(kinds)[:KINDS_SHOWN]
    more = f" and {len(kinds) - len(shown)} more" if len(kinds) > len(shown) else ""
    return ", ".join(shown) + more


def parse_kinds(text: str, variable: str) -> frozenset[KindOf]:
    """Read a list such as ``example.dev/v1/Widget,v1/Pod``.

    Raises:
        PermanentError: VALIDATION_FAILED; names the setting, the entry and what is allowed there.
    """
    found: set[KindOf] = set()
    for entry in filter(None, text.replace(" ", "").split(",")):
        version, _, kind = entry.rpartition("/")
        if not version or not kind or version.count("/") > 1 or not kind[0].isupper():
            raise PermanentError(
                Reason.VALIDATION_FAILED,
                f"{variable}: {entry!r} is not a kind",
                hint="write group/version/Kind, for example cert-manager.io/v1/Certificate",
                actor=Actor.USER,
            )
        if kind == "Secret" and version == "v1":
            raise PermanentError(
                Reason.VALIDATION_FAILED,
                f"{variable}: Secrets are not watched by {READER.name}",
                hint="leave them out: they are watched as the accounts of packages",
                actor=Actor.USER,
            )
        found.add((version, kind))
    return frozenset(found)
