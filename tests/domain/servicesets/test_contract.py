"""Every exported item of the contract has a counterpart that says what it does."""

from __future__ import annotations

import inspect
from dataclasses import fields, is_dataclass
from typing import Any, Final

import pytest

import windlass.servicesets
from windlass.domain.servicesets import models, operation
from windlass.servicesets import Builder, OperationRequisites, Processor

COUNTERPARTS: Final[dict[str, str]] = {
    "BuildServicesList": "build_services_list",
    "FilterServiceDependencies": "filter_service_dependencies",
    "GetServiceSetWithOperation": "get_service_set_with_operation",
    "ObjectKey": "object_key",
    "ResolveServiceVersions": "resolve_service_versions",
    "ResolveServicesToApply": "resolve_services_to_apply",
    "ServiceKey": "service_key",
    "ServicesToDeploy": "services_to_deploy",
    "ServicesUpgradePaths": "services_upgrade_paths",
    "ServicesWithDesiredChains": "services_with_desired_chains",
    "StateManagementProviderConfigFromServiceSpec": "state_management_provider_config_from_service_spec",
    "Builder": "Builder",
    "NewBuilder": "Builder",
    "Builder.Build": "Builder.build",
    "Builder.WithMultiClusterService": "Builder.with_multi_cluster_service",
    "Builder.WithServicesToDeploy": "Builder.with_services_to_deploy",
    "OperationRequisites": "OperationRequisites",
    "Processor": "Processor",
    "NewProcessor": "Processor",
    "Processor.CreateOrUpdateServiceSet": "Processor.create_or_update_service_set",
    # of the API package, as the issue names them
    "ServiceTemplateChain.UpgradePaths": "upgrade_paths",
    "ServiceTemplateChain.IsValid": "validate_chain",
    "ServiceSetOperation": "ServiceSetOperation",
    "ServiceTemplate": "ServiceTemplate",
    "ServiceTemplateChain": "ServiceTemplateChain",
    "ServiceSpec": "ServiceSpec",
    "Service": "Service",
    "ServiceWithValues": "ServiceWithValues",
    "ServiceState": "ServiceState",
    "ServiceUpgradePaths": "ServiceUpgradePaths",
    "ServiceSet": "ServiceSet",
    "ClusterDeployment": "ClusterDeployment",
    "MultiClusterService": "MultiClusterService",
    "StateManagementProvider": "StateManagementProvider",
    "StateManagementProviderConfig": "StateManagementProviderConfig",
}
"""Item of the contract to its name below `windlass.servicesets`."""

FIELDS: Final[dict[type, set[str]]] = {
    # ServiceSet, ClusterDeployment, MultiClusterService, Selector, ServicesToDeploy
    Builder: {"service_set", "cluster_deployment", "multi_cluster_service", "selector", "services"},
    # ObjectKey, MCS, CD, SystemNamespace
    OperationRequisites: {"object_key", "multi_cluster_service", "cluster_deployment", "system_namespace"},
    # ProviderSpec, Services; no client: nothing here reads or writes
    Processor: {"provider_spec", "services"},
}


def counterpart(name: str) -> Any:
    found: Any = windlass.servicesets
    for part in name.split("."):
        found = getattr(found, part)
    return found


@pytest.mark.parametrize("item", COUNTERPARTS)
def test_it_is_there_and_says_what_it_does(item: str) -> None:
    found = counterpart(COUNTERPARTS[item])
    assert inspect.getdoc(found), f"{COUNTERPARTS[item]} has no docstring"
    assert COUNTERPARTS[item].partition(".")[0] in windlass.servicesets.__all__


@pytest.mark.parametrize("kind", FIELDS, ids=lambda kind: kind.__name__)
def test_types_have_the_fields_of_the_contract(kind: type) -> None:
    assert is_dataclass(kind)
    assert {field.name for field in fields(kind)} == FIELDS[kind]


def test_what_is_public_is_there() -> None:
    assert sorted(windlass.servicesets.__all__) == list(windlass.servicesets.__all__)
    assert all(hasattr(windlass.servicesets, name) for name in windlass.servicesets.__all__)


def test_every_model_is_public() -> None:
    named = {
        name
        for name, item in vars(models).items()
        if inspect.isclass(item) and item.__module__ == models.__name__ and not name.startswith("_")
    }
    assert named <= set(windlass.servicesets.__all__)


def test_operations_are_those_of_the_contract() -> None:
    assert [one.value for one in operation.ServiceSetOperation] == ["create", "update", "none"]
