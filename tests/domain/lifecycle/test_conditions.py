from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.domain.errors import Reason
from windlass.domain.lifecycle.conditions import (
    EXCEPTIONAL,
    REQUIRED,
    RUNTIME,
    Change,
    Condition,
    Conditions,
    Status,
    Type,
    apply,
    cleared,
    false,
    find,
    initial,
    of_failure,
    summarise,
    true,
)

CHANGES = st.lists(
    st.builds(
        Change,
        type=st.sampled_from(Type),
        status=st.sampled_from(Status),
        reason=st.sampled_from(["Ready", "Broken"]),
        message=st.sampled_from(["", "why"]),
    ),
    max_size=6,
)


def all_true(*changes: Change) -> Conditions:
    conditions = apply(initial(1.0), [true(type_, "Done") for type_ in REQUIRED], generation=1, now=2.0)
    return apply(conditions, changes, generation=1, now=3.0)


def test_a_package_that_was_just_seen_knows_nothing() -> None:
    conditions = initial(7.0)
    assert [c.type for c in conditions] == [type_ for type_ in Type if type_ not in EXCEPTIONAL]
    assert {(c.status, c.reason, c.since) for c in conditions} == {(Status.UNKNOWN, "Pending", 7.0)}


@given(CHANGES, CHANGES)
def test_the_time_of_a_transition_moves_with_the_status_and_only_then(
    first: list[Change], second: list[Change]
) -> None:
    before = apply(initial(1.0), first, generation=1, now=2.0)
    after = apply(before, second, generation=2, now=3.0)
    named = {change.type for change in second}
    shown = {change.type for change in (*first, *second)}
    assert [c.type for c in after] == [type_ for type_ in Type if type_ not in EXCEPTIONAL or type_ in shown]
    for new in after:
        old = find(before, new.type)
        if new.type not in named:
            assert new == old
            continue
        assert new.observed_generation == 2
        assert new.since == (old.since if new.status is old.status and old in before else 3.0)


def test_of_two_changes_of_one_type_the_last_wins() -> None:
    after = apply(initial(1.0), [true(Type.READY, "Yes"), false(Type.READY, "No", "why")], generation=1, now=2.0)
    assert find(after, Type.READY) == Condition(
        type=Type.READY, status=Status.FALSE, reason="No", message="why", since=2.0, observed_generation=1
    )


def test_a_type_that_is_not_listed_is_unknown() -> None:
    assert find((), Type.READY) == Condition(type=Type.READY)


def test_clearing_forgets() -> None:
    after = apply(all_true(), cleared(RUNTIME), generation=2, now=4.0)
    assert {c.type for c in after if c.status is Status.UNKNOWN} == {*RUNTIME, Type.READY}
    assert Type.READY_ON_FILESYSTEM not in RUNTIME
    assert Type.REQUIREMENTS_MET not in RUNTIME


@pytest.mark.parametrize(
    ("step_type", "reason", "expected"),
    [
        (
            Type.READY_ON_FILESYSTEM,
            Reason.DOWNLOAD_FAILED,
            {Type.READY_ON_FILESYSTEM: (Status.FALSE, "DownloadFailed")},
        ),
        # Content that is gone is a matter of the filesystem, whichever step notices.
        (
            Type.READY_IN_CLUSTER,
            Reason.PACKAGE_NOT_FOUND,
            {Type.READY_ON_FILESYSTEM: (Status.FALSE, "PackageNotFound")},
        ),
        (None, Reason.REPOSITORY_NOT_FOUND, {Type.READY_ON_FILESYSTEM: (Status.FALSE, "RepositoryNotFound")}),
        (Type.READY_IN_RUNTIME, Reason.LOAD_FAILED, {Type.READY_IN_RUNTIME: (Status.FALSE, "LoadFailed")}),
        (
            Type.READY_IN_RUNTIME,
            Reason.INIT_HOOKS_FAILED,
            {
                Type.READY_IN_RUNTIME: (Status.FALSE, "LoadFailed"),
                Type.HOOKS_PROCESSED: (Status.FALSE, "InitHooksFailed"),
            },
        ),
        (
            Type.SETTINGS_VALID,
            Reason.VALIDATION_FAILED,
            {
                Type.READY_IN_RUNTIME: (Status.FALSE, "ApplySettings"),
                Type.SETTINGS_VALID: (Status.FALSE, "ValidationFailed"),
            },
        ),
        (
            Type.HOOKS_PROCESSED,
            Reason.STARTUP_HOOK_FAILED,
            {Type.HOOKS_PROCESSED: (Status.FALSE, "StartupHookFailed")},
        ),
        (
            Type.READY_IN_CLUSTER,
            Reason.APPLY_MANIFESTS_FAILED,
            {
                Type.HELM_APPLIED: (Status.FALSE, "ApplyManifestsFailed"),
                Type.READY_IN_CLUSTER: (Status.FALSE, "ApplyManifestsFailed"),
            },
        ),
        (
            Type.READY_IN_CLUSTER,
            Reason.READINESS_TIMEOUT,
            {Type.HELM_APPLIED: (Status.TRUE, "Applied"), Type.READY_IN_CLUSTER: (Status.FALSE, "ReadinessTimeout")},
        ),
        (
            Type.READY_IN_CLUSTER,
            Reason.RESOURCE_FAILED,
            {Type.HELM_APPLIED: (Status.TRUE, "Applied"), Type.READY_IN_CLUSTER: (Status.FALSE, "ResourceFailed")},
        ),
        (None, Reason.UNINSTALL_FAILED, {}),
        (None, Reason.FORBIDDEN, {}),
    ],
)
def test_what_a_failure_means(step_type: Type | None, reason: Reason, expected: dict[Type, tuple[Status, str]]) -> None:
    changes = of_failure(step_type, reason, "why")
    assert {change.type: (change.status, change.reason) for change in changes} == expected
    assert {change.message for change in changes if change.status is Status.FALSE} <= {"why"}


def test_all_required_conditions_make_ready() -> None:
    assert summarise(all_true()) == true(Type.READY, "Ready")


@pytest.mark.parametrize("type_", REQUIRED)
def test_one_condition_that_is_false_explains_why_not(type_: Type) -> None:
    assert summarise(all_true(false(type_, "Broken", "why"))) == false(Type.READY, "Broken", "why")


@pytest.mark.parametrize("type_", REQUIRED)
def test_one_condition_that_is_unknown_is_waited_for(type_: Type) -> None:
    found = summarise(all_true(*cleared([type_])))
    assert (found.status, found.reason) == (Status.FALSE, "Progressing")
    assert type_.value in found.message


def test_the_first_in_the_order_of_the_pipeline_explains() -> None:
    both = all_true(false(Type.READY_IN_CLUSTER, "Late"), false(Type.SETTINGS_VALID, "Early"))
    assert summarise(both).reason == "Early"


def test_waiting_to_converge_is_no_part_of_ready() -> None:
    assert summarise(all_true(true(Type.WAIT_CONVERGE, "WaitConverge"))).status is Status.TRUE


def test_an_override_wins_over_all_conditions() -> None:
    assert summarise(all_true(), override=("Paused", "on request")) == false(Type.READY, "Paused", "on request")
