"""Patterns and CEL rules that the schemas of several kinds share."""

from __future__ import annotations

from typing import Any, Final

DNS_LABEL_PATTERN: Final = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
DNS_SUBDOMAIN_PATTERN: Final = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"


def rule(expression: str, message: str) -> dict[str, Any]:
    """Return the schema extension for one CEL rule."""
    return rules((expression, message))


def rules(*given: tuple[str, str]) -> dict[str, Any]:
    """Return the schema extension for CEL rules and their messages."""
    return {"x-kubernetes-validations": [{"rule": expression, "message": message} for expression, message in given]}


_RESERVED: Final = frozenset({"namespace", "package"})
"""Field names of ours that CEL reserves; Kubernetes escapes them in rules."""


def fixed(what: str, holder: str, *fields: str) -> tuple[str, str]:
    """Return the rule that optional fields of an object cannot be set, changed or removed after its creation.

    A rule of an optional field itself does not see that the field appears or disappears, so this one is for a parent
    that is always there. Plain comparisons: the API server cannot bound the cost of one between conditional values.

    Args:
        what: the fields as the message names them.
        holder: path of the object that holds the fields; any part of it may be missing, empty for the parent itself.
        fields: the first may be missing; the others are there when it is.
    """

    def path(root: str, field: str) -> str:
        parts = [part for part in (root, *holder.split("."), field) if part]
        return ".".join(f"__{part}__" if part in _RESERVED else part for part in parts)

    def present(root: str) -> str:
        parts = path(root, fields[0]).split(".")
        return " && ".join(f"has({'.'.join(parts[:end])})" for end in range(2, len(parts) + 1))

    same = " && ".join(f"{path('self', field)} == {path('oldSelf', field)}" for field in fields)
    rule = f"({present('self')}) == ({present('oldSelf')}) && (!({present('self')}) || ({same}))"
    return rule, f"{what} cannot change: delete this object and create another one"
