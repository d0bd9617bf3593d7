"""What has to be right before services are resolved: names, references, chains and dependencies (kcm.md section 3).

Nothing here changes anything. What is returned is all that is wrong, so that whoever mends it sees it at once; trying
again without a change is no use.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from windlass.domain.ids import is_dns_label
from windlass.domain.servicesets import chains as graph
from windlass.domain.servicesets.components import circles
from windlass.domain.servicesets.errors import (
    ChainInvalidError,
    ChainNotFoundError,
    DependencyCycleError,
    DependencyNotDefinedError,
    DuplicateServiceError,
    NameInvalidError,
    ServiceSetError,
    TemplateInvalidError,
    TemplateNotFoundError,
    TemplateNotInChainError,
)
from windlass.domain.servicesets.keys import ObjectKey, ServiceKey, service_key
from windlass.domain.servicesets.models import MultiClusterService, Service, ServiceTemplate, ServiceTemplateChain
from windlass.domain.servicesets.snapshot import Chains, Templates, key_of

NAME_MAX: Final = 253

_SUBDOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


def validate_references(
    services: Iterable[Service], namespace: str, templates: Templates, chains: Chains
) -> tuple[ServiceSetError, ...]:
    """Return what is wrong with names, templates and chains of ``services``, in their order.

    Args:
        services: desired ones.
        namespace: where templates and chains lie.
        templates: the ServiceTemplates there.
        chains: the ServiceTemplateChains there.
    """
    found: list[ServiceSetError] = []
    seen: set[ServiceKey] = set()
    supported: dict[ObjectKey, set[str]] = {}
    for service in services:
        key = service_key(service.namespace, service.name)
        found += _names(key)
        if key in seen:
            found.append(DuplicateServiceError(key))
        seen.add(key)
        found += _template(key, ObjectKey(namespace, service.template), templates)
        if service.template_chain:
            chain = chains.get(ObjectKey(namespace, service.template_chain))
            if chain is None:
                found.append(ChainNotFoundError(ObjectKey(namespace, service.template_chain), key))
                continue
            if key_of(chain) not in supported:
                supported[key_of(chain)] = {one.name for one in chain.spec.supported_templates}
                found += validate_chain(chain)
            if service.template not in supported[key_of(chain)]:
                found.append(TemplateNotInChainError(key_of(chain), service.template, key))
    return tuple(found)


def validate_chain(chain: ServiceTemplateChain) -> tuple[ChainInvalidError, ...]:
    """Return what is wrong with a chain: what its status says of this spec, or else what can be seen from the spec.

    Chains may change: a status of an earlier generation does not count. A status without a generation is K0rdent's.
    """
    current = chain.status.observed_generation in {0, chain.metadata.generation}
    if current and chain.status.valid is False:
        return (ChainInvalidError(key_of(chain), chain.status.validation_error or "its status says so"),)
    return tuple(graph.check(chain))


def validate_dependencies(services: Sequence[Service]) -> tuple[ServiceSetError, ...]:
    """Return the services named in ``dependsOn`` that are not in the list, then the cycles with their members."""
    named: dict[ServiceKey, list[ServiceKey]] = {}
    for service in services:
        own = named.setdefault(service_key(service.namespace, service.name), [])
        own += [service_key(one.namespace, one.name) for one in service.depends_on]
    return _dependencies({f"service {key}": [f"service {one}" for one in own] for key, own in named.items()})


def validate_multi_cluster_dependencies(
    multi_cluster_services: Iterable[MultiClusterService],
) -> tuple[ServiceSetError, ...]:
    """Return the MultiClusterServices named in ``dependsOn`` that do not exist, then the cycles with their members."""
    return _dependencies(
        {
            owner.title: [MultiClusterService.new("", name).title for name in owner.spec.depends_on]
            for owner in multi_cluster_services
        }
    )


def _dependencies(named: Mapping[str, Sequence[str]]) -> tuple[ServiceSetError, ...]:
    undefined = [
        DependencyNotDefinedError(dependent, dependency)
        for dependent, dependencies in named.items()
        for dependency in dict.fromkeys(dependencies)
        if dependency not in named
    ]
    return (*undefined, *(DependencyCycleError(members) for members in circles(named)))


def _names(key: ServiceKey) -> list[ServiceSetError]:
    found: list[ServiceSetError] = []
    if len(key.name) > NAME_MAX or not _SUBDOMAIN.fullmatch(key.name):
        found.append(NameInvalidError(key, "name", f"is not a DNS subdomain of at most {NAME_MAX} characters"))
    if not is_dns_label(key.namespace):
        found.append(NameInvalidError(key, "namespace", "is not a DNS label of at most 63 characters"))
    return found


def _template(service: ServiceKey, key: ObjectKey, templates: Templates) -> list[ServiceSetError]:
    template = templates.get(key)
    if template is None:
        return [TemplateNotFoundError(key, service)]
    problem = _problem(template)
    return [TemplateInvalidError(key, service, problem)] if problem else []


def _problem(template: ServiceTemplate) -> str:
    if template.status.valid is False:
        return template.status.validation_error or "its status says so"
    spec = template.spec
    sources = [
        name
        for name, value in (("helm", spec.helm), ("kustomize", spec.kustomize), ("resources", spec.resources))
        if value is not None
    ]
    return (
        "" if len(sources) == 1 else f"its spec names {' and '.join(sources) or 'none'} of helm, kustomize, resources"
    )
