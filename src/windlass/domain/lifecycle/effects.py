"""What the beginning and the end of a step mean for conditions and for the phase that people read."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from windlass.domain.errors import Reason
from windlass.domain.ids import ABANDON_ANNOTATION
from windlass.domain.lifecycle.conditions import RUNTIME, Change, Conditions, Status, Type, cleared, false, find, true
from windlass.domain.lifecycle.policy import FREE, Cause, Control, Held
from windlass.domain.lifecycle.steps import Desired, Gate, Hold, Next, Progress, Step, disabled


class Phase(StrEnum):
    """Where in its life a package is, in one word; values are wire values."""

    PENDING = "Pending"
    INSTALLING = "Installing"
    UPGRADING = "Upgrading"
    RECONCILING = "Reconciling"
    RUNNING = "Running"
    SUSPENDED = "Suspended"
    DISABLED = "Disabled"
    PAUSED = "Paused"
    HELD = "Held"
    ROLLING_BACK = "RollingBack"
    ROLLED_BACK = "RolledBack"
    REMOVING = "Removing"
    REMOVED = "Removed"


def phase_of(
    desired: Desired,
    progress: Progress,
    *,
    version: str,
    paused: bool,
    hold: Hold | None = None,
    control: Control = FREE,
) -> Phase:
    """Return the phase; a failure alone does not change it, the `Ready` condition tells.

    Args:
        desired: what is brought about (`windlass.domain.lifecycle.policy.effective`).
        progress: what has been done.
        version: of the release that stands, empty if there never was one.
        paused: a person has requested that no step is begun.
        hold: why nothing is done, if so.
        control: what people and failures have said.
    """
    if progress.removing or (desired.exists and desired.deleting):
        return Phase.REMOVING
    if not desired.exists:
        return Phase.REMOVED
    if paused or hold is Hold.BREAKPOINT:
        return Phase.PAUSED
    if control.held is not None:
        return Phase.HELD
    if desired.suspended:
        return Phase.SUSPENDED
    if disabled(desired, progress):
        return Phase.DISABLED
    if control.target is not None:
        return Phase.ROLLED_BACK if hold is Hold.ROLLED_BACK else Phase.ROLLING_BACK
    if not version:
        return Phase.INSTALLING if desired.finalizer else Phase.PENDING
    if _wanted(desired, progress) != version:
        return Phase.UPGRADING
    return Phase.RUNNING if progress.run.complete else Phase.RECONCILING


def _wanted(desired: Desired, progress: Progress) -> str:
    """Return the exact version that is wanted; a range counts as what it was resolved to."""
    artifact = progress.artifact
    if artifact is not None and artifact.source == desired.source:
        return artifact.exact
    return desired.source.version if desired.source else ""


def on_begin(step: Next) -> tuple[Change, ...]:
    """Return what the start of a step says (reference: deckhouse.md sections 2.4 and 2.6)."""
    match step.step:
        case Step.DOWNLOAD | Step.ROLL_BACK:
            return (*cleared((*RUNTIME, Type.READY_ON_FILESYSTEM)), true(Type.REQUIREMENTS_MET, "Met"))
        case Step.STARTUP:
            return (false(Type.WAIT_CONVERGE, "Scheduled"),)
        case Step.UPGRADE_RELEASE:
            return (
                false(Type.HELM_APPLIED, "ManifestsApply", "the release is being applied"),
                false(Type.READY_IN_CLUSTER, "ManifestsApply", "the release is being applied"),
            )
        case _:
            return ()


def on_done(step: Next, progress: Progress, *, superseded: bool = False) -> tuple[Change, ...]:
    """Return what the success of a step says; ``progress`` is what is known after it."""
    changes: tuple[Change, ...] = ()
    match step.step:
        case Step.INSTALL:
            # Content that is known already is not downloaded again: the requirements are met all the same.
            changes = (true(Type.REQUIREMENTS_MET, "Met"), true(Type.READY_ON_FILESYSTEM, "Installed"))
        case Step.PLACE:
            changes = (true(Type.REQUIREMENTS_MET, "Met"),)
        case Step.LOAD:
            changes = (true(Type.READY_IN_RUNTIME, "Loaded"), true(Type.WAIT_CONVERGE, "WaitConverge"))
        case Step.APPLY_SETTINGS:
            changes = (true(Type.SETTINGS_VALID, "Valid"), true(Type.READY_IN_RUNTIME, "Loaded"))
        case Step.UPGRADE_RELEASE if not superseded:
            changes = (true(Type.HELM_APPLIED, "Applied"), true(Type.READY_IN_CLUSTER, "Ready"))
        case Step.STOP:
            changes = cleared(
                (Type.READY_IN_RUNTIME, Type.HOOKS_PROCESSED, Type.WAIT_CONVERGE, Type.IN_SYNC), reason="Stopped"
            )
        case Step.UNINSTALL_RELEASE:
            changes = cleared((Type.HELM_APPLIED, Type.READY_IN_CLUSTER), reason="Uninstalled")
        case _:
            pass
    if progress.run.complete:
        changes = (
            *changes,
            true(Type.READY_IN_RUNTIME, "Loaded"),
            true(Type.HOOKS_PROCESSED, "Processed"),
            false(Type.WAIT_CONVERGE, "Converged"),
        )
    return changes


def on_gate(gate: Gate) -> tuple[Change, ...]:
    """Return what the scheduler's say means for `RequirementsMet`."""
    return (
        (true(Type.REQUIREMENTS_MET, "Met"),)
        if gate.open
        else (false(Type.REQUIREMENTS_MET, gate.reason, gate.message),)
    )


