"""Decisions on whole ServiceSets: the table and the corner cases of the contract (kcm.md section 2)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from domain.servicesets.words import (
    NAMESPACE,
    PROVIDER,
    SYSTEM,
    brief,
    chain,
    cluster,
    mcs,
    own,
    reported,
    service_set,
    snapshot,
    stored,
    wanted,
)

from windlass.servicesets import (
    ChainNotFoundError,
    DependencyNotDesiredError,
    HoldReason,
    ObjectKey,
    OperationRequisites,
    PriorityOutOfRangeError,
    ProviderNotFoundError,
    SelectorInvalidError,
    SelectorMissingError,
    Service,
    ServiceSet,
    ServiceSetDecision,
    ServiceSetError,
    ServiceSetOperation,
    ServiceState,
    ServiceTemplateChain,
    ServiceWithValues,
    Snapshot,
    StateManagementProvider,
    TemplateNotFoundError,
    TemplateNotInChainError,
    UpgradePathsError,
    get_service_set_with_operation,
    object_key,
    resolve_services_to_apply,
    upgrade_condition,
)

VERSIONS = ["1.0.0", "1.1.0", "1.2.0", "2.0.0"]
WEB = chain("web", {"1.0.0": ["1.1.0"], "1.1.0": ["1.2.0"], "1.2.0": ["2.0.0"], "2.0.0": []})
BUILT = {"provider": {"name": "ksm-projectsveltos", "config": {}}}


def decide(
    desired: list[Service],
    services: list[ServiceWithValues] | None = None,
    states: list[ServiceState] | None = None,
    objects: list[Any] | None = None,
) -> ServiceSetDecision:
    """The decision on a cluster's own services; no ServiceSet yet if ``services`` is None."""
    sets = [] if services is None else [service_set(services, states or [], **BUILT)]
    taken = snapshot(WEB, *sets, *(objects or []), versions=VERSIONS)
    return get_service_set_with_operation(taken, own(cluster(*desired)))


def told(decision: ServiceSetDecision) -> list[tuple[str, str]]:
    return [(hold.service.name, hold.reason.value) for hold in decision.holds]


def a(version: str = "1.0.0", **fields: Any) -> Service:
    return wanted("a", version, **fields)


def b(version: str = "1.0.0", **fields: Any) -> Service:
    return wanted("b", version, "a", chain="web", **fields)


LOCKED = stored("b", "1.0.0", values="old")
DONE = reported("b", "Deployed", "1.0.0")

