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


def fixed(what: str, path: str, *fields: str) -> tuple[str, str]:
    """Return the rule that optional fields of an object cannot be set, changed or removed after its creation.

    A rule of an optional field itself does not see that the field appears or disappears, so this one is for a parent
    that is always there.

    Args:
        what: the fields as the message names them.
        path: of the object that holds them, below the parent; every part of it may be missing.
        fields: names of string fields.
    """

    def value(root: str) -> str:
        names = [root, *(part for part in path.split(".") if part)]
        present = [f"has({'.'.join(names[:end])})" for end in range(2, len(names) + 1)]
        holder = ".".join(names)
        texts = [f"(has({holder}.{field}) ? {holder}.{field} : '')" for field in fields]
        joined = " + '/' + ".join(texts)
        return f"({' && '.join(present)} ? {joined} : '')" if present else f"({joined})"

    return f"{value('self')} == {value('oldSelf')}", f"{what} cannot change: delete this object and create another one"
