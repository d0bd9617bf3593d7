"""Label selectors: what is wrong with one, and which labels it picks (Kubernetes, ``metav1.LabelSelector``)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from windlass.domain.servicesets.models import LabelSelector, LabelSelectorRequirement

PART_MAX: Final = 63
"""Characters of a label's value, and of its key after the prefix."""

PREFIX_MAX: Final = 253
"""Characters of the prefix of a label's key."""

_PART: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
_PREFIX: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_WITH_VALUES: Final = frozenset({"In", "NotIn"})
_WITHOUT_VALUES: Final = frozenset({"Exists", "DoesNotExist"})


def problem_of(selector: LabelSelector) -> str:
    """Return what the API server would refuse of a selector, as the end of a sentence; empty if it is valid."""
    for key, value in selector.match_labels.items():
        if problem := _key_problem(key) or _value_problem(value):
            return problem
    for expression in selector.match_expressions:
        if problem := _key_problem(expression.key) or _expression_problem(expression):
            return problem
    return ""


def matches(selector: LabelSelector, labels: Mapping[str, str]) -> bool:
    """Say whether a selector picks an object with these labels; an empty one picks every object.

    An expression with an unknown operator picks nothing; see `problem_of`.
    """
    return all(labels.get(key) == value for key, value in selector.match_labels.items()) and all(
        _holds(one, labels) for one in selector.match_expressions
    )


def _holds(requirement: LabelSelectorRequirement, labels: Mapping[str, str]) -> bool:
    match requirement.operator:
        case "In":
            return labels.get(requirement.key) in requirement.values
        case "NotIn":
            return labels.get(requirement.key) not in requirement.values
        case "Exists":
            return requirement.key in labels
        case "DoesNotExist":
            return requirement.key not in labels
        case _:
            return False


def _expression_problem(expression: LabelSelectorRequirement) -> str:
    operator, key = expression.operator, expression.key
    if operator in _WITHOUT_VALUES:
        return f"has values for {key}, which {operator} does not take" if expression.values else ""
    if operator not in _WITH_VALUES:
        return f"has the operator {operator!r} for {key}: use In, NotIn, Exists or DoesNotExist"
    if not expression.values:
        return f"has no values for {key}, which {operator} needs"
    return next((problem for value in expression.values if (problem := _value_problem(value))), "")


def _key_problem(key: str) -> str:
    prefix, slash, name = key.rpartition("/")
    named = len(name) <= PART_MAX and _PART.fullmatch(name)
    prefixed = not slash or (len(prefix) <= PREFIX_MAX and _PREFIX.fullmatch(prefix))
    return "" if named and prefixed else f"names {key!r}, which is no label key"


def _value_problem(value: str) -> str:
    return "" if not value or (len(value) <= PART_MAX and _PART.fullmatch(value)) else f"has {value!r}, no label value"
