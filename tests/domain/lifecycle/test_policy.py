"""What failures and actions lead to: the tables behind `windlass.domain.lifecycle.policy`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from domain.lifecycle.lives import artifact, ready, running, source, walk, wanted

from windlass.domain.errors import Category, Reason
from windlass.domain.lifecycle.policy import (
    BREAKABLE,
    FREE,
    GOOD_KEPT,
    UPGRADING,
    Cause,
    Control,
    Good,
    Held,
    Rejected,
    breakpoint_of,
    counts,
    decide,
    effective,
    good_revision,
    judged,
    last_good,
    passed_over,
    passes,
    reject,
    released,
    remember,
    renewed,
    settled,
    step_of,
    verdict,
    why_not_skipped,
)
from windlass.domain.lifecycle.steps import Desired, Hold, Next, OnFailure, Progress, Run, Step
from windlass.domain.lifecycle.transitions import remaining


def good(version: str = "1", settings: str = "s1", revision: int = 1) -> Good:
    return Good(revision=revision, artifact=artifact(version), settings=settings, at=float(revision))


GOOD = Control(good=(good(),))
BAD = Rejected(source=source("2"), settings="s1", step="UpgradeRelease", reason="ReadinessTimeout")
BACK = reject(GOOD, BAD, good())
FAILED = Held(step="UpgradeRelease", cause=Cause.FAILED, reason="ReadinessTimeout", message="0 of 1", at=7.0)
CANCELLED = Held(step="UpgradeRelease", cause=Cause.CANCELLED)


def upgrade(on_failure: OnFailure = OnFailure.ROLLBACK, **fields: Any) -> Desired:
    return wanted(**{"source": source("2"), "on_failure": on_failure, "attempts": 3, **fields})


# -- which failures lead to what ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("step", "reason", "category", "expected"),
    [
        (Step.UPGRADE_RELEASE, Reason.READINESS_TIMEOUT, Category.TRANSIENT, True),
        (Step.UPGRADE_RELEASE, Reason.APPLY_MANIFESTS_FAILED, Category.PERMANENT, True),
        (Step.BEFORE_HELM, Reason.BEFORE_HELM_HOOKS_FAILED, Category.TRANSIENT, True),
        (Step.AFTER_HELM, Reason.AFTER_HELM_HOOKS_FAILED, Category.TRANSIENT, True),
        (Step.STARTUP, Reason.STARTUP_HOOK_FAILED, Category.TRANSIENT, True),
        (Step.LOAD, Reason.LOAD_FAILED, Category.PERMANENT, True),
        (Step.APPLY_SETTINGS, Reason.VALIDATION_FAILED, Category.PERMANENT, True),
        (Step.DOWNLOAD, Reason.PACKAGE_NOT_FOUND, Category.TRANSIENT, False),
        (Step.INSTALL, Reason.CREATE_SYMLINK_FAILED, Category.TRANSIENT, False),
        (Step.ROLL_BACK, Reason.INTERNAL, Category.TRANSIENT, False),
        (Step.UNINSTALL_RELEASE, Reason.UNINSTALL_FAILED, Category.TRANSIENT, False),
        (Step.UPGRADE_RELEASE, Reason.API_UNAVAILABLE, Category.TRANSIENT, False),
        (Step.UPGRADE_RELEASE, Reason.INTERRUPTED, Category.INTERRUPTED, False),
        (Step.UPGRADE_RELEASE, Reason.STATE_LOST, Category.TRANSIENT, False),
        (Step.LOAD, Reason.DIGEST_MISMATCH, Category.PERMANENT, False),
        (Step.APPLY_SETTINGS, Reason.API_CONFLICT, Category.TRANSIENT, False),
    ],
)
def test_what_speaks_against_a_version(step: Step, reason: Reason, category: Category, expected: bool) -> None:
    assert counts(step, reason, category) is expected


@pytest.mark.parametrize(
    ("strikes", "permanent", "expected"),
    [(1, False, OnFailure.RETRY), (2, False, OnFailure.RETRY), (3, False, None), (4, False, None), (1, True, None)],
)
@pytest.mark.parametrize("policy", [OnFailure.ROLLBACK, OnFailure.HOLD])
def test_the_policy_decides_after_its_attempts(
    policy: OnFailure, strikes: int, permanent: bool, expected: OnFailure | None
) -> None:
    found = verdict(upgrade(policy), ready(), GOOD, Step.UPGRADE_RELEASE, strikes=strikes, permanent=permanent)
    assert found is (expected or policy)


@pytest.mark.parametrize(
    ("desired", "progress", "control", "step"),
    [
        (upgrade(), ready(), FREE, Step.UPGRADE_RELEASE),
        (upgrade(), ready(), BACK, Step.UPGRADE_RELEASE),
        (upgrade(source=source()), ready(), GOOD, Step.UPGRADE_RELEASE),
        (upgrade(), ready(run=Run(verify=True)), GOOD, Step.UPGRADE_RELEASE),
        (upgrade(), ready(removing=True), GOOD, Step.LOAD),
        (upgrade(deleting=True), ready(), GOOD, Step.LOAD),
        (upgrade(), ready(), GOOD, Step.DOWNLOAD),
        (upgrade(OnFailure.RETRY), ready(), GOOD, Step.UPGRADE_RELEASE),
    ],
    ids=["first", "way back", "what is good", "a look", "removal", "deletion", "download", "no policy"],
)
def test_what_is_always_tried_again(desired: Desired, progress: Progress, control: Control, step: Step) -> None:
    assert verdict(desired, progress, control, step, strikes=99, permanent=True) is OnFailure.RETRY


def test_only_settings_that_differ_are_an_upgrade_as_well() -> None:
    desired = upgrade(source=source(), settings="s2")
    assert verdict(desired, ready(), GOOD, Step.APPLY_SETTINGS, strikes=1, permanent=True) is OnFailure.ROLLBACK


def test_a_rollback_is_to_the_last_good_release_and_says_what_failed() -> None:
    control = Control(good=(good("0", revision=1), good("1", revision=2)))
    found = judged(upgrade(), ready(), control, FAILED, Step.UPGRADE_RELEASE, strikes=3, permanent=False)
    assert found.target == good("1", revision=2)
    assert found.rejected == replace(BAD, message="0 of 1", at=7.0)


def test_a_hold_says_what_failed() -> None:
    found = judged(upgrade(OnFailure.HOLD), ready(), GOOD, FAILED, Step.UPGRADE_RELEASE, strikes=3, permanent=False)
    assert found == replace(GOOD, held=FAILED)


# -- which wish, which step --------------------------------------------------------------------------------------------


def test_what_is_rejected_is_not_what_is_brought_about() -> None:
    found = effective(upgrade(generation=9), BACK)
    assert (found.source, found.settings, found.pinned, found.generation) == (source("1"), "s1", artifact("1"), 9)
    assert effective(Desired(), BACK) == Desired()
    assert effective(upgrade(), GOOD) == upgrade()


def test_the_way_back_is_the_ordinary_pipeline_with_pinned_content() -> None:
    failed = ready(artifact=artifact("2"), installed="d2", loaded=None, settings_for="", released=artifact("2"))
    desired = effective(upgrade(), BACK)
    labels, _, progress, rest = walk(desired, failed)
    assert labels == [
        "RollBack",
        "Install",
        "Load",
        "ApplySettings",
        "Startup hooks/first",
        "BeforeHelm hooks/first",
        "BeforeHelm hooks/second",
        "UpgradeRelease",
        "AfterHelm hooks/second",
        "AfterHelm hooks/first",
    ]
    assert (progress.artifact, progress.released, rest.hold) == (artifact("1"), artifact("1"), Hold.IDLE)
    assert decide(upgrade(), progress, BACK).hold is Hold.ROLLED_BACK
    assert [step.label for step in remaining(desired, failed)][:3] == ["RollBack", "Install", "Load"]


def test_settings_alone_are_gone_back_from_without_another_installation() -> None:
    control = reject(GOOD, Rejected(source=source(), settings="s2"), good())
    labels, _, _, _ = walk(effective(wanted(settings="s2"), control), running(settings="s2", settings_for=""))
    assert labels == ["ApplySettings", "UpgradeRelease"], "the hooks' run with them is known"


NEXT = ready(active=True, run=Run(before=2))


@pytest.mark.parametrize(
    ("control", "hold", "blocked"),
    [
        (replace(FREE, held=FAILED), Hold.HELD, "UpgradeRelease"),
        (replace(FREE, held=CANCELLED), Hold.HELD, "UpgradeRelease"),
        (replace(FREE, breakpoints=(Step.UPGRADE_RELEASE,)), Hold.BREAKPOINT, "UpgradeRelease"),
        (replace(FREE, held=FAILED, breakpoints=(Step.UPGRADE_RELEASE,)), Hold.HELD, "UpgradeRelease"),
        (replace(FREE, breakpoints=(Step.LOAD,)), None, ""),
    ],
)
def test_what_keeps_a_step_from_being_begun(control: Control, hold: Hold | None, blocked: str) -> None:
    found = decide(wanted(), NEXT, control)
    assert (found.hold, found.blocked) == (hold, blocked)


@pytest.mark.parametrize(
    ("desired", "progress"),
    [
        (wanted(uid="u2"), running()),
        (Desired(), ready(released=artifact())),
        (wanted(deleting=True), ready(removing=True, loaded=None)),
        (wanted(deleting=True), ready(removing=True, loaded=None, cleaned=True)),
    ],
    ids=["Adopt", "CleanUp, freed by hand", "CleanUp", "ReleaseFinalizer"],
)
def test_the_ends_of_a_life_are_held_up_by_nobody(desired: Desired, progress: Progress) -> None:
    every = replace(FREE, held=FAILED, breakpoints=tuple(Step))
    assert decide(desired, progress, every).step is not Step.WAIT


def test_a_pause_is_seen_before_a_hold_and_a_breakpoint_for_loading_is_none_in_a_removal() -> None:
    assert decide(wanted(), NEXT, replace(FREE, held=FAILED), paused=True).hold is Hold.PAUSED
    going = running(removing=True, loaded=None)
    before_load = replace(FREE, breakpoints=(Step.LOAD, Step.UNINSTALL_RELEASE))
    assert decide(wanted(deleting=True), going, before_load).step is Step.LOAD


# -- what ends what ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("after", "kept"),
    [
        (upgrade(), True),
        (upgrade(generation=5, attempts=1), True),
        (upgrade(suspended=True), True),
        (upgrade(source=source("3")), False),
        (upgrade(source=source("1")), False),
        (upgrade(settings="s2"), False),
        (Desired(), False),
    ],
)
def test_a_rejection_lasts_until_something_else_is_asked_for(after: Desired, kept: bool) -> None:
    found = renewed(BACK, upgrade(), after)
    assert (found == BACK) is kept
    if not kept:
        assert found == GOOD, "what is good stays known"


@pytest.mark.parametrize(
    ("after", "kept"),
    [
        (upgrade(), True),
        (upgrade(generation=5), True),
        (upgrade(settings="s2"), False),
        (upgrade(source=source("3")), False),
        (upgrade(suspended=True), False),
        (upgrade(deleting=True), False),
        (upgrade(OnFailure.HOLD), False),
    ],
)
def test_a_hold_lasts_until_the_object_says_something_else(after: Desired, kept: bool) -> None:
    assert (renewed(replace(GOOD, held=FAILED), upgrade(), after).held is not None) is kept


def test_good_releases_are_remembered_newest_last_and_once() -> None:
    control = FREE
    for number in range(1, GOOD_KEPT + 4):
        control = remember(control, good(str(number), revision=number))
    assert [one.revision for one in control.good] == list(range(4, GOOD_KEPT + 4))
    control = remember(control, good("5", revision=99))
    assert [one.revision for one in control.good][-2:] == [GOOD_KEPT + 3, 99]
    assert len(control.good) == GOOD_KEPT
    assert good_revision(control, 5) is None
    assert remember(control, replace(good("5", revision=99), at=500.0)) == control, "the same release stays as it was"


def test_what_is_kept_instead_takes_the_number_of_the_release_it_became() -> None:
    found = remember(BACK, good("1", revision=3))
    assert found.target == found.good[-1] == good("1", revision=3)
    assert remember(BACK, good("7", revision=4)).target == good()
    assert released(found) == Control(good=found.good)


def test_the_last_good_release_is_another_than_the_wish() -> None:
    control = Control(good=(good("1", revision=1), good("2", revision=2)))
    assert last_good(control, wanted(source=source("3"))) == good("2", revision=2)
    assert last_good(control, wanted(source=source("2"))) == good("1", revision=1)
    assert last_good(GOOD, wanted()) is None


# -- actions -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "step"),
    [
        ("run", Step.UPGRADE_RELEASE),
        ("beforeHelm", Step.BEFORE_HELM),
        (" BEFOREHELM ", Step.BEFORE_HELM),
        ("UpgradeRelease", Step.UPGRADE_RELEASE),
        ("settings", Step.APPLY_SETTINGS),
        ("lunch", None),
        ("", None),
        ("ReleaseFinalizer", None),
        ("Wait", None),
    ],
)
def test_steps_are_named_as_people_name_them(name: str, step: Step | None) -> None:
    assert breakpoint_of(name) is step


def test_every_breakpoint_is_known_by_its_own_name_too() -> None:
    assert {breakpoint_of(step.value) for step in BREAKABLE.values()} == set(BREAKABLE.values())


@pytest.mark.parametrize(
    ("step", "reason", "held", "may"),
    [
        (Step.BEFORE_HELM, "BeforeHelmHooksFailed", None, True),
        (Step.BEFORE_HELM, "", CANCELLED, True),
        (Step.BEFORE_DELETE_HELM, "BeforeDeleteHelmHooksFailed", None, True),
        (Step.UPGRADE_RELEASE, "ReadinessTimeout", None, True),
        (Step.UPGRADE_RELEASE, "ResourceFailed", None, True),
        (Step.UPGRADE_RELEASE, "ApplyManifestsFailed", None, False),
        (Step.UPGRADE_RELEASE, "ApplyManifestsFailed", FAILED, True),
        (Step.UPGRADE_RELEASE, "ReadinessTimeout", CANCELLED, False),
        (Step.LOAD, "LoadFailed", FAILED, False),
        (Step.APPLY_SETTINGS, "ValidationFailed", FAILED, False),
        (Step.UNINSTALL_RELEASE, "UninstallFailed", None, False),
        (Step.RELEASE_FINALIZER, "", None, False),
    ],
)
def test_what_may_be_skipped(step: Step, reason: str, held: Held | None, may: bool) -> None:
    assert (why_not_skipped(step, reason, held) == "") is may


HELD_AT_2 = ready(artifact=artifact("2"))


def test_leave_to_skip_is_for_one_step_of_one_content() -> None:
    control = passed_over(replace(GOOD, held=FAILED), HELD_AT_2, FAILED, "ada accepted it")
    assert control.held is None
    step = Next(step=Step.UPGRADE_RELEASE)
    found = passes(control, HELD_AT_2, step)
    assert found is not None
    assert found.why == "ada accepted it"
    assert passes(control, HELD_AT_2, Next(step=Step.LOAD)) is None
    assert passes(control, ready(artifact=artifact("3")), step) is None
    assert passes(replace(GOOD, held=FAILED), HELD_AT_2, step) is None


def test_leave_to_skip_ends_with_the_run_and_with_another_wish() -> None:
    control = passed_over(GOOD, HELD_AT_2, FAILED, "")
    under_way = replace(HELD_AT_2, run=Run(complete=False))
    assert settled(control, under_way) == control
    assert settled(control, replace(HELD_AT_2, run=Run(complete=True))) == GOOD
    assert renewed(control, upgrade(), upgrade(generation=9)) == control
    assert renewed(control, upgrade(), upgrade(settings="s2")) == GOOD
    assert released(control) == GOOD
    assert reject(control, BAD, good()).passing is None


@pytest.mark.parametrize(
    ("label", "step"),
    [("UpgradeRelease", Step.UPGRADE_RELEASE), ("BeforeHelm hooks/with space", Step.BEFORE_HELM)],
)
def test_a_label_names_its_step(label: str, step: Step) -> None:
    assert step_of(label) is step


def test_the_sets_of_steps_name_real_steps_of_the_pipeline() -> None:
    assert set(BREAKABLE.values()) >= UPGRADING
    assert Next(step=Step.ROLL_BACK).label == "RollBack"
