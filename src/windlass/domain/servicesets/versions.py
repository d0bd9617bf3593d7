"""Versions of services: where they come from, which one is deployed, and what counts as a downgrade."""

from __future__ import annotations

from collections.abc import Sequence

from windlass.domain.packages.versions import VersionRangeError, parse_version
from windlass.domain.servicesets.errors import TemplateNotFoundError
from windlass.domain.servicesets.keys import ObjectKey, service_key
from windlass.domain.servicesets.models import Service, ServiceState, ServiceTemplate, ServiceWithValues, State
from windlass.domain.servicesets.snapshot import Templates


def template_version(template: ServiceTemplate) -> str:
    """Return what a template deploys: its version, else its chart's, else its name."""
    chart = template.spec.helm.chart_spec if template.spec.helm else None
    return template.spec.version or (chart.version if chart else "") or template.metadata.name


def resolve_service_versions[S: (Service, ServiceWithValues)](
    templates: Templates, namespace: str, services: Sequence[S]
) -> tuple[S, ...]:
    """Return ``services`` with the version of each that names a template and no version (kcm.md section 2).

    Args:
        templates: the ServiceTemplates; stands in for the contract's reads. A service with a version needs none.
        namespace: where the templates lie.
        services: desired or stored ones.

    Raises:
        TemplateNotFoundError: the first template that is missing.
        TypeError: ``services`` holds something else.
    """
    return tuple(_resolved(templates, namespace, service) for service in services)


def _resolved[S: (Service, ServiceWithValues)](templates: Templates, namespace: str, service: S) -> S:
    _check_type(service)
    if service.version or not service.template:
        return service
    key = ObjectKey(namespace, service.template)
    template = templates.get(key)
    if template is None:
        raise TemplateNotFoundError(key, service_key(service.namespace, service.name))
    return service.changed(version=template_version(template))


def _check_type(service: object) -> None:
    if not isinstance(service, Service | ServiceWithValues):
        raise TypeError(f"unsupported type {type(service).__name__}: services are desired or stored ones")


def version_or_template(service: Service | ServiceWithValues | ServiceState) -> str:
    """Return a version; the template's name stands in for one that is unknown."""
    return service.version or service.template


def is_deployed(stored: ServiceWithValues, state: ServiceState | None) -> bool:
    """Say whether a provider reports just the stored template and version as deployed.

    A provider that reports no template is believed for its version; a stored service without a version is compared by
    its template.
    """
    if state is None or state.state != State.DEPLOYED:
        return False
    if state.template and state.template != stored.template:
        return False
    if not stored.version and state.template:
        return True
    return version_or_template(state) == version_or_template(stored)


def is_downgrade(stored: ServiceWithValues, desired: Service) -> bool:
    """Say whether ``desired`` is the older one; False when one of both is no semantic version."""
    try:
        return parse_version(desired.version) < parse_version(stored.version)
    except VersionRangeError:
        return False
