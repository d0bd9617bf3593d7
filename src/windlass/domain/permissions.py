"""What a package's account needs to install objects, and how what it may not do is told.

RBAC is the border: the API server refuses what is forbidden whatever stands here. These texts say it in one message,
and where a manifest is rendered anyway, before anything is applied.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import Final

from windlass.domain.ids import MODULES_NAMESPACE
from windlass.domain.target import APPLICATION_ACCOUNT, Target

VERBS: Final = ("get", "create", "patch", "delete")
"""What Helm does to an object in the course of its life."""

SHOWN: Final = 40
"""Objects that one message names: a status holds 8 KB of text."""

ANY: Final = "*"


@dataclass(frozen=True, kw_only=True, order=True)
class Item:
    """One object, in the API's words; ``namespace`` is empty for kinds without namespaces."""

    group: str
    resource: str
    kind: str
    namespace: str = ""
    name: str

    def __str__(self) -> str:
        return f"{self.kind}/{self.name}" + (f" in namespace {self.namespace}" if self.namespace else "")


@dataclass(frozen=True, kw_only=True, order=True)
class Access:
    """One question to the API server's authorizer; without ``name`` it is about all objects."""

    verb: str
    group: str
    resource: str
    namespace: str = ""
    name: str = ""

    @property
    def unnamed(self) -> Access:
        """The same about all objects."""
        return replace(self, name="")


@dataclass(frozen=True, kw_only=True)
class Rule:
    """A rule of RBAC, as a SelfSubjectRulesReview or a role has it; no ``names`` means all."""

    verbs: frozenset[str]
    groups: frozenset[str]
    resources: frozenset[str]
    names: frozenset[str] = frozenset()


@dataclass(frozen=True, kw_only=True, order=True)
class Forbidden:
    """One object and what may not be done to it."""

    item: Item
    verbs: tuple[str, ...]

    def __str__(self) -> str:
        group = f".{self.item.group}" if self.item.group else ""
        return f"{self.item} ({', '.join(self.verbs)} {self.item.resource}{group})"


@dataclass(frozen=True, kw_only=True)
class Review:
    """What an account may do to the objects of a manifest.

    Attributes:
        forbidden: objects with at least one verb that is missing.
        unknown: objects of which it could not be told.
    """

    forbidden: tuple[Forbidden, ...] = ()
    unknown: tuple[Item, ...] = field(default=())


def permits(rules: Iterable[Rule], access: Access) -> bool:
    """Say whether rules certainly allow something. RBAC only adds: what one rule allows no other takes away.

    Rules for single names count for accesses with that name, and never for `create`, which RBAC judges without it.
    """
    return any(
        {access.verb, ANY} & rule.verbs
        and {access.group, ANY} & rule.groups
        and {access.resource, ANY} & rule.resources
        and (not rule.names or (access.verb != "create" and access.name in rule.names))
        for rule in rules
    )


def accesses(item: Item) -> tuple[Access, ...]:
    """Return what installing an object needs."""
    return tuple(
        Access(
            verb=verb,
            group=item.group,
            resource=item.resource,
            namespace=item.namespace,
            name="" if verb == "create" else item.name,
        )
        for verb in VERBS
    )


def questions(items: Iterable[Item], rules: Mapping[str, Sequence[Rule]]) -> tuple[Access, ...]:
    """Return what rules do not answer, each question once, about all objects, in order.

    Args:
        items: the objects.
        rules: by namespace. They count for objects in that namespace only: what holds in a namespace may come from a
            RoleBinding, which gives nothing where there is no namespace.
    """
    return tuple(
        dict.fromkeys(
            access.unnamed
            for item in sorted(items)
            for access in accesses(item)
            if not (item.namespace and permits(rules.get(item.namespace, ()), access))
        )
    )


def reviewed(
    items: Iterable[Item], answers: Mapping[Access, bool | None], rules: Mapping[str, Sequence[Rule]]
) -> Review:
    """Return what may not be done.

    Args:
        items: the objects.
        answers: of the API server, by question: about all objects, or about one by name, which counts for more; None
            and questions without an answer leave it open.
        rules: as in `questions`.
    """
    forbidden: list[Forbidden] = []
    unknown: list[Item] = []
    for item in sorted(set(items)):
        known = rules.get(item.namespace, ()) if item.namespace else ()
        asked = [access for access in accesses(item) if not permits(known, access)]
        found = {access.verb: _answer(access, answers) for access in asked}
        denied = tuple(verb for verb in VERBS if found.get(verb, True) is False)
        if denied:
            forbidden.append(Forbidden(item=item, verbs=denied))
        elif None in found.values():
            unknown.append(item)
    return Review(forbidden=tuple(forbidden), unknown=tuple(unknown))


def _answer(access: Access, answers: Mapping[Access, bool | None]) -> bool | None:
    return bool(answers.get(access)) or answers.get(access.unnamed)


def told(forbidden: Sequence[Forbidden], whom: str) -> str:
    """Return the message: who may not do what to which objects."""
    names = "; ".join(str(one) for one in forbidden[:SHOWN])
    more = f"; and {len(forbidden) - SHOWN} more" if len(forbidden) > SHOWN else ""
    objects = "1 object" if len(forbidden) == 1 else f"{len(forbidden)} objects"
    return f"{whom} may not install {objects}: {names}{more}"


def remedy(forbidden: Sequence[Forbidden], target: Target) -> str:
    """Return what would allow it: a Module, a named account, or a role, and where to bind it."""
    namespaces: AbstractSet[str] = {one.item.namespace for one in forbidden}
    if target.cluster is not None:
        return f"give {target.whom} these rights in that cluster, or name a kubeconfig of a user who has them"
    module = target.account.namespace == MODULES_NAMESPACE
    default = target.account.name == APPLICATION_ACCOUNT
    ways: list[str] = []
    if not module and namespaces - {target.account.namespace}:
        ways.append("make the package a Module")
    if default and not module:
        ways.append("name a service account that may (spec.target.serviceAccountName)")
    if "" in namespaces:
        ways.append(f"bind a ClusterRole with these rights to {target.account} by a ClusterRoleBinding")
    inside = sorted(namespaces - {""})
    if inside:
        ways.append(f"bind a Role with these rights to {target.account} in {', '.join(inside[:5])}")
    if default and target.account.namespace in namespaces:
        ways.append("for all Applications, label a ClusterRole windlass.dev/aggregate-to-application")
    return "; or ".join(ways)
