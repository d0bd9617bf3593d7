"""Versions of services: where they come from, which one is deployed, and what counts as a downgrade."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from semver import Version

from windlass.domain.packages.versions import VersionRangeError, parse_version
from windlass.domain.servicesets.errors import TemplateNotFoundError
from windlass.domain.servicesets.keys import ObjectKey, service_key
from windlass.domain.servicesets.models import Service, ServiceState, ServiceTemplate, ServiceWithValues, State
from windlass.domain.servicesets.snapshot import Templates

_NUMBERS: Final = re.compile(r"v?(?P<numbers>[0-9]{1,20}(?:\.[0-9]{1,20}){0,2})(?=[-+]|$)")
"""The numbers of a version; a larger one does not fit the 64 bits of the library that K0rdent uses."""


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


def semantic_version(text: str) -> Version | None:
    """Read a version as the library does that K0rdent uses (Masterminds/semver, ``NewVersion``); None if it is none.

    A leading ``v``, missing minor and patch numbers and leading zeros (``2024.01.05``) are tolerated.
    """
    match = _NUMBERS.match(text)
    if match is None:
        return None
    numbers = ".".join(str(int(number)) for number in match["numbers"].split("."))
    try:
        return parse_version(numbers + text[match.end() :])
    except VersionRangeError:
        return None


def is_downgrade(stored: ServiceWithValues, desired: Service) -> bool:
    """Say whether ``desired`` is the older one; False when one of both is no semantic version."""
    older, newer = semantic_version(desired.version), semantic_version(stored.version)
    return older is not None and newer is not None and older < newer