IN_ONE_TABLE: dict[str, tuple[Callable[[], ServiceSetDecision], ServiceWithValues | None, list[tuple[str, str]]]] = {
    "dependency not satisfied, not stored": (
        lambda: decide([a(), b()], [stored("a", "1.0.0")], [reported("a", "Provisioning", "1.0.0")]),
        None,
        [("b", "DependencyNotReady")],
    ),
    "dependency not satisfied, stored": (
        lambda: decide(
            [a(), b("1.2.0", values="new")],
            [stored("a", "1.0.0"), LOCKED],
            [reported("a", "Provisioning", "1.0.0"), DONE],
        ),
        LOCKED,
        [("b", "DependencyNotReady")],
    ),
    "dependency failed": (
        lambda: decide(
            [a(values="fixed"), b("1.2.0", values="new")],
            [stored("a", "1.0.0", values="broken"), LOCKED],
            [reported("a", "Failed", "1.0.0"), DONE],
        ),
        LOCKED,
        [("b", "DependencyNotReady")],
    ),
    "dependency newly added": (
        lambda: decide([a(), b("1.0.0", values="new")], [LOCKED], [DONE]),
        LOCKED,
        [("b", "DependencyNotReady")],
    ),
    "in flight": (
        lambda: decide(
            [a(), b("1.2.0", values="new")],
            [stored("a", "1.0.0"), stored("b", "1.1.0", values="old")],
            [reported("a", "Deployed", "1.0.0"), reported("b", "Deployed", "1.0.0")],
        ),
        stored("b", "1.1.0", values="new"),
        [("b", "UpgradeInFlight")],
    ),
    "upgrade failed": (
        lambda: decide(
            [a(), b("1.1.0")],
            [stored("a", "1.0.0"), stored("b", "1.1.0")],
            [reported("a", "Deployed", "1.0.0"), reported("b", "Failed", "1.0.0")],
        ),
        stored("b", "1.1.0"),
        [],
    ),
    "upgrade failed and the old version is wanted back": (
        lambda: decide(
            [a(), b("1.0.0")],
            [stored("a", "1.0.0"), stored("b", "1.1.0")],
            [reported("a", "Deployed", "1.0.0"), reported("b", "Failed", "1.0.0")],
        ),
        stored("b", "1.1.0"),
        [("b", "UpgradeInFlight")],
    ),
    "desired moved while in flight": (
        lambda: decide(
            [a(), b("2.0.0")],
            [stored("a", "1.0.0"), stored("b", "1.1.0")],
            [reported("a", "Deployed", "1.0.0"), reported("b", "Provisioning", "1.1.0")],
        ),
        stored("b", "1.1.0"),
        [("b", "UpgradeInFlight")],
    ),
    "the hop is deployed": (
        lambda: decide(
            [a(), b("2.0.0")],
            [stored("a", "1.0.0"), stored("b", "1.1.0")],
            [reported("a", "Deployed", "1.0.0"), reported("b", "Deployed", "1.1.0")],
        ),
        stored("b", "1.2.0"),
        [],
    ),
    "disabled": (
        lambda: decide(
            [a(), b("1.1.0", disable=True, values="new")],
            [stored("a", "1.0.0"), LOCKED],
            [reported("a", "Deployed", "1.0.0"), DONE],
        ),
        LOCKED,
        [("b", "Disabled")],
    ),
    "removed": (
        lambda: decide([a()], [stored("a", "1.0.0"), LOCKED], [reported("a", "Deployed", "1.0.0"), DONE]),
        None,
        [],
    ),
}


@pytest.mark.parametrize("situation", IN_ONE_TABLE)
def test_in_one_table(situation: str) -> None:
    look, entry, holds = IN_ONE_TABLE[situation]
    decision = look()
    assert next((one for one in decision.service_set.spec.services if one.name == "b"), None) == entry
    assert told(decision) == holds


def test_a_failed_dependency_itself_takes_its_fix() -> None:
    look, _, _ = IN_ONE_TABLE["dependency failed"]
    assert look().service_set.spec.services[0] == stored("a", "1.0.0", values="fixed")


def test_a_removed_dependency_that_is_still_named_is_an_error() -> None:
    with pytest.raises(DependencyNotDesiredError):
        decide([b()], [stored("a", "1.0.0"), LOCKED], [DONE])


def test_a_dependency_is_waited_for_until_it_stands_at_its_own_target() -> None:
    desired = [a("1.2.0", chain="web"), b("1.1.0")]
    services, states = [stored("a", "1.0.0"), stored("b", "1.0.0")], [reported("a", "Deployed", "1.0.0"), DONE]
    decision = decide(desired, services, states)
    assert brief(decision.service_set.spec.services) == ["a 1.1.0", "b 1.0.0"]
    assert decision.holds[0].message == "service default/b waits for default/a (at 1.0.0, not 1.2.0)"
    decision = decide(desired, [stored("a", "1.2.0"), services[1]], [reported("a", "Deployed", "1.2.0"), DONE])
    assert brief(decision.service_set.spec.services) == ["a 1.2.0", "b 1.1.0"]


def test_a_held_service_that_is_as_desired_is_not_told() -> None:
    decision = decide(
        [a(), b()], [stored("a", "1.0.0"), stored("b", "1.0.0")], [reported("a", "Failed", "1.0.0"), DONE]
    )
    assert (decision.operation, decision.holds) == (ServiceSetOperation.NONE, ())


