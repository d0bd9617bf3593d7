"""Where stored services may go (kcm.md section 2: ServicesWithDesiredChains, ServicesUpgradePaths)."""

from __future__ import annotations

from domain.servicesets.words import NAMESPACE, chain, stored, template_of, wanted

from windlass.domain.servicesets.snapshot import key_of
from windlass.servicesets import (
    ChainNotFoundError,
    Service,
    ServiceTemplateChain,
    ServiceUpgradePaths,
    TemplateNotInChainError,
    services_upgrade_paths,
    services_with_desired_chains,
)

WEB = chain("web", {"1": ["2"], "2": ["3"], "3": []})
CHAINS = {key_of(WEB): WEB}


def service(name: str, version: str, chain_name: str = "") -> Service:
    return Service(name=name, namespace="default", template=template_of(version), template_chain=chain_name)


def routes(entry: ServiceUpgradePaths) -> list[str]:
    return [" ".join(f"{step.name}@{step.version}" for step in path.versions) for path in entry.available_upgrades]


def test_stored_services_with_the_chains_wanted_for_them() -> None:
    desired = [wanted("a", "3", chain="web"), wanted("b", "1"), wanted("new", "1", chain="web")]
    found = services_with_desired_chains(
        desired, [stored("gone", "1"), stored("b", "1"), stored("a", "2", namespace="", values="x: 1")]
    )
    assert found == (service("gone", "1"), service("b", "1"), service("a", "2", "web"))


def test_a_name_in_another_namespace_is_another_service() -> None:
    desired = [wanted("a", "3", chain="web", namespace="web")]
    assert services_with_desired_chains(desired, [stored("a", "2")]) == (service("a", "2"),)


def test_a_service_without_a_chain_has_one_route_which_is_its_template() -> None:
    found = services_upgrade_paths([service("a", "1"), service("b", "1").changed(version="1.0.0")], NAMESPACE, CHAINS)
    assert found.errors == ()
    assert [routes(entry) for entry in found.paths] == [["t-1@t-1"], ["t-1@1.0.0"]]


def test_routes_along_the_chain_start_at_the_stored_template() -> None:
    found = services_upgrade_paths([service("a", "1", "web"), service("b", "3", "web")], NAMESPACE, CHAINS)
    assert found.errors == ()
    assert [(entry.name, entry.template, routes(entry)) for entry in found.paths] == [
        ("a", "t-1", ["t-2@2", "t-2@2 t-3@3"]),
        ("b", "t-3", []),
    ]


def test_the_name_stands_in_for_a_version_that_the_chain_does_not_say() -> None:
    plain = ServiceTemplateChain.from_object(
        {
            "metadata": {"namespace": NAMESPACE, "name": "plain"},
            "spec": {"supportedTemplates": [{"name": "t-1", "availableUpgrades": [{"name": "t-2"}]}, {"name": "t-2"}]},
        }
    )
    found = services_upgrade_paths([service("a", "1", "plain")], NAMESPACE, {key_of(plain): plain})
    assert [routes(entry) for entry in found.paths] == [["t-2@t-2"]]


def test_what_is_wrong_with_one_service_leaves_the_others() -> None:
    found = services_upgrade_paths(
        [service("a", "1", "gone"), service("b", "2", "web"), service("c", "9", "web"), service("d", "9", "web")],
        NAMESPACE,
        CHAINS,
    )
    assert [entry.name for entry in found.paths] == ["b"]
    missing, *outside = found.errors
    assert isinstance(missing, ChainNotFoundError)
    assert (missing.chain, missing.service) == (("prod", "gone"), ("default", "a"))
    assert all(isinstance(error, TemplateNotInChainError) for error in outside)
    assert [str(error) for error in outside] == [
        f"template t-9 of service default/{name} is not in supportedTemplates of ServiceTemplateChain prod/web "
        "(name a chain that lists it)"
        for name in "cd"
    ]


def test_chains_of_other_namespaces_do_not_count() -> None:
    found = services_upgrade_paths([service("a", "1", "web")], "dev", CHAINS)
    assert [type(error) for error in found.errors] == [ChainNotFoundError]
    assert found.paths == ()


def test_the_status_of_a_chain_does_not_count() -> None:
    invalid = WEB.changed(status=WEB.status.changed(valid=False))
    assert services_upgrade_paths([service("a", "1", "web")], NAMESPACE, {key_of(WEB): invalid}).errors == ()
