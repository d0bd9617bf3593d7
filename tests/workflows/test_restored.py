"""What outlived an earlier workflow is taken over for the object that it was said of, and for no other."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from domain.lifecycle.lives import artifact, wanted

from windlass.contracts.lifecycle import LifecycleState
from windlass.contracts.objects import ActionRecord
from windlass.contracts.steps import Observation, Restored
from windlass.domain.lifecycle.policy import Cause, Control, Good, Held
from windlass.domain.lifecycle.steps import Desired
from windlass.workflows._transitions import observed, restored

NOW = 1_700_000_000.0
KEPT = Restored(
    artifact=artifact(),
    released=artifact(),
    completed="d1/s1",
    actions=(ActionRecord(action="pause", who="ada", at=datetime.fromtimestamp(NOW, UTC)),),
    paused=True,
    version="1",
    control=Control(
        good=(Good(revision=1, artifact=artifact(), settings="s1"),),
        held=Held(step="UpgradeRelease", cause=Cause.FAILED),
    ),
)


def looked(*desired: Desired) -> LifecycleState:
    """The state after looks at these, the first of them that of a workflow which has just begun."""
    state = restored(LifecycleState(), Observation(desired=desired[0], restored=KEPT), NOW)
    for one in desired:
        state = observed(state, Observation(desired=one), NOW)
    return state


def test_the_same_object_goes_on_where_it_stood() -> None:
    state = looked(wanted(), wanted())
    assert (state.paused, state.actions, state.version, state.control) == (True, KEPT.actions, "1", KEPT.control)
    assert state.progress.completed == "d1/s1"


@pytest.mark.parametrize("then", [[wanted(uid="u2")], [Desired(), wanted(uid="u2")]], ids=["replaced", "made again"])
def test_another_object_begins_with_nothing_said_of_it(then: list[Desired]) -> None:
    state = looked(wanted(), *then)
    assert (state.paused, state.actions, state.version, state.control) == (False, (), "", Control())
    assert state.progress.completed == ""
    assert (state.progress.artifact, state.progress.released) == (artifact(), artifact()), "that is still there"
