"""Which services may move (kcm.md section 2: FilterServiceDependencies; design.md section 1)."""

from __future__ import annotations

import pytest
from domain.servicesets.words import CLUSTER, SYSTEM, brief, mcs, reported, service_set, stored, wanted

from windlass.domain.servicesets.dependencies import service_set_of
from windlass.servicesets import (
    DependencyNotDesiredError,
    Eligible,
    HoldReason,
    Service,
    ServiceSet,
    ServiceState,
    ServiceWithValues,
    SeveralServiceSetsError,
    filter_service_dependencies,
)

ONE = "1.0.0"
TWO = "2.0.0"


def eligible(
    desired: list[Service], services: list[ServiceWithValues] | None = None, states: list[ServiceState] | None = None
) -> Eligible:
    sets = [] if services is None else [service_set(services, states or [])]
    return filter_service_dependencies(sets, SYSTEM, None, CLUSTER, desired)


@pytest.mark.parametrize(
    ("state", "stored_version", "desired_version", "free"),
    [
        (reported("a", "Deployed", ONE), ONE, ONE, True),
        (reported("a", "Deployed", ONE), TWO, TWO, False),  # in flight
        (reported("a", "Deployed", ONE), ONE, TWO, False),  # not begun
        (reported("a", "Deployed", TWO), ONE, ONE, False),
        (reported("a", "Provisioning", ONE), ONE, ONE, False),
        (reported("a", "Failed", ONE), ONE, ONE, False),
        (reported("a", "Pending"), ONE, ONE, False),
        (reported("a", "Deployed"), ONE, ONE, False),
        (None, ONE, ONE, False),
    ],
)
def test_a_dependency_is_satisfied_when_deployed_as_stored_as_desired(
    state: ServiceState | None, stored_version: str, desired_version: str, free: bool
) -> None:
    desired = [wanted("a", desired_version), wanted("b", ONE, "a")]
    found = eligible(desired, [stored("a", stored_version)], [state] if state else [])
    assert brief(found.services) == [f"a {desired_version}", "b 1.0.0"][: 1 + free]
    assert [(hold.service.name, hold.reason) for hold in found.holds] == (
        [] if free else [("b", HoldReason.DEPENDENCY_NOT_READY)]
    )


def test_template_names_stand_in_for_versions() -> None:
    desired = [Service(name="a", template="t"), Service.from_object({"name": "b", "dependsOn": [{"name": "a"}]})]
    states = [ServiceState(name="a", state="Deployed", template="t")]
    found = eligible(desired, [ServiceWithValues(name="a", template="t")], states)
    assert [one.name for one in found.services] == ["a", "b"]


def test_another_template_of_the_same_version_is_not_what_is_desired() -> None:
    desired = [wanted("a", ONE, template="hotfix"), wanted("b", ONE, "a")]
    assert brief(eligible(desired, [stored("a", ONE)], [reported("a", "Deployed", ONE)]).services) == ["a 1.0.0"]


@pytest.mark.parametrize(
    ("a", "b", "free"),
    [
        ("Deployed", "Deployed", ["a", "b", "c"]),
        ("Failed", "Deployed", ["a"]),  # c is behind b, which waits
        ("Deployed", "Failed", ["a", "b"]),
        ("Failed", "Failed", ["a"]),
    ],
)
def test_gating_is_transitive(a: str, b: str, free: list[str]) -> None:
    desired = [wanted("c", ONE, "b"), wanted("b", ONE, "a"), wanted("a", ONE)]
    found = eligible(desired, [stored(name, ONE) for name in "abc"], [reported("a", a, ONE), reported("b", b, ONE)])
    assert [one.name for one in found.services] == free
    assert all(hold.reason is HoldReason.DEPENDENCY_NOT_READY for hold in found.holds)


def test_gating_reaches_through_any_number_of_services() -> None:
    names = "abcdef"
    desired = [wanted(name, ONE, *before) for name, before in zip(names, ["", *names], strict=False)]
    states = [reported(name, "Failed" if name == "a" else "Deployed", ONE) for name in names]
    found = eligible(desired, [stored(name, ONE) for name in names], states)
    assert [one.name for one in found.services] == ["a"]
    assert [str(hold.blockers[0]) for hold in found.holds] == [f"default/{name}" for name in names[:-1]]


def test_a_hold_names_what_it_waits_for() -> None:
    names = ["p", "q", "r", "s"]
    desired = [wanted("z", ONE, *names), *(wanted(name, TWO) for name in names[:2]), wanted("r", ONE, "s")]
    desired.append(wanted("s", ONE))
    states = [reported("q", "Failed", ONE), reported("r", "Deployed", ONE)]
    found = eligible(desired, [stored("q", TWO), stored("r", ONE)], states)
    hold = next(hold for hold in found.holds if hold.service.name == "z")
    assert [one.name for one in hold.blockers] == names
    assert hold.message == (
        "service default/z waits for default/p (not there yet), default/q (Failed), "
        "default/r (waits for its own dependencies), and 1 more"
    )


