from __future__ import annotations

from dataclasses import replace

import pytest
from domain.lifecycle.lives import FIRST, HOOKS, artifact, loaded, ready, running, source, walk, wanted
from hypothesis import given
from hypothesis import strategies as st

from windlass.domain.lifecycle.steps import (
    Desired,
    Gate,
    Hold,
    Next,
    Progress,
    Run,
    Scope,
    Step,
    Teardown,
    completion_mark,
    next_step,
)
from windlass.domain.lifecycle.transitions import Result, begin, begin_removal, done, remaining
from windlass.domain.packages.model import Binding

RELEASE = Next(step=Step.UPGRADE_RELEASE, scope=Scope.SCHEDULE)
AFTER = Next(step=Step.AFTER_HELM, scope=Scope.SCHEDULE, hook=FIRST)
DELETING = wanted(deleting=True)


def released(progress: Progress, **result: object) -> Progress:
    return done(RELEASE, wanted(), begin(RELEASE, progress), Result(**{"values": "v-s1", **result}))  # type: ignore[arg-type]  # fields by name


# -- what starting a step commits to ---------------------------------------------------------------------------------


def test_a_release_may_exist_from_the_moment_it_is_begun() -> None:
    progress = begin(RELEASE, ready(active=True, completed="d1/s0"))
    assert (progress.released, progress.completed) == (artifact(), "")


def test_a_verifying_release_keeps_the_mark_of_the_completed_run() -> None:
    assert begin(RELEASE, ready(active=True, completed="d1/s1", run=Run(verify=True))).completed == "d1/s1"


@pytest.mark.parametrize("step", [Step.STARTUP, Step.BEFORE_HELM])
def test_hooks_that_are_begun_end_the_completed_run(step: Step) -> None:
    assert begin(Next(step=step, hook=FIRST), running()).completed == ""


@pytest.mark.parametrize("step", [Step.BEFORE_DELETE_HELM, Step.UNINSTALL_RELEASE, Step.AFTER_DELETE_HELM])
def test_a_teardown_that_is_begun_has_stopped_the_package(step: Step) -> None:
    progress = begin(Next(step=step), running())
    assert (progress.active, progress.startup, progress.completed) == (False, 0, "")
    assert progress.released == artifact()


def test_a_download_that_is_begun_makes_a_return_to_the_content_in_hand_install_it_again() -> None:
    progress = begin(Next(step=Step.DOWNLOAD), running())
    assert progress.artifact == artifact()
    assert next_step(wanted(), progress).step is Step.INSTALL


def test_settings_that_are_begun_are_applied_again_even_if_the_ones_before_come_back() -> None:
    progress = begin(Next(step=Step.APPLY_SETTINGS), running())
    assert next_step(wanted(), progress).step is Step.APPLY_SETTINGS


@pytest.mark.parametrize("step", [Step.INSTALL, Step.LOAD, Step.AFTER_HELM])
def test_other_steps_commit_to_nothing(step: Step) -> None:
    assert begin(Next(step=step), running()) == running()


# -- removal begins --------------------------------------------------------------------------------------------------


def test_removal_begins_with_the_deletion_of_this_very_object() -> None:
    progress = begin_removal(DELETING, running(teardown=Teardown(before=1)))
    assert (progress.removing, progress.active, progress.teardown) == (True, False, Teardown())


@pytest.mark.parametrize(
    "desired",
    [
        wanted(),
        Desired(),
        wanted(uid="u2", deleting=True),
        wanted(deleting=True, finalizer=False),
    ],
    ids=["alive", "gone", "another", "finalizer taken"],
)
def test_nothing_else_begins_a_removal(desired: Desired) -> None:
    assert begin_removal(desired, running()) == running()


def test_a_removal_is_begun_once() -> None:
    progress = replace(begin_removal(DELETING, running()), teardown=Teardown(before=1))
    assert begin_removal(DELETING, progress) == progress


def test_an_owner_that_adopts_a_deleted_object_removes_it_and_never_starts_over() -> None:
    adopted = done(Next(step=Step.ADOPT), DELETING, Progress(released=artifact()), Result())
    assert adopted.removing
    halfway = replace(adopted, teardown=Teardown(before=1))
    assert begin_removal(DELETING, halfway) == halfway


# -- what results teach ----------------------------------------------------------------------------------------------


def test_adoption_knows_the_release_of_an_earlier_life_and_nothing_else_of_it() -> None:
    progress = done(Next(step=Step.ADOPT), wanted(uid="u2"), running(), Result())
    assert progress == Progress(owner="u2", artifact=artifact(), released=artifact())


def test_adoption_by_a_rebuilt_lifecycle_keeps_the_mark() -> None:
    restored = Progress(artifact=artifact(), released=artifact(), completed="d1/s1")
    assert done(Next(step=Step.ADOPT), wanted(), restored, Result()).completed == "d1/s1"