_WAY_OUT: Final = f"or leave everything in place: set the annotation {ABANDON_ANNOTATION} to true"


def removal_hint(hint: str) -> str:
    """Return what to do about a failure of a removal; what is needed for it may be gone for good."""
    if ABANDON_ANNOTATION in hint:
        return hint
    return f"{hint}; {_WAY_OUT}" if hint else _WAY_OUT.removeprefix("or ")


def on_skip(step: Next, why: str) -> tuple[Change, ...]:
    """Return what it says that a person had a failed step passed over, after what its success would have said."""
    if step.step is not Step.UPGRADE_RELEASE:
        return ()
    return tuple(
        Change(type=type_, status=Status.TRUE, reason="Skipped", message=why)
        for type_ in (Type.HELM_APPLIED, Type.READY_IN_CLUSTER)
    )


def on_served(desired: Desired, conditions: Conditions) -> Change | None:
    """Return what a look at the package's repository changes: whether it serves the package's namespace.

    Readiness is not concerned: what runs is what the object asks for.
    """
    refused = desired.exists and not desired.served
    if refused is (find(conditions, Type.SOURCE_REFUSED).status is Status.TRUE):
        return None
    if not refused:
        return false(Type.SOURCE_REFUSED, "Served")
    repository = desired.source.repository if desired.source else ""
    return Change(
        type=Type.SOURCE_REFUSED,
        status=Status.TRUE,
        reason=Reason.REPOSITORY_NOT_ALLOWED,
        message=f"PackageRepository {repository!r} does not serve this namespace: what is installed stays as it is, "
        f"and no other version is taken from there; add the namespace to spec.allowedNamespaces of the "
        f"PackageRepository, or name another repository",
    )


def ready_override(
    desired: Desired,
    progress: Progress,
    *,
    hold: Hold | None,
    failure: tuple[str, str] | None,
    control: Control = FREE,
) -> tuple[str, str] | None:
    """Return reason and message when something else than a condition keeps the package from being ready.

    A rolled back package is not ready: what runs is good, but it is not what the object asks for, and who waits for the
    new version must not be told that it is there.

    Args:
        desired: what the object says.
        progress: what has been done.
        hold: why nothing is done, if so.
        failure: reason and message of a failed step, if one holds the lifecycle.
        control: what people and failures have said.
    """
    if progress.removing or desired.deleting:
        return ("Removing", failure[1] if failure else "the package is being removed")
    if control.held is not None:
        return ("Held", _held_text(control.held))
    if failure is not None:
        return failure
    if hold is Hold.PAUSED:
        return ("Paused", "an action holds the lifecycle; request `resume` to go on")
    if hold is Hold.BREAKPOINT:
        return ("Breakpoint", "a breakpoint holds the lifecycle; request `resume` to go on")
    if desired.suspended:
        return ("Suspended", "spec.suspend is true")
    if said := disabled(desired, progress):
        return (Reason.DISABLED_BY_SCRIPT, said.message)
    if control.target is not None:
        return ("RolledBack" if hold is Hold.ROLLED_BACK else "RollingBack", _rolled_back_text(control))
    content = progress.artifact.source if progress.artifact else None
    behind = (content, progress.settings) != (desired.source, desired.settings)
    if hold is None and (behind or not progress.run.complete):
        # The conditions may still tell of the run before: nobody may take it for the one that is under way.
        return ("Progressing", "the newest version and settings are being brought about")
    return None


def _held_text(held: Held) -> str:
    if held.cause is Cause.CANCELLED:
        return f"{held.step} was cancelled; request `retry` or `resume` to go on"
    if held.cause is Cause.WORKER_LOST:
        return f"{held.message}; request `retry`, or change the object"
    return (
        f"{held.step} failed ({held.reason}); request `retry`, `rollback` or `skip`, or change the object: "
        f"{held.message}"
    )


def _rolled_back_text(control: Control) -> str:
    target, wish = control.target, control.rejected
    if target is None or wish is None:
        return ""
    wanted = f"{wish.source.version} with these settings" if wish.source else "what the object asks for"
    where = f" at {wish.step}" if wish.step else ""
    return (
        f"{target.text} is kept; {wanted} was rejected{where} ({wish.reason}): change the object, or request "
        f"`retry`: {wish.message}"
    )
