"""When a cluster's own services may move, and how ``spec.rollout`` is read."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from domain.servicesets.words import mcs
from hypothesis import given
from hypothesis import strategies as st

from windlass.contracts.fleet import rollout as contract
from windlass.domain.servicesets.rollout.state import Gate
from windlass.servicesets import ClusterDeployment, RolloutInvalidError
from windlass.servicesets.rollout import (
    ClusterApproval,
    ClusterPolicy,
    RolloutPolicy,
    cluster_policy,
    gates,
    past_steps,
    rollout_policy,
)

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
NIGHT = {"schedule": "0 22 * * *", "duration": "6h"}


def cluster(**rollout: Any) -> ClusterDeployment:
    return ClusterDeployment.from_object(
        {"metadata": {"namespace": "prod", "name": "edge", "labels": {"zone": "eu"}}, "spec": {"rollout": rollout}}
    )


def held(at: datetime = NOON, *, first_step: bool = True, approved: bool = False, **rollout: Any) -> dict[Gate, Any]:
    one = cluster(**rollout)
    found = gates(cluster_policy(one), "prod/edge", one.metadata.labels, at, first_step=first_step, approved=approved)
    return {hold.gate: (hold.reason, hold.until) for hold in found}


def test_without_a_rollout_nothing_holds() -> None:
    bare = ClusterDeployment.new("prod", "edge")
    assert cluster_policy(bare) == ClusterPolicy()
    assert held() == {}


@pytest.mark.parametrize(
    ("freeze", "reason", "until"),
    [
        ({"reason": "audit"}, "cluster prod/edge is frozen until the freeze is taken out: audit", None),
        (
            {"since": "2026-06-01T12:00:00Z", "until": "2026-06-01T14:00:00+01:00", "reason": "audit"},
            "cluster prod/edge is frozen until 2026-06-01 13:00 UTC: audit",
            NOON + timedelta(hours=1),
        ),
    ],
)
def test_a_freeze_holds(freeze: dict[str, Any], reason: str, until: datetime | None) -> None:
    assert held(freeze=[freeze]) == {Gate.FREEZE: (reason, until)}


@pytest.mark.parametrize(
    "freeze", [{"until": "2026-06-01T12:00:00Z"}, {"since": "2026-06-01T12:00:01Z"}], ids=["over", "to come"]
)
def test_a_freeze_at_another_time_does_not_hold(freeze: dict[str, Any]) -> None:
    assert held(freeze=[{**freeze, "reason": "audit"}]) == {}


@pytest.mark.parametrize(
    ("windows", "expected"),
    [
        ([NIGHT], ("the window of cluster prod/edge opens at 2026-06-01 22:00 UTC", NOON.replace(hour=22))),
        ([{**NIGHT, "clusterSelector": {"matchLabels": {"zone": "eu"}}, "schedule": "0 11 * * *"}], None),
        (
            [{**NIGHT, "clusterSelector": {"matchLabels": {"zone": "us"}}}],
            ("no window ever opens for cluster prod/edge: add one that selects it", None),
        ),
    ],
)
def test_windows(windows: list[dict[str, Any]], expected: tuple[str, datetime | None] | None) -> None:
    assert held(windows=windows).get(Gate.WINDOW) == expected


@pytest.mark.parametrize(
    ("approval", "first_step", "needed"),
    [("None", True, False), ("EveryChange", True, True), ("EveryChange", False, False), ("EveryStep", False, True)],
)
def test_approvals(approval: str, first_step: bool, needed: bool) -> None:
    assert (Gate.APPROVAL in held(approval=approval, first_step=first_step)) is needed
    assert Gate.APPROVAL not in held(approval=approval, first_step=first_step, approved=True)


def test_everything_that_holds_is_told() -> None:
    found = held(approval="EveryStep", windows=[NIGHT], freeze=[{"reason": "audit"}])
    assert list(found) == [Gate.FREEZE, Gate.WINDOW, Gate.APPROVAL]


@given(st.datetimes(timezones=st.just(UTC)), st.integers(0, 3600), st.integers(1, 3600))
def test_a_freeze_holds_from_its_first_instant_to_its_last(at: datetime, before: int, lasts: int) -> None:
    try:
        since = at - timedelta(seconds=before)
        until = since + timedelta(seconds=lasts)
    except OverflowError:
        return
    freeze = {"since": since.isoformat(), "until": until.isoformat(), "reason": "audit"}
    assert bool(held(at, freeze=[freeze])) is (since <= at < until)


@pytest.mark.parametrize(
    ("rollout", "problem"),
    [
        (
            {"freeze": [{"since": "2026-01-02T00:00:00Z", "until": "2026-01-01T00:00:00Z", "reason": "a"}]},
            "ClusterDeployment prod/edge: spec.rollout.freeze[0]: until must be later than since",
        ),
        ({"windows": [{**NIGHT, "timeZone": "Mars"}]}, "spec.rollout.windows[0].timeZone: 'Mars' is no time zone"),
        ({"aproval": "None"}, "spec.rollout.aproval: extra inputs are not permitted"),
    ],
)
def test_what_a_schema_does_not_see_is_an_error(rollout: dict[str, Any], problem: str) -> None:
    with pytest.raises(RolloutInvalidError) as refused:
        cluster_policy(cluster(**rollout))
    assert problem in str(refused.value)


def test_the_rollout_of_a_multi_cluster_service() -> None:
    assert rollout_policy(mcs("m")) == RolloutPolicy()
    assert rollout_policy(mcs("m", rollout={"soak": "30m", "waves": [2]})).soak == timedelta(minutes=30)
    with pytest.raises(RolloutInvalidError, match=r"MultiClusterService m: spec.rollout.soak"):
        rollout_policy(mcs("m", rollout={"soak": "soon"}))


def test_durations_that_cannot_be_read_are_left_out() -> None:
    document = mcs("m").to_object()
    document["status"] = {"pastSteps": [{"from": "a", "to": "b", "duration": "4m"}, {"to": "b", "duration": "soon"}]}
    owner = type(mcs("m")).from_object(document)
    assert past_steps(owner) == (("a", "b", timedelta(minutes=4)),)


@pytest.mark.parametrize(
    ("schema", "policy"),
    [(contract.RolloutSpec, RolloutPolicy), (contract.ClusterRolloutSpec, ClusterPolicy)],
)
def test_the_schema_has_the_fields_of_the_policy(schema: Any, policy: Any) -> None:
    assert {one.alias or name for name, one in schema.model_fields.items()} == {
        one.alias or name for name, one in policy.model_fields.items()
    }


def test_the_schema_has_the_words_of_the_policy() -> None:
    field = contract.ClusterRolloutSpec.model_json_schema()["properties"]["approval"]["anyOf"][0]["enum"]
    assert field == [one.value for one in ClusterApproval]