@pytest.mark.parametrize(("completed", "kept"), [("d1/s1", "d1/s1"), ("d0/s1", "")])
def test_installing_other_content_forgets_the_completed_run(completed: str, kept: str) -> None:
    progress = done(Next(step=Step.INSTALL), wanted(), running(completed=completed), Result())
    assert (progress.installed, progress.completed) == ("d1", kept)
    assert (progress.loaded, progress.active, progress.run) == (None, False, Run())


def test_settings_applied_while_running_make_a_run_of_their_own() -> None:
    progress = done(Next(step=Step.APPLY_SETTINGS), wanted(), running(), Result(settings="s2", values="v-s2"))
    assert progress.run == Run(trigger=Scope.SETTINGS)
    assert (progress.settings, progress.settings_for, progress.values, progress.active) == ("s2", "d1", "v-s2", True)


def test_settings_applied_before_the_start_belong_to_the_start() -> None:
    progress = done(Next(step=Step.APPLY_SETTINGS), wanted(), ready(), Result(settings="s2", values="v-s2"))
    assert progress.run == Run(trigger=Scope.SCHEDULE)
    assert not progress.active


def test_settings_of_the_completed_run_of_a_rebuilt_life_only_verify() -> None:
    progress = done(Next(step=Step.APPLY_SETTINGS), wanted(), ready(completed="d1/s1"), Result(settings="s1"))
    assert (progress.run.verify, progress.active) == (True, True)


def test_the_package_is_active_after_the_last_startup_hook() -> None:
    hooks = tuple(replace(FIRST, path=f"hooks/{name}") for name in "ab")
    progress = ready(loaded=loaded(hooks=hooks))
    first = next_step(wanted(), progress)
    progress = done(first, wanted(), begin(first, progress), Result())
    assert (progress.startup, progress.active) == (1, False)
    second = next_step(wanted(), progress)
    assert second.label == "Startup hooks/b"
    assert done(second, wanted(), begin(second, progress), Result()).active


def test_a_superseded_release_stands_but_its_run_is_not_complete() -> None:
    progress = released(ready(active=True, run=Run(before=2)), superseded=True)
    assert (progress.released, progress.run, progress.completed) == (artifact(), Run(before=2), "")


def test_a_release_without_after_helm_hooks_completes_the_run() -> None:
    progress = released(ready(active=True, loaded=loaded(hooks=())))
    assert progress.run.complete
    assert progress.completed == completion_mark(artifact(), "s1") == "d1/s1"


def test_after_helm_hooks_that_change_nothing_complete_the_run() -> None:
    progress = ready(active=True, run=Run(before=2, releases=1, after=1, values="v-s1"))
    assert done(AFTER, wanted(), progress, Result(values="v-s1")).run.complete


def test_after_helm_hooks_that_change_values_make_exactly_one_more_release() -> None:
    progress = ready(active=True, run=Run(before=2, releases=1, after=1, values="v-s1"))
    progress = done(AFTER, wanted(), progress, Result(values="v-patched"))
    assert not progress.run.complete
    assert next_step(wanted(), progress).step is Step.UPGRADE_RELEASE
    # Even if the values moved again meanwhile.
    progress = released(progress, values="v-moved")
    assert (progress.run.releases, progress.run.complete) == (2, True)


def test_a_verified_release_that_stood_completes_the_run_without_hooks() -> None:
    progress = released(ready(active=True, completed="d1/s1", run=Run(verify=True)), unchanged=True)
    assert progress.run.complete


def test_a_verified_release_that_had_to_be_made_is_followed_by_its_hooks() -> None:
    progress = released(ready(active=True, completed="d1/s1", run=Run(verify=True)))
    assert not progress.run.complete
    assert next_step(wanted(), progress).step is Step.AFTER_HELM


def test_stopping_keeps_the_release_and_forgets_the_run() -> None:
    progress = done(Next(step=Step.STOP), wanted(suspended=True), running(teardown=Teardown(before=1)), Result())
    assert (progress.active, progress.startup, progress.run, progress.completed) == (False, 0, Run(), "")
    assert (progress.released, progress.teardown) == (artifact(), Teardown())


def test_the_release_is_gone_only_when_its_last_hook_has_run() -> None:
    removing = running(removing=True)
    progress = done(Next(step=Step.UNINSTALL_RELEASE), DELETING, removing, Result())
    assert progress.released == artifact()
    progress = done(Next(step=Step.AFTER_DELETE_HELM), DELETING, progress, Result())
    assert (progress.released, progress.loaded, progress.settings_for) == (None, None, "")
    progress = done(Next(step=Step.UNINSTALL_RELEASE), DELETING, running(loaded=loaded(hooks=())), Result())
    assert progress.released is None


@pytest.mark.parametrize("step", [Step.ADD_FINALIZER, Step.WAIT, Step.FINISH])
def test_steps_that_teach_nothing(step: Step) -> None:
    assert done(Next(step=step), wanted(), running(), Result()) == running()


