"""Conditions of a package: types, what each step's end means for them, and the `Ready` summary.

Types and reasons follow reference deckhouse.md section 2.6; `Ready` is a summary and is never set by a step.
A condition's transition time moves only when its status does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from windlass.domain.errors import Reason


class Type(StrEnum):
    """Condition types, in the order of the pipeline; values are wire values."""

    READY = "Ready"
    REQUIREMENTS_MET = "RequirementsMet"
    READY_ON_FILESYSTEM = "ReadyOnFilesystem"
    READY_IN_RUNTIME = "ReadyInRuntime"
    SETTINGS_VALID = "SettingsValid"
    WAIT_CONVERGE = "WaitConverge"
    HOOKS_PROCESSED = "HooksProcessed"
    HELM_APPLIED = "HelmApplied"
    READY_IN_CLUSTER = "ReadyInCluster"
    IN_SYNC = "InSync"
    QUARANTINED = "Quarantined"
    SOURCE_REFUSED = "SourceRefused"


class Status(StrEnum):
    """The three values a Kubernetes condition can have."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


@dataclass(frozen=True, kw_only=True)
class Condition:
    """One condition; ``since`` is the time of its last transition in seconds since the epoch."""

    type: Type
    status: Status = Status.UNKNOWN
    reason: str = "Pending"
    message: str = ""
    since: float = 0.0
    observed_generation: int = 0


type Conditions = tuple[Condition, ...]

RUNTIME: Final = (
    Type.READY_IN_RUNTIME,
    Type.HOOKS_PROCESSED,
    Type.HELM_APPLIED,
    Type.READY_IN_CLUSTER,
    Type.SETTINGS_VALID,
    Type.WAIT_CONVERGE,
    Type.IN_SYNC,
)
"""What a new version knows nothing about yet."""

EXCEPTIONAL: Final = frozenset({Type.QUARANTINED, Type.SOURCE_REFUSED})
"""What is absent until there is something to say."""

_PLACES: Final = {type_: place for place, type_ in enumerate(Type)}

REQUIRED: Final = (
    Type.REQUIREMENTS_MET,
    Type.READY_ON_FILESYSTEM,
    Type.READY_IN_RUNTIME,
    Type.SETTINGS_VALID,
    Type.HOOKS_PROCESSED,
    Type.HELM_APPLIED,
    Type.READY_IN_CLUSTER,
)
"""What must be True for `Ready`; the first that is False explains it."""


@dataclass(frozen=True, kw_only=True)
class Change:
    """A new status for one condition type."""

    type: Type
    status: Status
    reason: str
    message: str = ""


def initial(now: float) -> Conditions:
    """Return every type but the exceptional ones as Unknown, as a package that was just seen has it."""
    return tuple(Condition(type=type_, since=now) for type_ in Type if type_ not in EXCEPTIONAL)


def apply(conditions: Conditions, changes: Sequence[Change], *, generation: int, now: float) -> Conditions:
    """Return ``conditions`` with ``changes`` applied; the transition time moves only with the status."""
    wanted = {change.type: change for change in changes}
    result: list[Condition] = []
    # What an older version carried over lacks the types that came later.
    present = {condition.type for condition in conditions}
    later = tuple(
        Condition(type=type_, since=now)
        for type_ in Type
        if type_ not in present and (type_ in wanted or type_ not in EXCEPTIONAL)
    )
    for condition in (*conditions, *later):
        change = wanted.get(condition.type)
        if change is None:
            result.append(condition)
            continue
        result.append(
            replace(
                condition,
                status=change.status,
                reason=change.reason,
                message=change.message,
                observed_generation=generation,
                since=condition.since if condition.status is change.status else now,
            )
        )
    return tuple(sorted(result, key=lambda condition: _PLACES[condition.type]))


def find(conditions: Conditions, type_: Type) -> Condition:
    """Return the condition of one type; Unknown if it is not in the list."""
    return next((c for c in conditions if c.type is type_), Condition(type=type_))


def cleared(types: Sequence[Type], *, reason: str = "Pending") -> tuple[Change, ...]:
    """Return changes that set ``types`` to Unknown."""
    return tuple(Change(type=type_, status=Status.UNKNOWN, reason=reason) for type_ in types)


def true(type_: Type, reason: str) -> Change:
    """Return the change that sets one type to True."""
    return Change(type=type_, status=Status.TRUE, reason=reason)


def false(type_: Type, reason: str, message: str = "") -> Change:
    """Return the change that sets one type to False."""
    return Change(type=type_, status=Status.FALSE, reason=reason, message=message)


_FILESYSTEM_REASONS: Final = frozenset(
    {
        Reason.DOWNLOAD_FAILED,
        Reason.REPOSITORY_NOT_FOUND,
        Reason.REPOSITORY_NOT_ALLOWED,
        Reason.HOST_NOT_ALLOWED,
        Reason.PACKAGE_NOT_FOUND,
        Reason.DIGEST_MISMATCH,
        Reason.ARCHIVE_REJECTED,
        Reason.CREATE_PACKAGE_DIR_FAILED,
        Reason.REMOVE_OLD_VERSION_FAILED,
        Reason.CREATE_SYMLINK_FAILED,
        Reason.CHECK_VERSION_FAILED,
    }
)


def of_failure(step_type: Type | None, reason: Reason, message: str) -> tuple[Change, ...]:
    """Return what a failure means for the conditions.

    Args:
        step_type: the condition that the failed step works for, None for steps that have none of their own.
        reason: why it failed.
        message: the failure's text.
    """
    if reason in _FILESYSTEM_REASONS:
        return (false(Type.READY_ON_FILESYSTEM, reason, message),)
    match step_type:
        case Type.READY_IN_RUNTIME if reason is Reason.INIT_HOOKS_FAILED:
            return (
                false(Type.READY_IN_RUNTIME, Reason.LOAD_FAILED, message),
                false(Type.HOOKS_PROCESSED, reason, message),
            )
        case Type.SETTINGS_VALID:
            return (
                false(Type.READY_IN_RUNTIME, Reason.APPLY_SETTINGS, message),
                false(Type.SETTINGS_VALID, reason, message),
            )
        case Type.READY_IN_CLUSTER if reason in {Reason.READINESS_TIMEOUT, Reason.RESOURCE_FAILED}:
            return (
                true(Type.HELM_APPLIED, "Applied"),
                false(Type.READY_IN_CLUSTER, reason, message),
            )
        case Type.READY_IN_CLUSTER:
            return (
                false(Type.HELM_APPLIED, reason, message),
                false(Type.READY_IN_CLUSTER, reason, message),
            )
        case None:
            return ()
        case _:
            return (false(step_type, reason, message),)


def summarise(conditions: Conditions, *, override: tuple[str, str] | None = None) -> Change:
    """Return the `Ready` condition that follows from the others.

    Args:
        conditions: all conditions.
        override: reason and message when something else than a condition keeps the package from being ready
            (Suspended, Paused, Removing, or a failure of a step without a condition).
    """
    if override is not None:
        return false(Type.READY, override[0], override[1])
    required = [find(conditions, type_) for type_ in REQUIRED]
    for condition in required:
        if condition.status is Status.FALSE:
            return false(Type.READY, condition.reason, condition.message)
    if all(condition.status is Status.TRUE for condition in required):
        return true(Type.READY, "Ready")
    waiting = next(condition for condition in required if condition.status is not Status.TRUE)
    return false(Type.READY, "Progressing", f"waiting for {waiting.type.value}")
