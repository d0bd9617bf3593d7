"""What one decision looks at: the objects that the contract's functions read from the cluster, read once before."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Self

from windlass.domain.servicesets.keys import ObjectKey
from windlass.domain.servicesets.models import (
    ServiceObject,
    ServiceSet,
    ServiceTemplate,
    ServiceTemplateChain,
    StateManagementProvider,
)

type Templates = Mapping[ObjectKey, ServiceTemplate]
type Chains = Mapping[ObjectKey, ServiceTemplateChain]


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """The objects at one moment.

    Attributes:
        service_sets: those of the clusters and owners that the decision is about; more do no harm.
        templates: under their namespace and name.
        chains: under their namespace and name.
        providers: under their names.
    """

    service_sets: tuple[ServiceSet, ...] = ()
    templates: Templates = field(default_factory=dict[ObjectKey, ServiceTemplate])
    chains: Chains = field(default_factory=dict[ObjectKey, ServiceTemplateChain])
    providers: Mapping[str, StateManagementProvider] = field(default_factory=dict[str, StateManagementProvider])

    @classmethod
    def of(cls, objects: Iterable[ServiceObject]) -> Self:
        """Sort objects by kind; those of kinds that no decision reads are left out."""
        kept = tuple(objects)
        return cls(
            service_sets=tuple(item for item in kept if isinstance(item, ServiceSet)),
            templates={key_of(item): item for item in kept if isinstance(item, ServiceTemplate)},
            chains={key_of(item): item for item in kept if isinstance(item, ServiceTemplateChain)},
            providers={item.metadata.name: item for item in kept if isinstance(item, StateManagementProvider)},
        )


def key_of(item: ServiceObject) -> ObjectKey:
    """Return where an object lies."""
    return ObjectKey(item.metadata.namespace, item.metadata.name)