# -- what is left ----------------------------------------------------------------------------------------------------


def labels(desired: Desired, progress: Progress, **more: object) -> list[str]:
    return [step.label for step in remaining(desired, progress, **more)]  # type: ignore[arg-type]  # options by name


def test_what_is_left_of_an_install() -> None:
    assert labels(wanted(finalizer=False), Progress()) == [
        "Adopt",
        "AddFinalizer",
        "Download",
        "Install",
        "Load",
        "ApplySettings",
        "Startup",
        "UpgradeRelease",
    ]


def test_what_is_left_names_the_hooks_of_what_is_loaded() -> None:
    assert labels(wanted(), ready()) == walk(wanted(), ready())[0]
    assert labels(DELETING, running()) == walk(DELETING, running())[0]
    assert labels(wanted(suspended=True, delete_on_disable=True), running())[1:] == [
        "BeforeDeleteHelm hooks/bye",
        "UninstallRelease",
        "AfterDeleteHelm hooks/bye",
    ]


def test_verifying_leaves_one_step() -> None:
    assert labels(wanted(), ready(active=True, run=Run(verify=True))) == ["UpgradeRelease"]


def test_nothing_is_left_at_rest_paused_or_behind_a_gate() -> None:
    assert labels(wanted(), running()) == []
    assert labels(wanted(), ready(), paused=True) == []
    assert labels(wanted(), ready(), gate=Gate(open=False)) == []


VERSIONS = st.sampled_from(["0", "1", "2"])
DESIRED = st.one_of(
    st.just(Desired()),
    st.builds(
        wanted,
        uid=st.sampled_from(["u1", "u2"]),
        finalizer=st.booleans(),
        deleting=st.booleans(),
        abandon=st.booleans(),
        source=st.builds(source, VERSIONS),
        settings=st.sampled_from(["s1", "s2"]),
        suspended=st.booleans(),
        delete_on_disable=st.booleans(),
    ),
)
CONTENT = st.none() | st.builds(artifact, VERSIONS)
RUNS = st.builds(
    Run,
    trigger=st.sampled_from([Scope.SETTINGS, Scope.SCHEDULE]),
    before=st.integers(0, 3),
    releases=st.integers(0, 2),
    after=st.integers(0, 3),
    values=st.sampled_from(["", "v1", "v2"]),
    verify=st.booleans(),
    complete=st.booleans(),
)
ANYTHING = st.builds(
    Progress,
    owner=st.sampled_from(["", "u1", "u2"]),
    artifact=CONTENT,
    installed=st.sampled_from(["", "d1", "d2"]),
    loaded=st.none() | st.builds(loaded, VERSIONS, st.sampled_from([(), HOOKS])),
    released=CONTENT,
    settings=st.sampled_from(["", "s1", "s2"]),
    settings_for=st.sampled_from(["", "d1", "d2"]),
    values=st.sampled_from(["v1", "v2"]),
    startup=st.integers(0, 2),
    active=st.booleans(),
    run=RUNS,
    completed=st.sampled_from(["", "d1/s1", "d2/s2"]),
    removing=st.booleans(),
    teardown=st.builds(Teardown, before=st.integers(0, 2), uninstalled=st.booleans(), after=st.integers(0, 2)),
    cleaned=st.booleans(),
)


@given(DESIRED, ANYTHING, st.booleans())
def test_what_is_left_ends_and_begins_with_the_next_step(desired: Desired, progress: Progress, paused: bool) -> None:
    progress = begin_removal(desired, progress)
    left = remaining(desired, progress, paused=paused)
    first = next_step(desired, progress, paused=paused)
    if first.step in {Step.WAIT, Step.FINISH}:
        assert left == ()
    else:
        assert left[0] == first
    assert len(left) < 40


@given(DESIRED, ANYTHING)
def test_whatever_is_known_undisturbed_steps_lead_to_a_rest(desired: Desired, progress: Progress) -> None:
    _, after, progress, rest = walk(desired, progress)
    if not after.exists:
        assert rest.step is Step.FINISH
    elif rest.step is Step.WAIT:
        assert rest.hold is (Hold.SUSPENDED if after.suspended else Hold.IDLE)


def test_hooks_run_by_order_and_then_by_name() -> None:
    names = ["hooks/c", "hooks/a", "hooks/b"]
    hooks = tuple(
        replace(FIRST, path=name, orders={Binding.BEFORE_HELM: 5 if name != "hooks/b" else 1}) for name in names
    )
    ran = walk(wanted(), ready(loaded=loaded(hooks=hooks)), hooks=hooks)[0]
    assert ran == ["Startup", "BeforeHelm hooks/b", "BeforeHelm hooks/a", "BeforeHelm hooks/c", "UpgradeRelease"]
