from __future__ import annotations

from typing import Any

import pytest
from domain.lifecycle.lives import FIRST, ready, running, source, wanted

from windlass.domain.lifecycle.conditions import Status, Type, apply, initial, summarise
from windlass.domain.lifecycle.effects import Phase, on_begin, on_done, on_gate, phase_of, ready_override
from windlass.domain.lifecycle.steps import Desired, Gate, Hold, Next, Progress, Step

DELETING = wanted(deleting=True)


@pytest.mark.parametrize(
    ("desired", "progress", "version", "paused", "phase"),
    [
        (wanted(finalizer=False), Progress(), "", False, Phase.PENDING),
        (wanted(), Progress(owner="u1"), "", False, Phase.INSTALLING),
        (wanted(), running(), "1", False, Phase.RUNNING),
        (wanted(settings="s2"), ready(active=True), "1", False, Phase.RECONCILING),
        (wanted(source=source("2")), running(), "1", False, Phase.UPGRADING),
        (wanted(source=source("0")), running(), "1", False, Phase.UPGRADING),
        (wanted(suspended=True), running(), "1", False, Phase.SUSPENDED),
        (wanted(), running(), "1", True, Phase.PAUSED),
        (DELETING, running(), "1", True, Phase.REMOVING),
        (Desired(), running(removing=True), "1", False, Phase.REMOVING),
        (wanted(uid="u2"), running(removing=True), "1", False, Phase.REMOVING),
        (Desired(), Progress(), "", False, Phase.REMOVED),
    ],
)
def test_phases(desired: Desired, progress: Progress, version: str, paused: bool, phase: Phase) -> None:
    assert phase_of(desired, progress, version=version, paused=paused) is phase


def said(changes: Any) -> dict[str, tuple[str, str]]:
    return {change.type.value: (change.status.value, change.reason) for change in changes}


def test_a_new_version_knows_nothing_about_its_running() -> None:
    assert said(on_begin(Next(step=Step.DOWNLOAD))) == {
        "RequirementsMet": ("True", "Met"),
        "ReadyOnFilesystem": ("Unknown", "Pending"),
        "ReadyInRuntime": ("Unknown", "Pending"),
        "HooksProcessed": ("Unknown", "Pending"),
        "HelmApplied": ("Unknown", "Pending"),
        "ReadyInCluster": ("Unknown", "Pending"),
        "SettingsValid": ("Unknown", "Pending"),
        "WaitConverge": ("Unknown", "Pending"),
        "InSync": ("Unknown", "Pending"),
    }


def test_what_is_being_applied_is_not_ready() -> None:
    assert said(on_begin(Next(step=Step.UPGRADE_RELEASE))) == {
        "HelmApplied": ("False", "ManifestsApply"),
        "ReadyInCluster": ("False", "ManifestsApply"),
    }


def test_the_start_ends_the_wait() -> None:
    assert said(on_begin(Next(step=Step.STARTUP))) == {"WaitConverge": ("False", "Scheduled")}


@pytest.mark.parametrize(
    "step", [Step.ADOPT, Step.INSTALL, Step.LOAD, Step.APPLY_SETTINGS, Step.BEFORE_HELM, Step.STOP]
)
def test_steps_that_say_nothing_when_they_begin(step: Step) -> None:
    assert on_begin(Next(step=step)) == ()