@pytest.mark.parametrize(
    ("services", "state", "lack"),
    [
        ([], [], "disabled, not installed"),
        ([stored("a", ONE)], [reported("a", "Deployed", ONE)], "disabled at 1.0.0, not 2.0.0"),
    ],
)
def test_a_hold_says_that_a_dependency_is_disabled(
    services: list[ServiceWithValues], state: list[ServiceState], lack: str
) -> None:
    found = eligible([wanted("a", TWO, disable=True), wanted("b", ONE, "a")], services, state)
    assert [hold.message for hold in found.holds] == [f"service default/b waits for default/a ({lack})"]


def test_own_state_never_matters() -> None:
    assert brief(eligible([wanted("a", TWO)], [stored("a", ONE)], [reported("a", "Failed", ONE)]).services) == [
        "a 2.0.0"
    ]


def test_namespaces_are_part_of_the_name() -> None:
    desired = [
        wanted("a", ONE, namespace="x"),
        wanted("a", ONE),
        wanted("b", ONE, dependsOn=[{"name": "a", "namespace": "x"}]),
    ]
    found = eligible(desired, [stored("a", ONE)], [reported("a", "Deployed", ONE)])
    assert [(one.namespace, one.name) for one in found.services] == [("", "a"), ("x", "a")]


def test_they_come_sorted_by_namespace_and_name() -> None:
    desired = [
        wanted("z", ONE),
        wanted("a", ONE, namespace="web"),
        wanted("m", ONE, namespace="certs"),
        wanted("b", ONE),
    ]
    assert [one.name for one in eligible(desired).services] == ["m", "b", "z", "a"]


def test_a_dependency_that_nobody_desires_is_an_error() -> None:
    with pytest.raises(DependencyNotDesiredError) as error:
        eligible([wanted("a", ONE), wanted("b", ONE, "gone")])
    assert (error.value.service, error.value.dependency) == (("default", "b"), ("default", "gone"))
    assert "default/b depends on service default/gone, which is not among the desired" in str(error.value)


def test_members_of_a_cycle_and_what_follows_them_never_move() -> None:
    desired = [wanted("a", ONE, "b"), wanted("b", ONE, "a"), wanted("c", ONE, "b"), wanted("d", ONE)]
    states = [reported(name, "Deployed", ONE) for name in "abcd"]
    found = eligible(desired, [stored(name, ONE) for name in "abcd"], states)
    assert [one.name for one in found.services] == ["d"]
    assert [(hold.service.name, hold.reason) for hold in found.holds] == [
        (name, HoldReason.DEPENDENCY_CYCLE) for name in "abc"
    ]
    assert found.holds[0].message == "service default/a is in a dependency cycle or waits for one, through default/b"


def test_a_service_that_depends_on_itself_never_moves() -> None:
    found = eligible([wanted("a", ONE, "a")], [stored("a", ONE)], [reported("a", "Deployed", ONE)])
    assert found.services == ()
    assert [hold.reason for hold in found.holds] == [HoldReason.DEPENDENCY_CYCLE]


def held(namespace: str, name: str, cluster: str, owner: str) -> ServiceSet:
    return ServiceSet.from_object(
        {
            "metadata": {"namespace": namespace, "name": name},
            "spec": {"cluster": cluster, "multiClusterService": owner},
        }
    )


SETS = [
    held("prod", "edge", "edge", ""),
    held("prod", "edge-1", "edge", "mesh"),
    held("prod", "core", "core", ""),
    held("dev", "edge", "edge", ""),
    held(SYSTEM, "management-1", "", "mesh"),
    held(SYSTEM, "management-2", "", "base"),
]


@pytest.mark.parametrize(
    ("cluster", "owner", "found"),
    [
        (CLUSTER, None, SETS[0]),
        (CLUSTER, mcs("mesh"), SETS[1]),
        (None, mcs("mesh"), SETS[4]),
        (CLUSTER, mcs("base"), None),
        (None, mcs("new"), None),
    ],
)
def test_the_one_service_set_that_counts(cluster: object, owner: object, found: ServiceSet | None) -> None:
    assert service_set_of(SETS, SYSTEM, owner, cluster) == found  # type: ignore[arg-type] # a table's columns


def test_several_service_sets_are_an_error() -> None:
    twice = [*SETS, held("prod", "copy", "edge", "mesh")]
    with pytest.raises(SeveralServiceSetsError) as error:
        service_set_of(twice, SYSTEM, mcs("mesh"), CLUSTER)
    assert error.value.found == (("prod", "copy"), ("prod", "edge-1"))
    assert "2 ServiceSets for cluster edge and MultiClusterService mesh: prod/copy, prod/edge-1" in str(error.value)
