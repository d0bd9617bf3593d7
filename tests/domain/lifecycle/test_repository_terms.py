"""What a repository grants a package: to be taken from it, and to bring programs of its own."""

from __future__ import annotations

from dataclasses import replace

from domain.lifecycle.lives import HOOKS, artifact, result_of, running, source, wanted
from hypothesis import given
from hypothesis import strategies as st

from windlass.domain.lifecycle.conditions import Status, Type, apply, initial
from windlass.domain.lifecycle.effects import on_served
from windlass.domain.lifecycle.steps import (
    Desired,
    Hold,
    Loaded,
    Next,
    Progress,
    Step,
    content_to_load,
    next_step,
    serving,
    tearing_down,
)
from windlass.domain.lifecycle.transitions import Result, begin, begin_removal, done

WITH_HOOKS = Loaded(artifact=artifact(), hooks=HOOKS, programs=True)


def settle(desired: Desired, progress: Progress) -> tuple[list[str], Progress, Next]:
    """Perform steps until one is refused or there is none; the content has hooks, which are opened as is allowed."""
    labels: list[str] = []
    for _ in range(60):
        progress = begin_removal(desired, progress)
        step = next_step(desired, progress)
        if step.step in {Step.WAIT, Step.FINISH}:
            return labels, progress, step
        labels.append(step.label)
        result = result_of(step, desired, progress)
        if step.step is Step.LOAD:
            content = content_to_load(desired, progress)
            assert content is not None
            if desired.hooks_allowed:
                result = Result(loaded=Loaded(artifact=content, hooks=HOOKS, programs=True))
            elif tearing_down(desired, progress):
                result = Result(loaded=Loaded(artifact=content, programs=True, bare=True))
            else:
                return labels, progress, step
        assert step.hook is None or desired.hooks_allowed, "a hook is run that the repository denies"
        if step.step is Step.DOWNLOAD and not desired.served:
            return labels, progress, step
        progress = begin(step, progress)
        progress = done(step, desired, progress, result)
        if step.step is Step.RELEASE_FINALIZER:
            desired = Desired()
    raise AssertionError(f"no rest after {labels}")


# -- namespaces ------------------------------------------------------------------------------------------------------


def test_a_running_package_that_is_no_longer_served_keeps_running() -> None:
    progress = running(offer="o1")
    assert settle(wanted(served=False), progress) == ([], progress, Next(step=Step.WAIT, hold=Hold.IDLE))


def test_its_settings_still_change() -> None:
    labels, _, rest = settle(wanted(served=False, settings="s2"), running(loaded=WITH_HOOKS))
    assert labels[0] == "ApplySettings"
    assert "UpgradeRelease" in labels
    assert rest.hold is Hold.IDLE


def test_its_upgrade_goes_through_the_step_that_refuses_it() -> None:
    labels, progress, _ = settle(wanted(served=False, source=source("2")), running())
    assert labels == ["Download"]
    assert progress.released == artifact()


def test_another_life_may_not_go_on_with_what_an_earlier_one_pinned() -> None:
    labels, _, _ = settle(wanted(served=False, uid="u2"), running())
    assert labels == ["Adopt", "Download"]


def test_a_life_whose_workflow_was_lost_keeps_its_content() -> None:
    restored = Progress(artifact=artifact(), released=artifact(), completed="d1/s1")
    labels, _, rest = settle(wanted(served=False), restored)
    assert labels[:2] == ["Adopt", "Install"]
    assert rest.hold is Hold.IDLE


def test_a_package_that_is_not_served_is_removed_as_any_other() -> None:
    labels, _, rest = settle(wanted(served=False, deleting=True), running(loaded=WITH_HOOKS))
    assert "UninstallRelease" in labels
    assert labels[-1] == "ReleaseFinalizer"
    assert rest.step is Step.FINISH


def test_the_condition_comes_and_goes() -> None:
    conditions = initial(1.0)
    assert on_served(wanted(), conditions) is None
    change = on_served(wanted(served=False), conditions)
    assert change is not None
    assert (change.status, change.reason) == (Status.TRUE, "RepositoryNotAllowed")
    assert "'shelf'" in change.message
    conditions = apply(conditions, [change], generation=1, now=2.0)
    assert on_served(wanted(served=False), conditions) is None
    change = on_served(wanted(), conditions)
    assert change is not None
    assert (change.type, change.status) == (Type.SOURCE_REFUSED, Status.FALSE)


# -- hooks -----------------------------------------------------------------------------------------------------------


def test_hooks_that_are_denied_stop_and_the_release_stays() -> None:
    desired = wanted(hooks_allowed=False)
    progress = running(loaded=WITH_HOOKS, watching=True)
    assert not serving(desired, progress)
    labels, progress, step = settle(desired, progress)
    assert labels == ["Unwatch", "Load"]
    assert step.step is Step.LOAD
    assert progress.released == artifact()


def test_a_package_without_programs_does_not_notice() -> None:
    progress = running(loaded=Loaded(artifact=artifact()))
    assert settle(wanted(hooks_allowed=False), progress)[0] == []


def test_a_removal_goes_without_the_hooks_that_are_denied() -> None:
    labels, _, rest = settle(wanted(hooks_allowed=False, deleting=True), running(loaded=WITH_HOOKS))
    assert labels == ["Load", "UninstallRelease", "CleanUp", "ReleaseFinalizer"]
    assert rest.step is Step.FINISH


def test_hooks_that_are_allowed_again_run_again() -> None:
    suspended = wanted(hooks_allowed=False, suspended=True, delete_on_disable=True)
    bare = Loaded(artifact=artifact(), programs=True, bare=True)
    progress = running(loaded=bare, active=False, startup=0)
    assert settle(replace(suspended, suspended=False), progress)[2].step is Step.LOAD
    labels, progress, rest = settle(wanted(), progress)
    assert labels[0] == "Load"
    assert rest.hold is Hold.IDLE
    assert progress.loaded is not None
    assert progress.loaded.hooks == HOOKS


edits = st.fixed_dictionaries(
    {
        "source": st.sampled_from([source("1"), source("2")]),
        "settings": st.sampled_from(["s1", "s2"]),
        "suspended": st.booleans(),
        "delete_on_disable": st.booleans(),
        "served": st.booleans(),
        "hooks_allowed": st.booleans(),
    }
)


@given(st.lists(edits, min_size=1, max_size=6))
def test_whatever_is_granted_nothing_denied_happens_and_a_removal_ends(wishes: list[dict[str, object]]) -> None:
    progress = Progress(owner="u1")
    for wish in wishes:
        before = progress.artifact
        _, progress, _ = settle(wanted(**wish), progress)
        if not wish["served"]:
            assert progress.artifact == before, "content was pinned that the repository refuses"
    last = {**wishes[-1], "deleting": True}
    _, _, rest = settle(wanted(**last), progress)
    assert rest.step is Step.FINISH
