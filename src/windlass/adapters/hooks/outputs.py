"""What a hook left in its files, read and checked for form; what it means is for others to say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from windlass.adapters.hooks.runfiles import (
    CONFIG_VALUES_PATCH,
    KUBERNETES_PATCH,
    METRICS,
    VALUES_PATCH,
    OutputError,
    RunFiles,
)
from windlass.domain.documents import DocumentError, is_list, is_object, parse_documents, parse_json_stream
from windlass.ports.hooks import HookOutput

METRIC_ACTIONS: Final = frozenset({"add", "set", "observe", "expire"})

type _Items = list[dict[str, Any]]


def collect_output(files: RunFiles, *, duration: float) -> HookOutput:
    """Read all output files of a run that ended well; ``duration`` is in seconds.

    Raises:
        OutputError: names the file and the place in it.
    """
    return HookOutput(
        values_patch=_values_patch(files, VALUES_PATCH),
        config_values_patch=_values_patch(files, CONFIG_VALUES_PATCH),
        operations=_operations(files),
        metrics=_metrics(files),
        duration=duration,
    )


def _values_patch(files: RunFiles, variable: str) -> _Items:
    """Lists of operations and single operations follow one another (reference: hooks.md section 8, Values)."""
    items: list[Any] = []
    for document in _parsed(files, variable, parse_json_stream):
        items.extend(document if is_list(document) else [document])
    for place, item in enumerate(items, start=1):
        if not is_object(item):
            raise OutputError(variable, f"item {place}: expected an object with op and path")
        for key in ("op", "path"):
            if not isinstance(item.get(key), str):
                raise OutputError(variable, f"item {place}: {key}: expected text")
    return items


def _operations(files: RunFiles) -> _Items:
    documents = _parsed(files, KUBERNETES_PATCH, parse_documents)
    for place, document in enumerate(documents, start=1):
        if is_list(document):
            raise OutputError(
                KUBERNETES_PATCH, f"document {place}: a list, expected one operation per document after another"
            )
        if not is_object(document):
            raise OutputError(KUBERNETES_PATCH, f"document {place}: expected an object with operation")
    return documents


def _metrics(files: RunFiles) -> _Items:
    metrics = _parsed(files, METRICS, parse_json_stream)
    for place, metric in enumerate(metrics, start=1):
        problem = _metric_problem(metric)
        if problem:
            raise OutputError(METRICS, f"item {place}: {problem}")
    return metrics


def _metric_problem(metric: Any) -> str:
    if not is_object(metric):
        return "expected an object with name and action"
    if "add" in metric and "set" in metric:
        return "add and set exclude each other"
    shortcut = next((key for key in ("add", "set") if key in metric), None)
    action = shortcut or metric.get("action")
    if not isinstance(action, str):
        return "action: expected text"
    if action == "expire" and metric.get("group"):
        return ""
    if not isinstance(metric.get("name"), str) and action != "expire":
        return "name: expected text"
    if action in METRIC_ACTIONS - {"expire"} and not _is_number(metric.get(shortcut or "value")):
        return f"{shortcut or 'value'}: expected a number"
    buckets = metric.get("buckets")
    if action == "observe" and not (is_list(buckets) and buckets and all(map(_is_number, buckets))):
        return "buckets: expected a list of numbers"
    labels = metric.get("labels", {})
    if not is_object(labels) or not all(isinstance(label, str) for label in labels.values()):
        return "labels: expected an object with text values"
    return ""


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _parsed(files: RunFiles, variable: str, parse: Callable[[str], list[Any]]) -> list[Any]:
    try:
        return parse(files.read(variable))
    except DocumentError as error:
        # The parser's own words may quote what stands there.
        raise OutputError(variable, f"malformed at {error.position}") from None
