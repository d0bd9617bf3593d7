"""Who delivers a ServiceSet: its configuration, and the labels by which it recognises its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from windlass.domain.servicesets.errors import (
    PriorityOutOfRangeError,
    ProviderNotFoundError,
    SelectorInvalidError,
    SelectorMissingError,
)
from windlass.domain.servicesets.keys import ObjectKey
from windlass.domain.servicesets.models import (
    DEFAULT_PRIORITY,
    DEFAULT_PROVIDER,
    PRIORITY_MAX,
    PRIORITY_MIN,
    LabelSelector,
    ServiceSpec,
    StateManagementProvider,
    StateManagementProviderConfig,
)
from windlass.domain.servicesets.selectors import matches, problem_of
from windlass.domain.servicesets.snapshot import Snapshot

_TIER_BASE: Final = 2_147_483_647
"""Tier of the priority 0, the largest 32-bit integer."""

_LEGACY: Final = {
    "syncMode": "sync_mode",
    "templateResourceRefs": "template_resource_refs",
    "policyRefs": "policy_refs",
    "driftIgnore": "drift_ignore",
    "driftExclusions": "drift_exclusions",
    "priority": "priority",
    "stopOnConflict": "stop_on_conflict",
    "reloader": "reload",
    "continueOnError": "continue_on_error",
}
"""Key in the provider's configuration to deprecated field; ``reload`` is called ``reloader`` there."""


def state_management_provider_config_from_service_spec(service_spec: ServiceSpec) -> StateManagementProviderConfig:
    """Return the provider and configuration a service spec asks for (kcm.md section 2).

    =========  =========  =========================================================
    name       config     result
    =========  =========  =========================================================
    absent     absent     the default provider, configured by the deprecated fields
    absent     present    the default provider with that configuration
    present    absent     that provider, not configured; deprecated fields ignored
    present    present    as it is
    =========  =========  =========================================================

    Deprecated fields that are absent or empty are left out: the provider knows its defaults (``Continuous``, priority
    100). ``selfManagement`` is taken over.

    Raises:
        PriorityOutOfRangeError: ``priority`` counts and is not between `PRIORITY_MIN` and `PRIORITY_MAX`.
    """
    provider = service_spec.provider
    if provider.name:
        return provider
    config = provider.config if provider.config is not None else _from_deprecated(service_spec)
    return provider.changed(name=DEFAULT_PROVIDER, config=config)


def _from_deprecated(service_spec: ServiceSpec) -> dict[str, Any]:
    priority = service_spec.priority
    if priority is not None and not PRIORITY_MIN <= priority <= PRIORITY_MAX:
        raise PriorityOutOfRangeError(priority, PRIORITY_MIN, PRIORITY_MAX)
    written = service_spec.to_object()
    wires = {"reloader": "reload"}
    return {key: written[wire] for key in _LEGACY if written.get(wire := wires.get(key, key))}


def provider_of(snapshot: Snapshot, name: str, service_set: ObjectKey) -> StateManagementProvider:
    """Return the provider of a ServiceSet.

    Raises:
        ProviderNotFoundError: there is none of that name.
        SelectorMissingError: it has no selector, so it would never see the ServiceSet.
        SelectorInvalidError: the API server would refuse its selector.
    """
    provider = snapshot.providers.get(name)
    if provider is None:
        raise ProviderNotFoundError(name, service_set)
    if provider.spec.selector is None:
        raise SelectorMissingError(service_set, name)
    if problem := problem_of(provider.spec.selector):
        raise SelectorInvalidError(service_set, problem, name)
    return provider


def required_labels(selector: LabelSelector, present: Mapping[str, str]) -> dict[str, str]:
    """Return the labels that a selector asks for (kcm.md section 2, Builder); see `matching_labels`.

    Of an expression ``In`` the first value in sorted order counts; ``Exists`` keeps what is ``present``, else it is
    empty. ``NotIn`` and ``DoesNotExist`` ask for no label.
    """
    labels = dict(selector.match_labels)
    for expression in selector.match_expressions:
        if expression.operator == "In" and expression.values:
            labels[expression.key] = min(expression.values)
        elif expression.operator == "Exists":
            labels.setdefault(expression.key, present.get(expression.key, ""))
    return labels


def matching_labels(
    selector: LabelSelector, present: Mapping[str, str], service_set: ObjectKey, provider: str = ""
) -> dict[str, str]:
    """Return the labels of a ServiceSet with those that its provider's selector asks for.

    Args:
        selector: the provider's.
        present: labels that the ServiceSet has; they stay unless the selector asks for others.
        service_set: whose labels these are, for errors.
        provider: whose selector it is, for errors; empty if unknown.

    Raises:
        SelectorInvalidError: the API server would refuse the selector, or it does not pick the labels that follow from
            it. Its provider would never see the ServiceSet.
    """
    if problem := problem_of(selector):
        raise SelectorInvalidError(service_set, problem, provider)
    labels = {**present, **required_labels(selector, present)}
    if not matches(selector, labels):
        shown = ", ".join(f"{key}={value}" for key, value in sorted(labels.items())) or "none"
        raise SelectorInvalidError(service_set, f"does not pick the labels that follow from it ({shown})", provider)
    return labels


def priority_to_tier(priority: int | None = None) -> int:
    """Return the tier of a Sveltos profile for a ``priority`` (kcm.md section 4): the lower tier wins a conflict.

    Args:
        priority: the higher one wins; None is `DEFAULT_PRIORITY`.

    Raises:
        PriorityOutOfRangeError: it is not between `PRIORITY_MIN` and `PRIORITY_MAX`.
    """
    checked = DEFAULT_PRIORITY if priority is None else priority
    if not PRIORITY_MIN <= checked <= PRIORITY_MAX:
        raise PriorityOutOfRangeError(checked, PRIORITY_MIN, PRIORITY_MAX)
    return _TIER_BASE - checked