def test_no_route_holds_and_says_so_in_a_condition() -> None:
    down = chain("web", {"1.0.0": [], "2.0.0": []})
    held = service_set([stored("a", "1.0.0", values="old")], [reported("a", "Deployed", "1.0.0")], **BUILT)
    taken = snapshot(down, held, versions=VERSIONS)
    decision = get_service_set_with_operation(taken, own(cluster(a("2.0.0", chain="web", values="new"))))
    assert decision.operation is ServiceSetOperation.NONE
    assert decision.service_set == held
    assert told(decision) == [("a", "NoUpgradeRoute")]
    assert upgrade_condition(decision.holds).to_object() == {
        "type": "ServicesUpgradesPermitted",
        "status": "False",
        "reason": "NoUpgradeRoute",
        "message": "service default/a stays at t-1-0-0 1.0.0: chain web has no route from it to t-2-0-0",
    }
    assert upgrade_condition(()).status == "True"


def test_one_service_without_a_route_does_not_stop_the_others() -> None:
    down = chain("down", {"1.0.0": [], "2.0.0": []})
    services = [stored("a", "1.0.0"), stored("z", "1.0.0")]
    states = [reported("a", "Deployed", "1.0.0"), reported("z", "Deployed", "1.0.0")]
    decision = decide([a("2.0.0", chain="down"), wanted("z", "1.1.0", chain="web")], services, states, [down])
    assert sorted(brief(decision.service_set.spec.services)) == ["a 1.0.0", "z 1.1.0"]


def test_a_new_service_set() -> None:
    decision = decide([a("2.0.0", chain="web"), b()])
    assert decision.operation is ServiceSetOperation.CREATE
    assert decision.service_set.metadata.namespace == NAMESPACE
    assert decision.service_set.metadata.resource_version == ""
    assert brief(decision.service_set.spec.services) == ["a 2.0.0"]
    assert told(decision) == [("b", "DependencyNotReady")]


def test_nothing_to_do_leaves_the_object_as_it_is() -> None:
    stale = service_set([stored("a", "1.0.0")], [reported("a", "Deployed", "1.0.0")], **BUILT)
    decision = get_service_set_with_operation(snapshot(stale, versions=VERSIONS), own(cluster(a())))
    assert decision.operation is ServiceSetOperation.NONE
    assert decision.service_set is stale  # labels and owners alone are no reason to write


def test_the_order_of_services_is_no_difference() -> None:
    services = [stored("b", "1.0.0"), stored("a", "1.0.0")]
    states = [reported("a", "Deployed", "1.0.0"), reported("b", "Provisioning", "1.0.0")]
    assert decide([a(), wanted("b", "1.0.0")], services, states).operation is ServiceSetOperation.NONE


def test_absent_null_and_empty_are_no_difference() -> None:
    loose = ServiceWithValues.from_object(
        {"name": "a", "namespace": None, "template": "t-1-0-0", "version": "1.0.0", "values": None, "valuesFrom": []}
    )
    assert decide([a()], [loose], [reported("a", "Deployed", "1.0.0")]).operation is ServiceSetOperation.NONE


def test_a_stored_version_that_is_missing_is_no_difference() -> None:
    services = [stored("a", "1.0.0").changed(version="")]
    decision = decide([a(), b()], services, [reported("a", "Deployed", "1.0.0")])
    assert brief(decision.service_set.spec.services) == ["a 1.0.0", "b 1.0.0"]
    assert decide([a()], services, [reported("a", "Deployed", "1.0.0")]).operation is ServiceSetOperation.NONE


@pytest.mark.parametrize(
    "spec",
    [
        {"provider": {"name": "ksm-projectsveltos", "config": {"priority": 7}}},
        {"provider": {"name": "ksm-projectsveltos", "config": {}, "selfManagement": True}},
        {**BUILT, "multiClusterService": ""},
    ],
)
def test_the_rest_of_the_spec_counts_too(spec: dict[str, Any]) -> None:
    other = service_set([stored("a", "1.0.0")], [reported("a", "Deployed", "1.0.0")], **spec)
    decision = get_service_set_with_operation(snapshot(other, versions=VERSIONS), own(cluster(a())))
    same = "multiClusterService" in spec
    assert decision.operation is (ServiceSetOperation.NONE if same else ServiceSetOperation.UPDATE)
    assert decision.service_set.spec.provider.to_object() == BUILT["provider"]


