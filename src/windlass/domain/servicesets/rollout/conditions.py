"""What a schema cannot check of a fleet's objects, as conditions that a workflow can write.

Everything follows from the objects as they are now. A status that was written before does not count, so that an object
recovers as soon as what it refers to does; and what is wrong with one object is no reason to be silent about another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from windlass.domain.errors import Reason, cap
from windlass.domain.servicesets.components import circles, strongly_connected
from windlass.domain.servicesets.errors import (
    DependencyCycleError,
    DependencyNotDefinedError,
    ProviderNotFoundError,
    ServiceSetError,
    TemplateNotFoundError,
)
from windlass.domain.servicesets.holds import listed
from windlass.domain.servicesets.keys import ObjectKey, object_key, service_key
from windlass.domain.servicesets.models import (
    ClusterDeployment,
    Condition,
    MultiClusterService,
    ServiceObject,
    ServiceSet,
    ServiceTemplate,
    ServiceTemplateChain,
    StateManagementProvider,
    ValidityStatus,
)
from windlass.domain.servicesets.provider import (
    matching_labels,
    provider_of,
    state_management_provider_config_from_service_spec,
)
from windlass.domain.servicesets.rollout.documents import cluster_policy, rollout_policy
from windlass.domain.servicesets.rollout.fleet import Fleet
from windlass.domain.servicesets.rollout.policy import selects
from windlass.domain.servicesets.rollout.waves import CanaryMissingError, Target, waves
from windlass.domain.servicesets.snapshot import key_of
from windlass.domain.servicesets.validation import validate_dependencies, validate_references
from windlass.domain.servicesets.verdicts import chain_problem, missing_templates, provider_problem, template_problem

MESSAGE_BYTES: Final = 1024
"""Bytes of one message (kcm.md section 3)."""

SUCCEEDED: Final = "Succeeded"


class ConditionType(StrEnum):
    """Conditions that are decided here. Those that end in Validation are K0rdent's."""

    VALID = "Valid"
    TEMPLATES_EXIST = "TemplatesExist"
    REFERENCES = "ServicesReferencesValidation"
    DEPENDENCIES = "ServicesDependencyValidation"
    OWNER_DEPENDENCIES = "MultiClusterServiceDependencyValidation"
    ROLLOUT = "RolloutValidation"


@dataclass(frozen=True, kw_only=True)
class ObjectConditions:
    """The conditions of one object. Its writer adds the time of each transition.

    Attributes:
        kind: of the object.
        key: where it is.
        uid: which one; empty if it was not read from an API server.
        conditions: each with the generation that it is about.
    """

    kind: str
    key: ObjectKey
    uid: str
    conditions: tuple[Condition, ...]

    @property
    def validity(self) -> ValidityStatus:
        """``valid`` and ``validationError`` as the status of templates and chains has them."""
        valid = next((one for one in self.conditions if one.type == ConditionType.VALID), Condition())
        wrong = valid.status == "False"
        return ValidityStatus(
            valid=not wrong,
            validation_error=valid.message if wrong else "",
            observed_generation=valid.observed_generation,
        )


def conditions(fleet: Fleet) -> tuple[ObjectConditions, ...]:
    """Return the conditions of every object of a fleet. Linear in services, their dependencies and selected clusters.

    Order: providers, templates, chains, clusters, MultiClusterServices, ServiceSets.

    Args:
        fleet: all objects there are; what is missing here counts as absent.
    """
    return tuple(_Judge(fleet).all())


