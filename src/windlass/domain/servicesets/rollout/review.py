"""What validation refuses of a fleet's objects, beside what a plan says of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from windlass.domain.servicesets.errors import ServiceSetError
from windlass.domain.servicesets.models import ClusterDeployment, MultiClusterService
from windlass.domain.servicesets.rollout.fleet import Fleet
from windlass.domain.servicesets.rollout.policy import selects
from windlass.domain.servicesets.validation import (
    validate_dependencies,
    validate_multi_cluster_dependencies,
    validate_references,
)


class Finding(NamedTuple):
    """Something that is wrong.

    Attributes:
        objects: whose services have it, like ``ClusterDeployment prod/edge``.
        error: what it is.
    """

    objects: tuple[str, ...]
    error: ServiceSetError


def review(fleet: Fleet) -> tuple[Finding, ...]:
    """Return what validation refuses (kcm.md section 3), each error once, with all the objects that have it.

    A plan goes as far as decisions do, which is farther: a chain that is not valid still has routes. Whoever validates
    before deciding stops at what is listed here.
    """
    objects: dict[str, list[str]] = {}
    errors: dict[str, ServiceSetError] = {}
    for title, error in _found(fleet):
        errors.setdefault(str(error), error)
        objects.setdefault(str(error), []).append(title)
    return tuple(Finding(tuple(dict.fromkeys(objects[text])), error) for text, error in errors.items())


def _found(fleet: Fleet) -> Iterator[tuple[str, ServiceSetError]]:
    for cluster in fleet.clusters:
        yield from _of(cluster, [cluster.metadata.namespace], fleet)
    for owner in fleet.multi_cluster_services:
        selector = owner.spec.cluster_selector
        picked = [one.metadata.namespace for one in fleet.clusters if selects(selector, one.metadata.labels)]
        itself = [fleet.system_namespace] if owner.spec.service_spec.provider.self_management else []
        yield from _of(owner, [*dict.fromkeys(picked + itself)], fleet)
    for error in validate_multi_cluster_dependencies(fleet.multi_cluster_services):
        yield "dependsOn of MultiClusterServices", error


def _of(
    owner: ClusterDeployment | MultiClusterService, namespaces: Sequence[str], fleet: Fleet
) -> Iterator[tuple[str, ServiceSetError]]:
    services = owner.spec.service_spec.services
    for namespace in namespaces:
        for error in validate_references(services, namespace, fleet.snapshot.templates, fleet.snapshot.chains):
            yield owner.title, error
    for error in validate_dependencies(services):
        yield owner.title, error