def test_an_empty_list_empties_the_service_set() -> None:
    decision = decide([], [stored("a", "1.0.0")])
    assert decision.operation is ServiceSetOperation.UPDATE
    assert decision.service_set.spec.services == ()


def test_an_update_keeps_what_the_precondition_needs() -> None:
    decision = decide([a("1.1.0", chain="web")], [stored("a", "1.0.0")], [reported("a", "Deployed", "1.0.0")])
    assert decision.operation is ServiceSetOperation.UPDATE
    assert decision.service_set.metadata.resource_version == "7"
    assert decision.service_set.metadata.labels == {"adapter": "sveltos"}


def test_the_services_of_a_multi_cluster_service_on_a_cluster_and_on_the_management_cluster() -> None:
    owner = mcs("mesh", wanted("m", "1.0.0"))
    for place, namespace, name in (
        (cluster(a()), NAMESPACE, "edge-52c9d1cd"),
        (None, SYSTEM, "management-52c9d1cd"),
    ):
        key = object_key(SYSTEM, place, owner)
        requisites = OperationRequisites(
            object_key=key, multi_cluster_service=owner, cluster_deployment=place, system_namespace=SYSTEM
        )
        decision = get_service_set_with_operation(snapshot(), requisites)
        assert key.namespace == namespace
        assert key.name.partition("-")[0] == name.partition("-")[0]
        assert brief(decision.service_set.spec.services) == ["m 1.0.0"]
        assert decision.service_set.spec.multi_cluster_service == "mesh"
        assert decision.service_set.spec.cluster == ("edge" if place else "")
        assert decision.service_set.spec.provider.self_management is (place is None)


def test_a_hop_without_a_version_gets_that_of_its_template() -> None:
    plain = chain("web", {"1.0.0": [], "1.1.0": [], "1.2.0": []}).to_object()
    plain["spec"]["supportedTemplates"][0]["availableUpgrades"] = [{"name": "t-1-1-0"}]
    plain["spec"]["supportedTemplates"][1]["availableUpgrades"] = [{"name": "t-1-2-0"}]
    taken = snapshot(
        type(WEB).from_object(plain),
        service_set([stored("a", "1.0.0")], [reported("a", "Deployed", "1.0.0")]),
        versions=VERSIONS,
    )
    decision = get_service_set_with_operation(taken, own(cluster(a("1.2.0", chain="web"))))
    assert brief(decision.service_set.spec.services) == ["a 1.1.0"]


def test_a_step_of_the_list_alone() -> None:
    stale = service_set([stored("a", "1.0.0")], [reported("a", "Deployed", "1.0.0")])
    step = resolve_services_to_apply(
        snapshot(stale, WEB, versions=VERSIONS), SYSTEM, None, cluster(), [a("1.2.0", chain="web")], stale
    )
    assert brief(step.services) == ["a 1.1.0"]


# -- what stops the whole set ------------------------------------------------------------------------------------------


def refuse(error: type[Exception], taken: Snapshot, *services: Service, **spec: Any) -> Any:
    with pytest.raises(error) as raised:
        get_service_set_with_operation(taken, own(cluster(*services, **spec)))
    return raised.value


def test_the_provider_has_to_exist_and_to_select() -> None:
    missing = refuse(ProviderNotFoundError, snapshot(), a(), provider={"name": "flux"})
    assert str(missing).startswith("StateManagementProvider flux of ServiceSet prod/edge does not exist")
    blind = StateManagementProvider.from_object({"metadata": {"name": "flux"}, "spec": {}})
    refused = refuse(SelectorMissingError, snapshot(blind), a(), provider={"name": "flux"})
    assert "selector of StateManagementProvider flux is missing" in str(refused)


def test_other_errors_pass() -> None:
    assert refuse(PriorityOutOfRangeError, snapshot(), priority=0).priority == 0
    assert refuse(TemplateNotFoundError, snapshot(), a().changed(version="")).template == ("prod", "t-1-0-0")