class _Judge:
    """Looks at objects in an order in which each finds those it refers to judged."""

    def __init__(self, fleet: Fleet) -> None:
        snapshot = fleet.snapshot
        self._fleet = fleet
        self._snapshot = replace(
            snapshot,
            templates={
                key: one.changed(status=_status(template_problem(one), one)) for key, one in snapshot.templates.items()
            },
            chains={key: one.changed(status=_status(chain_problem(one), one)) for key, one in snapshot.chains.items()},
        )
        self._templates: dict[str, set[str]] = {}
        for key in snapshot.templates:
            self._templates.setdefault(key.namespace, set()).add(key.name)
        self._clusters = {key_of(one) for one in fleet.clusters}
        self._owners = {one.metadata.name: one for one in fleet.multi_cluster_services}
        self._cycles = _cycles(self._owners)

    def all(self) -> Iterable[ObjectConditions]:
        for provider in self._snapshot.providers.values():
            yield self._provider(provider)
        for template in self._snapshot.templates.values():
            yield self._template(template)
        for chain in self._snapshot.chains.values():
            yield self._chain(chain)
        for cluster in self._fleet.clusters:
            yield self._cluster(cluster)
        for owner in self._fleet.multi_cluster_services:
            yield self._owner(owner)
        for service_set in self._snapshot.service_sets:
            yield self._service_set(service_set)

    def _provider(self, provider: StateManagementProvider) -> ObjectConditions:
        problem = provider_problem(provider)
        reason = Reason.SELECTOR_INVALID if provider.spec.selector else Reason.SELECTOR_MISSING
        return _of(provider, _verdict(ConditionType.VALID, reason, [problem] if problem else []))

    def _template(self, template: ServiceTemplate) -> ObjectConditions:
        return _of(template, _verdict(ConditionType.VALID, Reason.TEMPLATE_INVALID, _problems(template.status)))

    def _chain(self, chain: ServiceTemplateChain) -> ObjectConditions:
        missing = missing_templates(chain, self._templates.get(chain.metadata.namespace, ()))
        return _of(
            chain,
            _verdict(ConditionType.VALID, Reason.CHAIN_INVALID, _problems(chain.status)),
            _verdict(
                ConditionType.TEMPLATES_EXIST,
                Reason.TEMPLATE_NOT_FOUND,
                [f"there is no ServiceTemplate {listed(missing)}"] if missing else [],
            ),
        )

    def _cluster(self, cluster: ClusterDeployment) -> ObjectConditions:
        return _of(
            cluster,
            _kcm(ConditionType.REFERENCES, self._references(cluster, [object_key("", cluster, None)])),
            _kcm(ConditionType.DEPENDENCIES, validate_dependencies(cluster.spec.service_spec.services)),
            _rollout(lambda: cluster_policy(cluster)),
        )

    def _owner(self, owner: MultiClusterService) -> ObjectConditions:
        picked = [one for one in self._fleet.clusters if selects(owner.spec.cluster_selector, one.metadata.labels)]
        places = [object_key("", one, owner) for one in picked]
        if owner.spec.service_spec.provider.self_management:
            places.append(object_key(self._fleet.system_namespace, None, owner))
        targets = [Target(str(key_of(one)), one.metadata.labels) for one in picked]
        return _of(
            owner,
            _kcm(ConditionType.REFERENCES, self._references(owner, places)),
            _kcm(ConditionType.DEPENDENCIES, validate_dependencies(owner.spec.service_spec.services)),
            _kcm(ConditionType.OWNER_DEPENDENCIES, self._owner_dependencies(owner)),
            _rollout(lambda: waves(rollout_policy(owner), targets)),
        )

    def _references(
        self, owner: ClusterDeployment | MultiClusterService, places: Sequence[ObjectKey]
    ) -> list[ServiceSetError]:
        """Return what is wrong with names, templates, chains and the provider of an owner, each error once."""
        spec = owner.spec.service_spec
        found: list[ServiceSetError] = []
        for namespace in dict.fromkeys(place.namespace for place in places):
            found += validate_references(spec.services, namespace, self._snapshot.templates, self._snapshot.chains)
        if places and spec.services:
            try:
                provider_of(self._snapshot, state_management_provider_config_from_service_spec(spec).name, places[0])
            except ServiceSetError as error:
                found.append(error)
        return list({str(error): error for error in found}.values())

    def _owner_dependencies(self, owner: MultiClusterService) -> list[ServiceSetError]:
        undefined = [
            DependencyNotDefinedError(owner.title, MultiClusterService.new("", name).title)
            for name in dict.fromkeys(owner.spec.depends_on)
            if name not in self._owners
        ]
        return [*undefined, *([self._cycles[owner.metadata.name]] if owner.metadata.name in self._cycles else [])]

    def _service_set(self, service_set: ServiceSet) -> ObjectConditions:
        return _of(service_set, _verdict(ConditionType.VALID, *self._service_set_problems(service_set)))

    def _service_set_problems(self, service_set: ServiceSet) -> tuple[Reason, list[str]]:
        """Return the reason of the first thing that is wrong, and all of them."""
        spec, namespace = service_set.spec, service_set.metadata.namespace
        found: list[tuple[Reason, str]] = []
        if spec.cluster and ObjectKey(namespace, spec.cluster) not in self._clusters:
            found.append((Reason.REFERENCE_NOT_FOUND, f"ClusterDeployment {namespace}/{spec.cluster} does not exist"))
        if spec.multi_cluster_service and spec.multi_cluster_service not in self._owners:
            text = f"MultiClusterService {spec.multi_cluster_service} does not exist"
            found.append((Reason.REFERENCE_NOT_FOUND, text))
        for service in spec.services:
            template = ObjectKey(namespace, service.template)
            if template not in self._snapshot.templates:
                error = TemplateNotFoundError(template, service_key(service.namespace, service.name))
                found.append((error.reason, error.message))
        if problem := self._undelivered(service_set):
            found.append(problem)
        return (found[0][0] if found else Reason.REFERENCE_NOT_FOUND, [text for _, text in found])

    def _undelivered(self, service_set: ServiceSet) -> tuple[Reason, str] | None:
        """Return why the provider of a ServiceSet would not see it."""
        name, key = service_set.spec.provider.name, key_of(service_set)
        labels = service_set.metadata.labels
        try:
            if name not in self._snapshot.providers:
                raise ProviderNotFoundError(name, key)
            selector = provider_of(self._snapshot, name, key).spec.selector
            if selector is not None and matching_labels(selector, labels, key, name) != labels:
                return (
                    Reason.SELECTOR_INVALID,
                    f"StateManagementProvider {name} does not select it: its labels were changed",
                )
        except ServiceSetError as error:
            return error.reason, error.message
        return None


