"""What a worker serves is what others know by name."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

from workflows.world import FakeWorld

from windlass.domain.lifecycle.steps import Step
from windlass.runtime.history import QUIET, STEPS
from windlass.worker.registration import activities

CATALOG = {"repository.scan", "repository.report_failure"}
"""Of the workflow of a repository, which has no steps."""


def name_of(activity: Any) -> str:
    # The SDK has no public way to ask.
    return getattr(activity, "__temporal_activity_definition").name


def served() -> set[str]:
    made: Any = MagicMock()  # nothing is called: activities are only bound to what they are made of
    settings: Any = SimpleNamespace(ui="", helm_children=4)
    return {name_of(one) for one in activities(made, made, settings, made).all} - CATALOG


def test_every_activity_of_a_lifecycle_is_told_in_histories_or_left_out_on_purpose() -> None:
    assert served() == {*STEPS, *QUIET}
    assert not QUIET & {*STEPS}


def test_histories_call_steps_by_the_names_of_the_lifecycle() -> None:
    assert set(STEPS.values()) - {"Hook", "EventHooks"} <= {step.value for step in Step}


def test_the_world_of_the_workflow_tests_has_every_activity() -> None:
    assert {name_of(one) for one in FakeWorld().activities} == served()
