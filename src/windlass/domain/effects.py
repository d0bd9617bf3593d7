"""What the beginning and the end of a step mean for conditions and for the phase that people read."""

from __future__ import annotations

from enum import StrEnum

from windlass.domain.conditions import RUNTIME, Change, Type, cleared, false, true
from windlass.domain.lifecycle import Desired, Gate, Hold, Next, Progress, Step


class Phase(StrEnum):
    """Where in its life a package is, in one word; values are wire values."""

    PENDING = "Pending"
    INSTALLING = "Installing"
    UPGRADING = "Upgrading"
    RECONCILING = "Reconciling"
    RUNNING = "Running"
    SUSPENDED = "Suspended"
    PAUSED = "Paused"
    REMOVING = "Removing"
    REMOVED = "Removed"


def phase_of(desired: Desired, progress: Progress, *, version: str, paused: bool) -> Phase:
    """Return the phase; a failure does not change it, the `Ready` condition tells.

    ``version`` is that of the release that stands, empty if there never was one.
    """
    if progress.removing or (desired.exists and desired.deleting):
        return Phase.REMOVING
    if not desired.exists:
        return Phase.REMOVED
    if paused:
        return Phase.PAUSED
    if desired.suspended:
        return Phase.SUSPENDED
    if not version:
        return Phase.INSTALLING if desired.finalizer else Phase.PENDING
    if desired.source is None or desired.source.version != version:
        return Phase.UPGRADING
    return Phase.RUNNING if progress.run.complete else Phase.RECONCILING


def on_begin(step: Next) -> tuple[Change, ...]:
    """Return what the start of a step says (reference: deckhouse.md sections 2.4 and 2.6)."""
    match step.step:
        case Step.DOWNLOAD:
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
        case Step.LOAD:
            changes = (true(Type.READY_IN_RUNTIME, "Loaded"), true(Type.WAIT_CONVERGE, "WaitConverge"))
        case Step.APPLY_SETTINGS:
            changes = (true(Type.SETTINGS_VALID, "Valid"), true(Type.READY_IN_RUNTIME, "Loaded"))
        case Step.UPGRADE_RELEASE if not superseded:
            changes = (true(Type.HELM_APPLIED, "Applied"), true(Type.READY_IN_CLUSTER, "Ready"))
        case Step.STOP:
            changes = cleared((Type.READY_IN_RUNTIME, Type.HOOKS_PROCESSED, Type.WAIT_CONVERGE), reason="Stopped")
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


def ready_override(
    desired: Desired, progress: Progress, *, hold: Hold | None, failure: tuple[str, str] | None
) -> tuple[str, str] | None:
    """Return reason and message when something else than a condition keeps the package from being ready.

    Args:
        desired: what the object says.
        progress: what has been done.
        hold: why nothing is done, if so.
        failure: reason and message of a failed step, if one holds the lifecycle.
    """
    if progress.removing or desired.deleting:
        return ("Removing", failure[1] if failure else "the package is being removed")
    if failure is not None:
        return failure
    if hold is Hold.PAUSED:
        return ("Paused", "an order holds the lifecycle; give the order `resume` to go on")
    if desired.suspended:
        return ("Suspended", "spec.suspend is true")
    if hold is None and not progress.run.complete:
        # The conditions may still tell of the run before: nobody may take it for the one that is under way.
        return ("Progressing", "the newest version and settings are being brought about")
    return None