def _cycles(owners: Mapping[str, MultiClusterService]) -> dict[str, DependencyCycleError]:
    """Return the members of dependency cycles, each with a cycle through its knot."""
    edges = {name: [one for one in owner.spec.depends_on if one in owners] for name, owner in owners.items()}
    found: dict[str, DependencyCycleError] = {}
    for members in strongly_connected(edges):
        within = {name: [one for one in edges[name] if one in members] for name in sorted(members)}
        for circle in circles(within):
            error = DependencyCycleError([owners[name].title for name in circle])
            found.update(dict.fromkeys(members, error))
    return found


def _status(problem: str, item: ServiceTemplate | ServiceTemplateChain) -> ValidityStatus:
    return ValidityStatus(valid=not problem, validation_error=problem, observed_generation=item.metadata.generation)


def _problems(status: ValidityStatus) -> list[str]:
    return [status.validation_error] if status.valid is False else []


def _rollout(read: Callable[[], object]) -> Condition:
    """Return whether ``spec.rollout`` can be carried out; ``read`` raises what is wrong with it."""
    try:
        read()
    except (ServiceSetError, CanaryMissingError) as error:
        return _verdict(ConditionType.ROLLOUT, Reason.ROLLOUT_INVALID, [error.message])
    return _verdict(ConditionType.ROLLOUT, Reason.ROLLOUT_INVALID, [])


def _kcm(kind: ConditionType, errors: Sequence[ServiceSetError]) -> Condition:
    """Return a condition with the reasons that K0rdent gives it."""
    return Condition(
        type=kind,
        status="False" if errors else "True",
        reason=f"{kind}Failed" if errors else f"{kind}Succeeded",
        message=cap(listed([error.message for error in errors], "; "), MESSAGE_BYTES),
    )


def _verdict(kind: ConditionType, reason: Reason, problems: Sequence[str]) -> Condition:
    return Condition(
        type=kind,
        status="False" if problems else "True",
        reason=reason if problems else SUCCEEDED,
        message=cap(listed(problems, "; "), MESSAGE_BYTES),
    )


def _of(item: ServiceObject, *found: Condition) -> ObjectConditions:
    generation = item.metadata.generation
    return ObjectConditions(
        kind=item.KIND,
        key=key_of(item),
        uid=item.metadata.uid,
        conditions=tuple(one.changed(observed_generation=generation) for one in found),
    )
