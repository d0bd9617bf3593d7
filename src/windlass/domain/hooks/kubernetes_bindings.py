"""Reads the ``kubernetes`` bindings of a hook's ``--config`` (reference: hooks.md section 2.3)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, NoReturn

from windlass.domain.hooks.bindings import DEFAULT_NAME, MAIN_QUEUE, Change, KubernetesBinding, field_text, label_text
from windlass.domain.hooks.refusals import described, refuse
from windlass.domain.text.documents import is_list, is_object

MAX_BINDINGS: Final = 100
"""``kubernetes`` bindings of one hook; each is at least one watch of the API server."""

_KEYS: Final = frozenset(
    {
        "name",
        "apiVersion",
        "kind",
        "executeHookOnEvent",
        "watchEvent",
        "executeHookOnSynchronization",
        "waitForSynchronization",
        "keepFullObjectsInMemory",
        "jqFilter",
        "allowFailure",
        "resynchronizationPeriod",
        "nameSelector",
        "labelSelector",
        "fieldSelector",
        "namespace",
        "includeSnapshotsFrom",
        "queue",
        "group",
    }
)
_LABEL_OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist")
_FIELD_OPERATORS: Final = ("=", "==", "Equals", "!=", "NotEquals")
_SELECTOR_PARTS: Final = ("matchLabels", "matchExpressions")
# What could end one term of a selector's text form and begin another.
_PLAIN: Final = re.compile(r"[^\s,()=!]+")
_PLAIN_OR_EMPTY: Final = re.compile(r"[^\s,()=!]*")


def parse_bindings(path: str, given: Any) -> tuple[KubernetesBinding, ...]:
    """Read the value of the key ``kubernetes``.

    ``resynchronizationPeriod`` is taken and means nothing, as in the protocol's own implementation.

    Raises:
        PermanentError: INIT_HOOKS_FAILED naming file, key and what is expected there.
    """
    if not is_list(given) or not given:
        refuse(path, "kubernetes", f"{described(given)}, expected a list of at least one binding")
    if len(given) > MAX_BINDINGS:
        refuse(path, "kubernetes", f"{len(given)} bindings, expected at most {MAX_BINDINGS}")
    bindings = tuple(_Reader(path, f"kubernetes[{index}]", item).binding() for index, item in enumerate(given))
    return tuple(_with_group(path, f"kubernetes[{index}]", one, bindings) for index, one in enumerate(bindings))


def _with_group(
    path: str, where: str, binding: KubernetesBinding, bindings: tuple[KubernetesBinding, ...]
) -> KubernetesBinding:
    """See that each named snapshot is of exactly one binding, and add those of the own group."""
    names = [one.name for one in bindings]
    for name in binding.snapshots_from:
        if names.count(name) != 1:
            refuse(path, f"{where}.includeSnapshotsFrom", f"{name!r} names {names.count(name)} bindings, expected one")
    grouped = [one.name for one in bindings if binding.group and one.group == binding.group]
    return replace(binding, snapshots_from=tuple(dict.fromkeys((*binding.snapshots_from, *grouped))))


class _Reader:
    """Reads one binding, field by field; ``where`` names it in errors."""

    def __init__(self, path: str, where: str, given: Any) -> None:
        self._path = path
        self._where = where
        self._given = self._object(given, "", tuple(_KEYS))

    def binding(self) -> KubernetesBinding:
        queue = self._text("queue", "").strip()
        names = self._names("nameSelector")
        field_selector = self._fields(names)
        namespaces, namespace_labels = self._namespace()
        return KubernetesBinding(
            name=self._text("name", DEFAULT_NAME) or DEFAULT_NAME,
            api_version=self._api_version(),
            kind=self._text("kind", None),
            changes=self._changes(),
            on_synchronization=self._flag("executeHookOnSynchronization", default=True),
            # Without a queue of its own nothing can go on while it waits.
            waited=self._flag("waitForSynchronization", default=True) or not queue,
            keep_objects=self._flag("keepFullObjectsInMemory", default=True),
            jq_filter=self._text("jqFilter", ""),
            allow_failure=self._flag("allowFailure", default=False),
            names=names,
            label_selector=self._labels(self._given.get("labelSelector"), "labelSelector"),
            field_selector=field_selector,
            namespaces=namespaces,
            namespace_labels=namespace_labels,
            snapshots_from=self._snapshots(),
            queue=queue or MAIN_QUEUE,
            group=self._text("group", ""),
        )

    # -- fields ------------------------------------------------------------------------------------------------------

    def _api_version(self) -> str:
        version = self._text("apiVersion", "")
        if version.count("/") > 1 or version.startswith("/") or version.endswith("/") or " " in version:
            self._refuse("apiVersion", f"{described(version)}, expected a version such as 'v1' or 'apps/v1'")
        return version

    def _changes(self) -> tuple[Change, ...]:
        self._text("resynchronizationPeriod", "")
        key = "executeHookOnEvent" if "executeHookOnEvent" in self._given else "watchEvent"
        if key not in self._given:
            return tuple(Change)
        given = self._list(self._given[key], key)
        if any(item not in set(Change) for item in given):
            self._refuse(key, f"expected some of {', '.join(Change)}")
        return tuple(change for change in Change if change in given)

    def _snapshots(self) -> tuple[str, ...]:
        if "includeSnapshotsFrom" not in self._given:
            return ()
        given = self._texts(self._given["includeSnapshotsFrom"], "includeSnapshotsFrom")
        if not given:
            self._refuse("includeSnapshotsFrom", "an empty list, expected names of kubernetes bindings of this hook")
        return given

    def _names(self, key: str) -> tuple[str, ...]:
        if key not in self._given:
            return ()
        selector = self._object(self._given[key], key, ("matchNames",))
        return self._match_names(selector, key)

    def _match_names(self, selector: Mapping[str, Any], key: str) -> tuple[str, ...]:
        if "matchNames" not in selector:
            self._refuse(key, "expected matchNames")
        names = self._texts(selector["matchNames"], f"{key}.matchNames")
        for name in names:
            self._plain(name, f"{key}.matchNames")
        return tuple(sorted(set(names)))

    def _namespace(self) -> tuple[tuple[str, ...], str]:
        if "namespace" not in self._given:
            return (), ""
        given = self._object(self._given["namespace"], "namespace", ("nameSelector", "labelSelector"))
        if not given:
            self._refuse("namespace", "an empty object, expected nameSelector or labelSelector")
        names: tuple[str, ...] = ()
        if "nameSelector" in given:
            key = "namespace.nameSelector"
            names = self._match_names(self._object(given["nameSelector"], key, ("matchNames",)), key)
        return names, self._labels(given.get("labelSelector"), "namespace.labelSelector")

    def _labels(self, given: Any, key: str) -> str:
        if given is None:
            return ""
        selector = self._object(given, key, _SELECTOR_PARTS)
        if not selector:
            self._refuse(key, f"an empty object, expected {' or '.join(_SELECTOR_PARTS)}")
        labels = selector.get("matchLabels", {})
        if not is_object(labels):
            self._refuse(f"{key}.matchLabels", f"{described(labels)}, expected an object")
        for name, value in labels.items():
            self._plain(name, f"{key}.matchLabels")
            if not isinstance(value, str) or not _PLAIN_OR_EMPTY.fullmatch(value):
                self._refuse(f"{key}.matchLabels.{name}", f"{described(value)}, expected a label's value as text")
        where = f"{key}.matchExpressions"
        for item in self._list(selector.get("matchExpressions", []), where):
            self._label_expression(item, where)
        return label_text(selector)

    def _label_expression(self, item: Any, where: str) -> None:
        expression = self._object(item, where, ("key", "operator", "values"))
        self._plain(expression.get("key"), f"{where}.key")
        operator = expression.get("operator")
        if operator not in _LABEL_OPERATORS:
            self._refuse(f"{where}.operator", f"{described(operator)}, expected one of {', '.join(_LABEL_OPERATORS)}")
        values = self._texts(expression.get("values") or [], f"{where}.values")
        if bool(values) is not (operator in {"In", "NotIn"}):
            self._refuse(f"{where}.values", f"expected {'none' if values else 'at least one'} with {operator}")
        for value in values:
            if not _PLAIN_OR_EMPTY.fullmatch(value):
                self._refuse(f"{where}.values", f"{described(value)}, expected a label's value")

    def _fields(self, names: tuple[str, ...]) -> str:
        if "fieldSelector" not in self._given:
            return ""
        key = "fieldSelector"
        selector = self._object(self._given[key], key, ("matchExpressions",))
        where = f"{key}.matchExpressions"
        given = self._list(selector.get("matchExpressions"), where)
        for item in given:
            expression = self._object(item, where, ("field", "operator", "value"))
            self._plain(expression.get("field"), f"{where}.field")
            operator, value = expression.get("operator"), expression.get("value")
            if operator not in _FIELD_OPERATORS:
                expected = ", ".join(_FIELD_OPERATORS)
                self._refuse(f"{where}.operator", f"{described(operator)}, expected one of {expected}")
            if not isinstance(value, str) or not _PLAIN_OR_EMPTY.fullmatch(value):
                self._refuse(f"{where}.value", f"{described(value)}, expected plain text")
            if names and expression["field"] == "metadata.name":
                self._refuse(where, "metadata.name is selected by nameSelector already")
        return field_text(given)

    # -- kinds of values -----------------------------------------------------------------------------------------------

    def _text(self, key: str, default: str | None) -> str:
        value = self._given.get(key, default)
        if not isinstance(value, str) or (default is None and not value.strip()):
            self._refuse(key, f"{described(value)}, expected text")
        return value

    def _flag(self, key: str, *, default: bool) -> bool:
        value = self._given.get(key, default)
        if not isinstance(value, bool):
            self._refuse(key, f"{described(value)}, expected true or false")
        return value

    def _list(self, value: Any, key: str) -> list[Any]:
        if not is_list(value):
            self._refuse(key, f"{described(value)}, expected a list")
        return value

    def _texts(self, value: Any, key: str) -> tuple[str, ...]:
        given = self._list(value, key)
        for item in given:
            if not isinstance(item, str):
                self._refuse(key, f"{described(item)}, expected text")
        return tuple(given)

    def _plain(self, value: Any, key: str) -> None:
        if not isinstance(value, str) or not _PLAIN.fullmatch(value):
            self._refuse(key, f"{described(value)}, expected plain text")

    def _object(self, value: Any, key: str, known: tuple[str, ...]) -> dict[str, Any]:
        if not is_object(value):
            self._refuse(key, f"{described(value)}, expected an object")
        for name in value:
            if name not in known:
                self._refuse(f"{key}.{name}" if key else name, f"unknown key, expected {', '.join(sorted(known))}")
        return value

    def _refuse(self, key: str, problem: str) -> NoReturn:
        refuse(self._path, f"{self._where}.{key}" if key else self._where, problem)
