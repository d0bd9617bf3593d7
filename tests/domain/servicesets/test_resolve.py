"""The next step of each service (kcm.md section 2: ServicesToDeploy, NextUpgradeStep, BuildServicesList)."""

from __future__ import annotations

import pytest
from domain.servicesets.words import brief, paths, reported, service_set, stored, template_of, wanted

from windlass.servicesets import (
    HoldReason,
    Resolution,
    Service,
    ServiceState,
    ServiceUpgradePaths,
    ServiceWithValues,
    build_services_list,
    services_to_deploy,
)


def deploy(
    desired: list[Service],
    services: list[ServiceWithValues],
    states: list[ServiceState],
    entries: list[ServiceUpgradePaths] | None = None,
) -> Resolution:
    return services_to_deploy(entries or [], desired, service_set(services, states))


def settled(name: str, version: str) -> ServiceState:
    return reported(name, "Deployed", version)


STEP_BY_STEP = paths("a", "1.0.0", ["1.1.0"], ["1.1.0", "1.2.0"], ["1.1.0", "1.2.0", "2.0.0"])
SHORTCUT = paths("a", "1.0.0", ["1.1.0"], ["1.1.0", "2.0.0"], ["2.0.0"])
ROUND = paths("a", "1.0.0", ["1.1.0"], ["1.1.0", "1.0.0"])
BACK = paths("a", "1.2.0", ["1.1.0"], ["1.1.0", "1.0.0"])
SORTED_AS_TEXT = paths("a", "1.9.0", ["1.10.0"], ["1.10.0", "1.11.0"])
DEAD_END = paths("a", "1.0.0", ["1.1.0"], ["1.5.0"], ["1.5.0", "2.0.0"])


@pytest.mark.parametrize(
    ("at", "target", "entries", "following"),
    [
        ("1.0.0", "2.0.0", [STEP_BY_STEP], "1.1.0"),
        ("1.0.0", "1.1.0", [STEP_BY_STEP], "1.1.0"),
        ("1.0.0", "2.0.0", [SHORTCUT], "1.1.0"),
        ("1.0.0", "2.0.0", [DEAD_END], "1.5.0"),
        ("1.9.0", "1.11.0", [SORTED_AS_TEXT], "1.10.0"),
        ("1.0.0", "1.0.0", [ROUND], "1.0.0"),
        ("1.0.0", "1.0.0", [STEP_BY_STEP], "1.0.0"),
        ("1.2.0", "1.0.0", [BACK], "1.1.0"),
        ("1.2.0", "1.0.0", [paths("a", "1.2.0")], "1.0.0"),  # a downgrade without a route
        ("1.10.0", "1.9.0", [paths("a", "1.10.0")], "1.9.0"),
        ("1.0.0", "2.0.0", [paths("a", "1.0.0")], None),
        ("1.0.0", "9.0.0", [STEP_BY_STEP], None),
        ("1.0.0", "2.0.0", [paths("a", "1.0.0", ["1.1.0"]), STEP_BY_STEP], None),  # the first entry counts
        ("1.0.0", "2.0.0", [paths("a", "0.9.0", ["1.0.0", "2.0.0"])], None),  # of another template
        ("1.0.0", "2.0.0", [paths("b", "1.0.0", ["2.0.0"])], None),
        ("1.0.0", "2.0.0", [], None),
    ],
)
def test_a_settled_service_takes_one_hop_on_its_chain(
    at: str, target: str, entries: list[ServiceUpgradePaths], following: str | None
) -> None:
    found = deploy([wanted("a", target, chain="web")], [stored("a", at)], [settled("a", at)], entries)
    if following is None:
        assert found.services == ()
        assert [hold.reason for hold in found.holds] == [HoldReason.NO_UPGRADE_ROUTE]
    else:
        assert brief(found.services) == [f"a {following}"]
        assert found.services[0].template == template_of(following)
        assert found.holds == ()


def test_a_hold_without_a_route_says_so() -> None:
    (hold,) = deploy([wanted("a", "2", chain="web")], [stored("a", "1")], [settled("a", "1")]).holds
    assert hold.service == ("default", "a")
    assert hold.message == "service default/a stays at t-1 1: chain web has no route from it to t-2"


def test_nothing_restricts_a_service_without_a_chain() -> None:
    entries = [paths("a", "1.0.0", ["1.0.0"])]
    found = deploy([wanted("a", "3.0.0")], [stored("a", "1.0.0")], [settled("a", "1.0.0")], entries)
    assert brief(found.services) == ["a 3.0.0"]


def test_a_fresh_install_goes_straight_to_what_is_desired() -> None:
    found = deploy([wanted("a", "2.0.0", chain="web", values="x: 1")], [], [], [STEP_BY_STEP])
    assert found.services == (stored("a", "2.0.0", values="x: 1"),)
    assert found.services[0].to_object() == {
        "name": "a",
        "namespace": "default",
        "template": "t-2-0-0",
        "version": "2.0.0",
        "values": "x: 1",
    }


@pytest.mark.parametrize(
    "states",
    [
        [],
        [reported("a", "Provisioning", "1.1.0")],
        [reported("a", "Failed", "1.1.0")],
        [reported("a", "Pending")],
        [reported("a", "Deployed", "1.0.0")],
        [reported("a", "Deployed", "1.1.0", template="t-1-0-0")],
    ],
)
def test_a_service_in_flight_keeps_its_version_and_takes_new_options(states: list[ServiceState]) -> None:
    options = {
        "values": "new: 1",
        "valuesFrom": [{"kind": "Secret", "name": "s"}],
        "helmOptions": {"atomic": True},
        "helmAction": "Install",
    }
    before = stored("a", "1.1.0", values="old: 1", later="kept")
    entries = [paths("a", "1.1.0", ["1.2.0"], ["1.2.0", "2.0.0"])]
    found = deploy([wanted("a", "2.0.0", chain="web", **options)], [before], states, entries)
    assert found.services == (stored("a", "1.1.0", later="kept", **options),)
    assert [hold.reason for hold in found.holds] == [HoldReason.UPGRADE_IN_FLIGHT]
    assert found.holds[0].message.startswith("service default/a goes on to 2.0.0 once 1.1.0 is deployed")


