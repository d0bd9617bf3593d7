"""What can be wrong with service sets: every error names the objects it is about and who can mend it.

All are permanent: the same objects give the same error until somebody changes one of them.
"""

from __future__ import annotations

from collections.abc import Sequence

from windlass.domain.errors import Actor, PermanentError, Reason
from windlass.domain.servicesets.keys import ObjectKey, ServiceKey


class ServiceSetError(PermanentError):
    """Base of all of them, for callers who stop at the first."""


class NameInvalidError(ServiceSetError):
    """A service's name or namespace is none that Kubernetes takes."""

    def __init__(self, service: ServiceKey, field: str, problem: str) -> None:
        super().__init__(
            Reason.NAME_INVALID,
            f"service {service}: {field} {problem}",
            hint="use lower case letters, digits and '-', starting and ending with a letter or digit",
        )
        self.service = service
        self.field = field


class DuplicateServiceError(ServiceSetError):
    """A service is in one list more than once."""

    def __init__(self, service: ServiceKey) -> None:
        super().__init__(
            Reason.DUPLICATE_SERVICE,
            f"service {service} is listed more than once",
            hint="keep one entry: namespace and name identify a service",
        )
        self.service = service


class DependencyNotDesiredError(ServiceSetError):
    """A service depends on one that is not, or no longer, in the list of desired services."""

    def __init__(self, service: ServiceKey, dependency: ServiceKey) -> None:
        super().__init__(
            Reason.DEPENDENCY_NOT_DESIRED,
            f"service {service} depends on service {dependency}, which is not among the desired services",
            hint=f"add service {dependency}, or take it out of dependsOn of {service}",
        )
        self.service = service
        self.dependency = dependency


class DependencyNotDefinedError(ServiceSetError):
    """Validation: ``dependsOn`` names something that does not exist."""

    def __init__(self, dependent: str, dependency: str) -> None:
        super().__init__(
            Reason.DEPENDENCY_NOT_DEFINED,
            f"{dependent} depends on {dependency}, which is not defined",
            hint=f"define {dependency}, or take it out of dependsOn",
        )
        self.dependent = dependent
        self.dependency = dependency


class DependencyCycleError(ServiceSetError):
    """Dependencies lead round in a circle.

    Attributes:
        members: in the order of the circle: each depends on the next, the last on the first.
    """

    def __init__(self, members: Sequence[str]) -> None:
        super().__init__(
            Reason.DEPENDENCY_CYCLE,
            f"dependencies form a cycle: {' -> '.join([*members, members[0]])}",
            hint="take one of these out of the other's dependsOn",
        )
        self.members = tuple(members)


class SeveralServiceSetsError(ServiceSetError):
    """There is more than one ServiceSet for one cluster and one MultiClusterService."""

    def __init__(self, cluster: str, multi_cluster_service: str, found: Sequence[ObjectKey]) -> None:
        what = " and ".join(
            part
            for part in (
                f"cluster {cluster}" if cluster else "the management cluster",
                f"MultiClusterService {multi_cluster_service}" if multi_cluster_service else "",
            )
            if part
        )
        super().__init__(
            Reason.SEVERAL_SERVICE_SETS,
            f"{len(found)} ServiceSets for {what}: {', '.join(map(str, found))}",
            hint="keep one of them and delete the others",
            actor=Actor.ADMIN,
        )
        self.cluster = cluster
        self.multi_cluster_service = multi_cluster_service
        self.found = tuple(found)


class TemplateNotFoundError(ServiceSetError):
    """There is no such ServiceTemplate.

    Attributes:
        template: the one that is missing.
        service: which service needs it.
        chain: the chain that leads the service there; None if the service itself names the template.
    """

    def __init__(self, template: ObjectKey, service: ServiceKey, *, chain: ObjectKey | None = None) -> None:
        if chain is None:
            message = f"ServiceTemplate {template} of service {service} does not exist"
            hint = f"create it in namespace {template.namespace}, or name another template"
        else:
            message = (
                f"ServiceTemplate {template} does not exist: it is the next hop of service {service} "
                f"on ServiceTemplateChain {chain}"
            )
            hint = f"create it in namespace {template.namespace}, or change the chain"
        super().__init__(Reason.TEMPLATE_NOT_FOUND, message, hint=hint)
        self.template = template
        self.service = service
        self.chain = chain


class TemplateInvalidError(ServiceSetError):
    """A ServiceTemplate was found invalid, or nobody has looked at it yet."""

    def __init__(self, template: ObjectKey, service: ServiceKey, problem: str) -> None:
        super().__init__(
            Reason.TEMPLATE_INVALID,
            f"ServiceTemplate {template} of service {service} is not valid: {problem}",
            hint="its status says what is wrong; a template cannot change, so create another one",
            actor=Actor.AUTHOR,
        )
        self.template = template
        self.service = service


class ChainNotFoundError(ServiceSetError):
    """There is no such ServiceTemplateChain."""

    def __init__(self, chain: ObjectKey, service: ServiceKey) -> None:
        super().__init__(
            Reason.CHAIN_NOT_FOUND,
            f"ServiceTemplateChain {chain} of service {service} does not exist",
            hint=f"create it in namespace {chain.namespace}, or name another chain",
        )
        self.chain = chain
        self.service = service


