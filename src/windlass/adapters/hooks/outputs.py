"""What a hook left in its files, read and checked for form; what it means is for others to say."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from windlass.adapters.hooks.runfiles import (
    CONFIG_VALUES_PATCH,
    ENABLED_REASON,
    ENABLED_RESULT,
    KUBERNETES_PATCH,
    METRICS,
    VALUES_PATCH,
    OutputError,
    RunOutputs,
)
from windlass.domain.errors import cap
from windlass.domain.hooks.metrics import MetricError, Sample, parse_samples
from windlass.domain.hooks.patch_operations import despite_failure
from windlass.domain.text.documents import DocumentError, is_list, is_object, parse_documents, parse_json_stream
from windlass.ports.hooks import HookOutput, Verdict

MAX_REASON: Final = 1024
"""Bytes of the reason a module gives for being disabled."""

type _Items = list[dict[str, Any]]


def collect_output(files: RunOutputs, *, duration: float) -> HookOutput:
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


def left_by_failure(files: RunOutputs) -> list[Mapping[str, Any]]:
    """Return the object operations that a failed run asked for nevertheless; none if they cannot be read."""
    try:
        return despite_failure(_operations(files))
    except OutputError:
        return []  # the run has failed already, and that is what is told


def read_verdict(files: RunOutputs) -> Verdict:
    """Read what a module's ``enabled`` script has written.

    Raises:
        OutputError: it is neither true nor false.
    """
    result = files.read(ENABLED_RESULT).strip()
    if result not in ("true", "false"):
        raise OutputError(ENABLED_RESULT, "expected true or false" if result else "is empty, expected true or false")
    return Verdict(enabled=result == "true", reason=cap(files.read(ENABLED_REASON).strip(), MAX_REASON))


def _values_patch(files: RunOutputs, variable: str) -> _Items:
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


def _operations(files: RunOutputs) -> _Items:
    documents = _parsed(files, KUBERNETES_PATCH, parse_documents)
    for place, document in enumerate(documents, start=1):
        if is_list(document):
            raise OutputError(
                KUBERNETES_PATCH, f"document {place}: a list, expected one operation per document after another"
            )
        if not is_object(document):
            raise OutputError(KUBERNETES_PATCH, f"document {place}: expected an object with operation")
    return documents


def _metrics(files: RunOutputs) -> tuple[Sample, ...]:
    try:
        return parse_samples(_parsed(files, METRICS, parse_json_stream))
    except MetricError as error:
        raise OutputError(METRICS, str(error)) from None


def _parsed(files: RunOutputs, variable: str, parse: Callable[[str], list[Any]]) -> list[Any]:
    try:
        return parse(files.read(variable))
    except DocumentError as error:
        raise OutputError(variable, f"malformed at {error.position}: {error.problem}") from None