def test_options_of_a_service_in_flight_are_cleared_too() -> None:
    before = stored("a", "1.0.0", values="old: 1", helmOptions={"wait": True}, valuesFrom=[{"name": "x"}])
    found = deploy([wanted("a", "1.0.0")], [before], [])
    assert found.services == (stored("a", "1.0.0"),)
    assert found.holds == ()


def test_a_disabled_service_is_left_out_unless_it_is_in_flight() -> None:
    desired = [wanted(name, "2.0.0", disable=True, values="x") for name in "abc"]
    services = [stored("a", "2.0.0"), stored("b", "2.0.0")]
    found = deploy(desired, services, [settled("a", "2.0.0")])
    assert found.services == (stored("b", "2.0.0", values="x"),)
    assert [(hold.service.name, hold.reason) for hold in found.holds] == [
        ("a", HoldReason.DISABLED),
        ("c", HoldReason.DISABLED),
    ]


def test_a_disabled_service_that_is_as_desired_is_not_held() -> None:
    desired = [wanted("a", "2.0.0", disable=True)]
    assert deploy(desired, [stored("a", "2.0.0")], [settled("a", "2.0.0")]) == Resolution(services=(), holds=())


def test_a_hop_whose_version_is_its_name_is_resolved_later() -> None:
    entry = ServiceUpgradePaths.from_object(
        {
            "name": "a",
            "namespace": "default",
            "template": "t-1",
            "availableUpgrades": [{"versions": [{"name": "t-2", "version": "t-2"}, {"name": "t-3", "version": "t-3"}]}],
        }
    )
    states = [settled("a", "1")]
    (half,) = deploy([wanted("a", "3", chain="web")], [stored("a", "1")], states, [entry]).services
    assert (half.template, half.version) == ("t-2", "")
    (whole,) = deploy([wanted("a", "2", chain="web")], [stored("a", "1")], states, [entry]).services
    assert (whole.template, whole.version) == ("t-2", "2")


def test_those_in_flight_come_first_in_stored_order() -> None:
    desired = [wanted(name, "1.0.0") for name in "abcde"]
    services = [stored(name, "1.0.0") for name in "edcba"]
    found = deploy(desired, services, [settled("a", "1.0.0"), settled("c", "1.0.0"), settled("e", "1.0.0")])
    assert brief(found.services) == ["d 1.0.0", "b 1.0.0", "a 1.0.0", "c 1.0.0", "e 1.0.0"]


def test_the_namespace_becomes_explicit() -> None:
    found = deploy([wanted("a", "1.0.0")], [stored("a", "1.0.0", namespace="")], [settled("a", "1.0.0")])
    assert found.services[0].namespace == "default"


def test_services_that_are_not_eligible_are_left_alone() -> None:
    found = deploy([], [stored("a", "1.0.0")], [settled("a", "1.0.0")], [STEP_BY_STEP])
    assert found == Resolution(services=(), holds=())


@pytest.mark.parametrize(
    ("before", "filtered", "desired", "after"),
    [
        ([], ["a 1"], ["a"], ["a 1"]),
        (["a 1"], ["a 2"], ["a"], ["a 2"]),
        (["a 1", "b 1"], ["a 2"], ["a", "b"], ["a 2", "b 1"]),  # b is locked
        (["b 1", "a 1"], ["a 2"], ["a"], ["a 2"]),  # b was removed
        (["c 1", "b 1", "a 1"], [], ["a", "b", "c"], ["c 1", "b 1", "a 1"]),
        (["b 1", "c 1"], ["c 2", "a 1"], ["a", "b", "c"], ["c 2", "a 1", "b 1"]),
        (["a 1"], [], [], []),
        (["a 1"], [], ["b"], []),
        ([], [], ["a"], []),
    ],
)
def test_the_list_of_services(before: list[str], filtered: list[str], desired: list[str], after: list[str]) -> None:
    def services(texts: list[str]) -> list[ServiceWithValues]:
        return [stored(*text.split()) for text in texts]

    found = build_services_list(services(before), services(filtered), [wanted(name, "9") for name in desired])
    assert brief(found) == after


def test_locked_services_stay_verbatim() -> None:
    locked = stored("a", "1", namespace="", values="old", later={"x": None})
    (kept,) = build_services_list([locked], [], [wanted("a", "2", values="new")])
    assert kept.to_object() == locked.to_object()


def test_the_hops_that_are_given_count_without_a_chain() -> None:
    """The caller works them out; what the service says of its chain is not needed for them."""
    found = deploy([wanted("a", "2.0.0")], [stored("a", "1.0.0")], [settled("a", "1.0.0")], [STEP_BY_STEP])
    assert brief(found.services) == ["a 1.1.0"]


def test_hops_without_a_start_are_those_of_the_stored_template() -> None:
    entry = STEP_BY_STEP.changed(template="")
    desired = [wanted("a", "2.0.0", chain="c")]
    assert brief(deploy(desired, [stored("a", "1.0.0")], [settled("a", "1.0.0")], [entry]).services) == ["a 1.1.0"]


def test_a_service_that_is_stored_twice_is_kept_once() -> None:
    old, new = stored("a", "1.0.0", values="old"), stored("a", "1.0.0", values="new")
    assert build_services_list([old, new], [], [wanted("a", "1.0.0")]) == (new,)
