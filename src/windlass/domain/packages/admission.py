"""Which namespaces a repository serves, and whether the packages in it may bring programs of their own.

A repository with a login reads for others what its owner may read, so it serves nobody until it lists namespaces. One
without a login holds what anybody can fetch, and serves all of them until it says otherwise. The list has the form of
``allowedRoutes.namespaces`` of the Gateway API, with names beside the selector.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Operator(StrEnum):
    """Operators of label selectors; values are those of Kubernetes."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"


@dataclass(frozen=True, kw_only=True)
class Requirement:
    """One requirement of a label selector (apimachinery ``labels.Requirement``)."""

    key: str
    operator: Operator
    values: frozenset[str] = frozenset()

    def holds(self, labels: Mapping[str, str]) -> bool:
        """Say whether ``labels`` fulfil it; like in Kubernetes, a label that is absent is not in any set."""
        value = labels.get(self.key)
        match self.operator:
            case Operator.IN:
                return value in self.values
            case Operator.NOT_IN:
                return value not in self.values
            case Operator.EXISTS:
                return value is not None
            case Operator.DOES_NOT_EXIST:
                return value is None


@dataclass(frozen=True, kw_only=True)
class Audience:
    """The namespaces that a repository serves.

    Attributes:
        everyone: all of them; the rest is not looked at.
        names: of namespaces.
        selector: requirements on a namespace's labels, all of which have to hold; without any, no namespace is selected
            (a selector that selects everything is written ``from: All``).
    """

    everyone: bool = False
    names: frozenset[str] = frozenset()
    selector: tuple[Requirement, ...] = ()

    def asks_labels(self, namespace: str) -> bool:
        """Say whether it takes the labels of ``namespace`` to tell if it is served."""
        return bool(self.selector) and not self.everyone and namespace not in self.names

    def serves(self, namespace: str, labels: Mapping[str, str]) -> bool:
        """Say whether packages of ``namespace``, which has ``labels``, may use the repository."""
        if self.everyone or namespace in self.names:
            return True
        return bool(self.selector) and all(requirement.holds(labels) for requirement in self.selector)


EVERYONE: Final = Audience(everyone=True)
NOBODY: Final = Audience()
