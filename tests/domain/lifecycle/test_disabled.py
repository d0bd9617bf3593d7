"""Modules that their own script wants disabled: they rest, and come back when the script changes its mind."""

from __future__ import annotations

from dataclasses import replace

import pytest
from domain.lifecycle.lives import HOOKS, result_of, running, source, wanted
from hypothesis import given
from hypothesis import strategies as st

from windlass.domain.lifecycle.effects import Phase, phase_of, ready_override
from windlass.domain.lifecycle.steps import (
    Desired,
    Hold,
    Loaded,
    Next,
    Progress,
    Step,
    content_to_load,
    disabled,
    next_step,
)
from windlass.domain.lifecycle.transitions import Result, begin, done

OFF = "off"
"""Settings that the script of the tests says no to, whatever the version."""


def answer(step: Next, desired: Desired, progress: Progress) -> Result:
    if step.step is Step.LOAD:
        content = content_to_load(desired, progress)
        assert content is not None
        return Result(loaded=Loaded(artifact=content, hooks=HOOKS))
    result = result_of(step, desired, progress)
    if step.step is Step.APPLY_SETTINGS and desired.settings == OFF:
        return replace(result, disabled="not today")
    return result


def settle(desired: Desired, progress: Progress) -> tuple[list[str], Progress, Next]:
    labels: list[str] = []
    for _ in range(40):
        step = next_step(desired, progress)
        if step.step in {Step.WAIT, Step.FINISH}:
            return labels, progress, step
        labels.append(step.label)
        progress = begin(step, progress)
        progress = done(step, desired, progress, answer(step, desired, progress))
    raise AssertionError(f"no rest after {labels}")


def test_a_running_module_that_is_disabled_stops_and_keeps_its_release() -> None:
    desired = wanted(settings=OFF)
    labels, progress, rest = settle(desired, running())
    assert labels == ["ApplySettings", "Stop"]
    assert rest.hold is Hold.DISABLED
    assert progress.released is not None
    assert phase_of(desired, progress, version="1", paused=False) is Phase.DISABLED
    assert ready_override(desired, progress, hold=rest.hold, failure=None) == ("DisabledByScript", "not today")


def test_with_delete_on_disable_the_release_goes() -> None:
    desired = wanted(settings=OFF, delete_on_disable=True)
    labels, progress, rest = settle(desired, running())
    assert labels == [
        "ApplySettings",
        "Stop",
        "BeforeDeleteHelm hooks/bye",
        "UninstallRelease",
        "AfterDeleteHelm hooks/bye",
    ]
    assert (rest.hold, progress.released) == (Hold.DISABLED, None)
    assert settle(desired, progress)[0] == [], "it stays there"


def test_an_upgrade_that_is_disabled_takes_the_old_release_away_with_its_own_hooks() -> None:
    desired = wanted(source=source("2"), settings=OFF, delete_on_disable=True)
    labels, progress, rest = settle(desired, running())
    assert labels[:4] == ["Download", "Install", "Load", "ApplySettings"]
    assert labels[4:] == ["Load", "BeforeDeleteHelm hooks/bye", "UninstallRelease", "AfterDeleteHelm hooks/bye"]
    assert (rest.hold, progress.released) == (Hold.DISABLED, None)


def test_a_new_module_that_is_disabled_never_starts() -> None:
    labels, progress, rest = settle(wanted(settings=OFF), Progress(owner="u1"))
    assert labels == ["Download", "Install", "Load", "ApplySettings"]
    assert (rest.hold, progress.released, progress.active) == (Hold.DISABLED, None, False)


@pytest.mark.parametrize("delete", [False, True])
def test_other_settings_ask_the_script_again(delete: bool) -> None:
    off = wanted(settings=OFF, delete_on_disable=delete)
    progress = settle(off, running())[1]
    labels, progress, rest = settle(replace(off, settings="s2"), progress)
    assert labels[:2] == (["Load", "ApplySettings"] if delete else ["ApplySettings", "Startup hooks/first"])
    assert rest.hold is Hold.IDLE
    assert progress.run.complete
    assert progress.disabled is None


def test_what_was_said_of_one_version_does_not_hold_for_another() -> None:
    progress = settle(wanted(settings=OFF), running())[1]
    assert disabled(wanted(settings=OFF), progress) is not None
    assert disabled(wanted(settings=OFF, source=source("2")), progress) is None


edits = st.fixed_dictionaries(
    {
        "source": st.sampled_from([source("1"), source("2")]),
        "settings": st.sampled_from(["s1", "s2", OFF]),
        "suspended": st.booleans(),
        "delete_on_disable": st.booleans(),
    }
)


@given(st.lists(edits, min_size=1, max_size=6))
def test_whatever_is_wished_it_comes_to_rest_where_it_should(wishes: list[dict[str, object]]) -> None:
    progress = Progress(owner="u1")
    for wish in wishes:
        desired = wanted(**wish)
        _, progress, rest = settle(desired, progress)
        still = desired.suspended or desired.settings == OFF
        expected = Hold.SUSPENDED if desired.suspended else Hold.DISABLED if desired.settings == OFF else Hold.IDLE
        assert rest.hold is expected
        assert progress.active is not still
        if still and desired.delete_on_disable:
            assert progress.released is None