@pytest.mark.parametrize(
    ("step", "progress", "expected"),
    [
        (Step.DOWNLOAD, ready(), {}),
        (
            Step.INSTALL,
            ready(),
            {"RequirementsMet": ("True", "Met"), "ReadyOnFilesystem": ("True", "Installed")},
        ),
        (
            Step.LOAD,
            ready(),
            {"ReadyInRuntime": ("True", "Loaded"), "WaitConverge": ("True", "WaitConverge")},
        ),
        (
            Step.APPLY_SETTINGS,
            ready(),
            {"SettingsValid": ("True", "Valid"), "ReadyInRuntime": ("True", "Loaded")},
        ),
        (
            Step.UPGRADE_RELEASE,
            ready(active=True),
            {"HelmApplied": ("True", "Applied"), "ReadyInCluster": ("True", "Ready")},
        ),
        (
            Step.AFTER_HELM,
            running(),
            {
                "ReadyInRuntime": ("True", "Loaded"),
                "HooksProcessed": ("True", "Processed"),
                "WaitConverge": ("False", "Converged"),
            },
        ),
        (
            Step.STOP,
            ready(),
            {
                "ReadyInRuntime": ("Unknown", "Stopped"),
                "HooksProcessed": ("Unknown", "Stopped"),
                "WaitConverge": ("Unknown", "Stopped"),
                "InSync": ("Unknown", "Stopped"),
            },
        ),
        (
            Step.UNINSTALL_RELEASE,
            ready(),
            {"HelmApplied": ("Unknown", "Uninstalled"), "ReadyInCluster": ("Unknown", "Uninstalled")},
        ),
    ],
)
def test_what_a_success_says(step: Step, progress: Progress, expected: dict[str, tuple[str, str]]) -> None:
    assert said(on_done(Next(step=step, hook=FIRST), progress)) == expected


def test_a_superseded_release_says_nothing() -> None:
    assert on_done(Next(step=Step.UPGRADE_RELEASE), ready(active=True), superseded=True) == ()


def test_the_gate_is_what_requirements_are_about() -> None:
    assert said(on_gate(Gate())) == {"RequirementsMet": ("True", "Met")}
    (change,) = on_gate(Gate(open=False, reason="DependencyNotEnabled", message="module dns is not enabled"))
    assert (change.status, change.reason) == (Status.FALSE, "DependencyNotEnabled")
    assert change.message == "module dns is not enabled"


FAILED = ("LoadFailed", "package.yaml:3")


@pytest.mark.parametrize(
    ("desired", "progress", "hold", "failure", "reason"),
    [
        (wanted(), running(), Hold.IDLE, None, None),
        (wanted(), running(), Hold.BACKOFF, FAILED, "LoadFailed"),
        (wanted(), running(), Hold.PAUSED, None, "Paused"),
        (wanted(), running(), Hold.PAUSED, FAILED, "LoadFailed"),
        (wanted(suspended=True), running(), Hold.SUSPENDED, None, "Suspended"),
        (DELETING, running(), None, None, "Removing"),
        (DELETING, running(), Hold.BACKOFF, FAILED, "Removing"),
        (Desired(), running(removing=True), None, None, "Removing"),
        # What stands in the conditions may still be true of the run before.
        (wanted(settings="s2"), ready(active=True), None, None, "Progressing"),
        (wanted(settings="s2"), running(), None, None, "Progressing"),
        (wanted(), running(), None, None, None),
        (wanted(), ready(), Hold.GATED, None, None),
    ],
)
def test_what_keeps_a_package_from_being_ready_besides_its_conditions(
    desired: Desired, progress: Progress, hold: Hold | None, failure: tuple[str, str] | None, reason: str | None
) -> None:
    found = ready_override(desired, progress, hold=hold, failure=failure)
    assert (found[0] if found else None) == reason


def test_a_removal_that_fails_says_why() -> None:
    assert ready_override(DELETING, running(), hold=Hold.BACKOFF, failure=FAILED) == ("Removing", FAILED[1])


@pytest.mark.parametrize(
    "steps",
    [
        [Step.DOWNLOAD, Step.INSTALL, Step.LOAD, Step.APPLY_SETTINGS, Step.STARTUP, Step.UPGRADE_RELEASE],
        # Rebuilt without a status, and adopted: the content is known and is not downloaded.
        [Step.INSTALL, Step.LOAD, Step.APPLY_SETTINGS, Step.UPGRADE_RELEASE],
    ],
    ids=["new", "known"],
)
def test_a_pass_that_ends_well_ends_ready(steps: list[Step]) -> None:
    conditions = initial(1.0)
    for step in steps:
        progress = running() if step is Step.UPGRADE_RELEASE else ready()
        for changes in (on_begin(Next(step=step)), on_done(Next(step=step), progress)):
            conditions = apply(conditions, changes, generation=1, now=2.0)
    assert summarise(conditions).status is Status.TRUE
    assert {c.type: c.status for c in conditions}[Type.WAIT_CONVERGE] is Status.FALSE