def test_chains_that_are_missing_or_lack_a_stored_template_stop_the_set_and_are_told_together() -> None:
    services = [stored("a", "1.0.0"), stored("b", "9.0.0"), stored("c", "1.0.0")]
    taken = snapshot(service_set(services), WEB)
    desired = [a(chain="gone"), wanted("b", "1.0.0", chain="web"), wanted("c", "1.0.0", chain="web")]
    refused = refuse(UpgradePathsError, taken, *desired)
    errors = refused.errors
    assert isinstance(refused, ServiceSetError)
    assert refused.reason == "ChainNotFound"
    assert str(refused) == (
        "ServiceTemplateChain prod/gone of service default/a does not exist; template t-9-0-0 of service default/b"
        " is not in supportedTemplates of ServiceTemplateChain prod/web (create it in namespace prod, or name another"
        " chain; name a chain that lists it)"
    )
    assert [type(error) for error in errors] == [ChainNotFoundError, TemplateNotInChainError]
    assert refuse(UpgradePathsError, snapshot(service_set(services[:1])), a(chain="gone")).errors[0].chain == (
        "prod",
        "gone",
    )


def test_the_provider_has_to_select_what_labels_can_satisfy() -> None:
    odd = StateManagementProvider.from_object(
        {
            "metadata": {"name": "flux"},
            "spec": {"selector": {"matchExpressions": [{"key": "a", "operator": "Equals", "values": ["1"]}]}},
        }
    )
    refused = refuse(SelectorInvalidError, snapshot(odd), a(), provider={"name": "flux"})
    assert str(refused).startswith(
        "ServiceSet prod/edge cannot be built: the selector of StateManagementProvider flux has the operator 'Equals'"
    )


def test_a_hop_whose_template_is_missing_is_laid_to_the_chain() -> None:
    route = chain("web", {"1.0.0": ["1.1.0"], "1.1.0": ["2.0.0"], "2.0.0": []}).to_object()
    for one in route["spec"]["supportedTemplates"]:
        one["availableUpgrades"] = [{"name": edge["name"]} for edge in one["availableUpgrades"]]
    there = service_set([stored("a", "1.0.0")], [reported("a", "Deployed", "1.0.0")])
    taken = snapshot(there, ServiceTemplateChain.from_object(route), versions=["1.0.0", "2.0.0"])
    refused = refuse(TemplateNotFoundError, taken, wanted("a", "2.0.0", chain="web"))
    assert str(refused) == (
        "ServiceTemplate prod/t-1-1-0 does not exist: it is the next hop of service default/a on ServiceTemplateChain"
        " prod/web (create it in namespace prod, or change the chain)"
    )


def test_a_service_that_is_stored_twice_is_repaired_once() -> None:
    entry = stored("a", "1.0.0")
    twice = service_set([entry, entry], [reported("a", "Deployed", "1.0.0")], **BUILT)
    first = get_service_set_with_operation(snapshot(twice), own(cluster(a())))
    assert (first.operation, brief(first.service_set.spec.services)) == ("update", ["a 1.0.0"])
    second = get_service_set_with_operation(snapshot(first.service_set), own(cluster(a())))
    assert second.operation == "none"


def test_a_service_set_belongs_to_somebody() -> None:
    requisites = OperationRequisites(object_key=ObjectKey("prod", "x"), system_namespace=SYSTEM)
    with pytest.raises(ValueError, match="belongs to a cluster"):
        get_service_set_with_operation(Snapshot.of([PROVIDER]), requisites)


def test_the_snapshot_may_hold_what_others_need() -> None:
    other = ServiceSet.from_object({"metadata": {"namespace": NAMESPACE, "name": "core"}, "spec": {"cluster": "core"}})
    assert decide([a()], None, None, [other, cluster()]).operation is ServiceSetOperation.CREATE


def test_holds_come_by_service() -> None:
    names = ["c", "a", "b"]
    desired = [wanted(name, "2.0.0", chain="web") for name in names]
    decision = decide(desired, [stored(name, "1.1.0") for name in names], [])
    assert [hold.service.name for hold in decision.holds] == ["a", "b", "c"]
    assert {hold.reason for hold in decision.holds} == {HoldReason.UPGRADE_IN_FLIGHT}