class ChainInvalidError(ServiceSetError):
    """A ServiceTemplateChain was found invalid, or nobody has looked at it yet."""

    def __init__(self, chain: ObjectKey, problem: str) -> None:
        super().__init__(
            Reason.CHAIN_INVALID,
            f"ServiceTemplateChain {chain} is not valid: {problem}",
            hint="correct the chain, or name another one in templateChain",
            actor=Actor.AUTHOR,
        )
        self.chain = chain
        self.problem = problem


class TargetOutsideChainError(ChainInvalidError):
    """An upgrade leads to a template that the chain does not list."""

    def __init__(self, chain: ObjectKey, template: str, target: str) -> None:
        super().__init__(chain, f"template {template} may be upgraded to {target}, which is not in supportedTemplates")
        self.template = template
        self.target = target


class MixedVersionsError(ChainInvalidError):
    """The upgrades of one template partly say a version and partly do not."""

    def __init__(self, chain: ObjectKey, template: str, versionless: Sequence[str]) -> None:
        super().__init__(
            chain,
            f"upgrades of template {template} partly say a version; those to {', '.join(versionless)} do not",
        )
        self.template = template
        self.versionless = tuple(versionless)


class TemplateMissingError(ChainInvalidError):
    """A chain lists a template that does not exist."""

    def __init__(self, chain: ObjectKey, template: str) -> None:
        super().__init__(chain, f"template {template} in supportedTemplates does not exist")
        self.template = template


class ChainTooLargeError(ChainInvalidError):
    """A chain holds more than is looked at."""

    def __init__(
        self, chain: ObjectKey, templates: int, most_templates: int, upgrades: int, most_upgrades: int
    ) -> None:
        super().__init__(
            chain,
            f"it has {templates} templates and {upgrades} upgrades;"
            f" at most {most_templates} and {most_upgrades} are taken",
        )
        self.templates = templates
        self.upgrades = upgrades


class TemplateNotInChainError(ServiceSetError):
    """A service's template is not in ``supportedTemplates`` of its chain, so that no upgrade starts or ends there."""

    def __init__(self, chain: ObjectKey, template: str, service: ServiceKey | None = None) -> None:
        owner = f" of service {service}" if service else ""
        super().__init__(
            Reason.TEMPLATE_NOT_IN_CHAIN,
            f"template {template}{owner} is not in supportedTemplates of ServiceTemplateChain {chain}",
            hint="name a chain that lists it",
        )
        self.chain = chain
        self.template = template
        self.service = service


class ProviderNotFoundError(ServiceSetError):
    """There is no such StateManagementProvider."""

    def __init__(self, provider: str, service_set: ObjectKey) -> None:
        super().__init__(
            Reason.PROVIDER_NOT_FOUND,
            f"StateManagementProvider {provider} of ServiceSet {service_set} does not exist",
            hint="create it, or name another one in serviceSpec.provider.name",
            actor=Actor.ADMIN,
        )
        self.provider = provider
        self.service_set = service_set


class SelectorMissingError(ServiceSetError):
    """A provider without a selector would never see the ServiceSet: there are no labels to give it."""

    def __init__(self, service_set: ObjectKey, provider: str = "") -> None:
        whose = f" of StateManagementProvider {provider}" if provider else ""
        super().__init__(
            Reason.SELECTOR_MISSING,
            f"ServiceSet {service_set} cannot be built: the selector{whose} is missing",
            hint="set spec.selector of the provider",
            actor=Actor.ADMIN,
        )
        self.service_set = service_set
        self.provider = provider


class SelectorInvalidError(ServiceSetError):
    """A provider's selector says nothing that labels could satisfy."""

    def __init__(self, service_set: ObjectKey, problem: str, provider: str = "") -> None:
        whose = f" of StateManagementProvider {provider}" if provider else ""
        super().__init__(
            Reason.SELECTOR_INVALID,
            f"ServiceSet {service_set} cannot be built: the selector{whose} {problem}",
            hint="correct spec.selector of the provider",
            actor=Actor.ADMIN,
        )
        self.service_set = service_set
        self.problem = problem
        self.provider = provider


class PriorityOutOfRangeError(ServiceSetError):
    """A service spec's ``priority`` cannot be turned into a tier."""

    def __init__(self, priority: int, lowest: int, highest: int) -> None:
        super().__init__(
            Reason.PRIORITY_OUT_OF_RANGE,
            f"serviceSpec.priority is {priority}",
            hint=f"set a number from {lowest} to {highest}",
        )
        self.priority = priority


class RolloutInvalidError(ServiceSetError):
    """``spec.rollout`` of an object cannot be read.

    Attributes:
        owner: the object as texts call it.
        problems: ``field: what is wrong`` for each field.
    """

    def __init__(self, owner: str, problems: Sequence[str]) -> None:
        super().__init__(
            Reason.ROLLOUT_INVALID,
            f"{owner}: {'; '.join(problems)}",
            hint="correct the field" + ("s" if len(problems) > 1 else ""),
        )
        self.owner = owner
        self.problems = tuple(problems)


class UpgradePathsError(ServiceSetError):
    """Upgrade paths of stored services cannot be worked out: all that is wrong, so that it can be mended at once.

    Attributes:
        errors: each of them; reason and actor are those of the first.
    """

    def __init__(self, errors: Sequence[ServiceSetError]) -> None:
        first = errors[0]
        hints = dict.fromkeys(error.hint for error in errors)
        super().__init__(
            first.reason, "; ".join(error.message for error in errors), hint="; ".join(hints), actor=first.actor
        )
        self.errors = tuple(errors)
