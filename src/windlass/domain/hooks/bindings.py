"""What a hook's ``kubernetes`` binding says, once it has been read (reference: hooks.md section 2.3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

MAIN_QUEUE: Final = "main"
DEFAULT_NAME: Final = "kubernetes"


class Change(StrEnum):
    """What happened to an object; values are those of ``watchEvent`` and ``executeHookOnEvent``."""

    ADDED = "Added"
    MODIFIED = "Modified"
    DELETED = "Deleted"


@dataclass(frozen=True, kw_only=True, order=True)
class Selection:
    """Which objects one informer follows; equal selections share one.

    ``namespace`` is empty for all namespaces; the selectors are in the API's own text form.
    """

    api_version: str
    kind: str
    namespace: str = ""
    label_selector: str = ""
    field_selector: str = ""

    def __str__(self) -> str:
        where = f" in {self.namespace}" if self.namespace else " in all namespaces"
        picked = ", ".join(part for part in (self.label_selector, self.field_selector) if part)
        return f"{self.kind}{where}" + (f" ({picked})" if picked else "")


@dataclass(frozen=True, kw_only=True)
class KubernetesBinding:
    """Objects a hook wants to hear of, and how.

    Attributes:
        name: of the binding, in contexts and snapshots.
        api_version: empty for the preferred version.
        kind: as written: a kind, plural or short name in any case.
        changes: after which the hook runs; empty for snapshots only.
        on_synchronization: whether the hook runs once for the objects that exist when the binding is enabled.
        waited: whether the package's first release waits for that run.
        keep_objects: whether contexts hold whole objects beside the filter's results.
        jq_filter: empty for none.
        allow_failure: whether a failed run counts as done.
        names: of the objects, empty for any.
        label_selector: of the objects, in the API's text form.
        field_selector: of the objects, in the API's text form.
        namespaces: named ones; empty for none named.
        namespace_labels: selects namespaces by their labels, in the API's text form; empty for no such selection.
        snapshots_from: bindings whose objects are given along; those of the own group among them.
        queue: that its runs wait in.
        group: bindings of one group are told of together; empty for none.
    """

    name: str = DEFAULT_NAME
    api_version: str = ""
    kind: str
    changes: tuple[Change, ...] = tuple(Change)
    on_synchronization: bool = True
    waited: bool = True
    keep_objects: bool = True
    jq_filter: str = ""
    allow_failure: bool = False
    names: tuple[str, ...] = ()
    label_selector: str = ""
    field_selector: str = ""
    namespaces: tuple[str, ...] = ()
    namespace_labels: str = ""
    snapshots_from: tuple[str, ...] = ()
    queue: str = MAIN_QUEUE
    group: str = ""

    def selections(self, api_version: str, kind: str, namespaces: Sequence[str]) -> tuple[Selection, ...]:
        """Return what to follow in ``namespaces`` (an empty name for all); version and kind as discovery has them."""
        fields = [
            ",".join(part for part in (f"metadata.name={name}" if name else "", self.field_selector) if part)
            for name in self.names or ("",)
        ]
        return tuple(
            Selection(
                api_version=api_version,
                kind=kind,
                namespace=namespace,
                label_selector=self.label_selector,
                field_selector=field,
            )
            for namespace in namespaces
            for field in fields
        )


def binding_id(hook: str, index: int) -> str:
    """Return the name of a hook's ``index``-th kubernetes binding within its package; names of bindings may repeat."""
    return f"{hook}#{index}"


def queues_of(bindings: Sequence[KubernetesBinding]) -> tuple[str, ...]:
    """Return the queues the bindings use, sorted."""
    return tuple(sorted({binding.queue for binding in bindings}))


def label_text(selector: Mapping[str, Any]) -> str:
    """Return a label selector (matchLabels, matchExpressions; valid) in the API's text form, sorted."""
    parts = [f"{key}={value}" for key, value in selector.get("matchLabels", {}).items()]
    for expression in selector.get("matchExpressions", ()):
        key, values = expression["key"], ",".join(sorted(expression.get("values", ())))
        match expression["operator"]:
            case "In":
                parts.append(f"{key} in ({values})")
            case "NotIn":
                parts.append(f"{key} notin ({values})")
            case "Exists":
                parts.append(key)
            case _:
                parts.append(f"!{key}")
    return ",".join(sorted(parts))


def field_text(expressions: Sequence[Mapping[str, str]]) -> str:
    """Return field selector expressions (valid) in the API's text form, sorted."""
    negated = ("!=", "NotEquals")
    return ",".join(sorted(f"{e['field']}{'!=' if e['operator'] in negated else '='}{e['value']}" for e in expressions))
