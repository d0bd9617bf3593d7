"""What is wrong with single objects of a fleet, from their specs alone: what a schema cannot say."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import cast

from windlass.domain.packages.versions import VersionRange, VersionRangeError
from windlass.domain.servicesets import chains as graph
from windlass.domain.servicesets.errors import TemplateMissingError
from windlass.domain.servicesets.models import ServiceTemplate, ServiceTemplateChain, StateManagementProvider
from windlass.domain.servicesets.selectors import problem_of

_UNDELIVERED = {"GitRepository": "a Git repository", "Bucket": "a bucket"}
"""Kinds of source objects that cannot be delivered yet, and what texts call them."""


def template_problem(template: ServiceTemplate) -> str:
    """Return why a template cannot be delivered; empty if it can."""
    return next(_template_problems(template), "")


def chain_problem(chain: ServiceTemplateChain) -> str:
    """Return all that is wrong with the graph of a chain; empty if it can be used.

    A template that does not exist is no fault of the graph: chains outlive retired templates.
    """
    return "; ".join(error.problem for error in graph.check(chain))


def missing_templates(chain: ServiceTemplateChain, known: Collection[str]) -> list[str]:
    """Return the templates of a chain that do not exist, in the chain's order.

    Args:
        chain: to look at.
        known: names of the ServiceTemplates in its namespace.
    """
    return [error.template for error in graph.check(chain, known) if isinstance(error, TemplateMissingError)]


def provider_problem(provider: StateManagementProvider) -> str:
    """Return why a provider would never see a ServiceSet; empty if it would."""
    if provider.spec.selector is None:
        return "spec.selector is missing, so that it sees no ServiceSet"
    problem = problem_of(provider.spec.selector)
    return f"spec.selector {problem}" if problem else ""


def _template_problems(template: ServiceTemplate) -> Iterator[str]:
    spec = template.spec
    contents = {"helm": spec.helm, "kustomize": spec.kustomize, "resources": spec.resources}
    named = [name for name, value in contents.items() if value is not None]
    if len(named) != 1:
        yield f"its spec names {' and '.join(named) or 'none'} of helm, kustomize, resources"
    if spec.k8s_constraint:
        try:
            VersionRange.parse(spec.k8s_constraint)
        except VersionRangeError as error:
            yield f"spec.k8sConstraint: {error}"
    document = template.spec.to_object()
    for name in named:
        if source := _undelivered(document[name]):
            yield f"spec.{name} comes from {source}, which Windlass does not deliver yet"


def _undelivered(content: dict[str, object]) -> str:
    """Return what the content comes from if that cannot be delivered; empty if it can."""
    source = _part(content, "chartSource") or content
    remote = _part(source, "remoteSourceSpec")
    kinds = [
        _part(_part(content, "chartSpec"), "sourceRef").get("kind"),
        _part(source, "localSourceRef").get("kind"),
        "GitRepository" if "git" in remote else "Bucket" if "bucket" in remote else None,
    ]
    return next((_UNDELIVERED[kind] for kind in kinds if isinstance(kind, str) and kind in _UNDELIVERED), "")


def _part(document: dict[str, object], name: str) -> dict[str, object]:
    value = document.get(name)
    return cast("dict[str, object]", value) if isinstance(value, dict) else {}
