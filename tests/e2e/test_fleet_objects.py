"""What a real API server makes of the definitions of a fleet's objects."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any, Protocol

import pytest
import pytest_asyncio
from domain.servicesets.manifests import MANIFESTS as KCM
from kubernetes.aio import client as kube
from kubernetes.aio import config

from windlass.cli.importing.conversion import Credentials, convert

pytestmark = pytest.mark.stack

API = "/apis/windlass.dev/v1alpha1"
HERE = f"{API}/namespaces/default"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
AT = "2026-01-02T03:04:05Z"


class HasKubeconfig(Protocol):
    """What these tests need of the stack fixture."""

    kubeconfig: Any


class Api:
    """Plain requests, so that the server's own words are seen."""

    def __init__(self, api: kube.ApiClient) -> None:
        self._api = api

    async def call(
        self, method: str, path: str, body: Any = None, accept: str = "application/json", **query: str
    ) -> tuple[int, dict[str, Any]]:
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        request = await self._api.param_serialize(
            method,
            path,
            query_params=list(query.items()),
            header_params={"Accept": accept, "Content-Type": kind},
            body=body,
            auth_settings=["BearerToken"],
        )
        response = await self._api.call_api(*request)
        return response.status, json.loads(await response.read())


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def api(stack: HasKubeconfig) -> AsyncIterator[Api]:
    configuration = kube.Configuration()
    await config.load_kube_config(config_file=str(stack.kubeconfig), client_configuration=configuration)
    async with kube.ApiClient(configuration) as client:
        yield Api(client)


def made(kind: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": "windlass.dev/v1alpha1", "kind": kind, "metadata": {"name": "fleet-test"}, "spec": spec}


SERVICE = {"name": "web", "template": "web-1"}
HELM = {"chartSpec": {"chart": "web", "version": "1.0.0", "sourceRef": {"kind": "HelmRepository", "name": "catalog"}}}
ROLLOUT = {
    "canary": 1,
    "waves": ["5%", 3],
    "maxConcurrent": "25%",
    "failureBudget": 1,
    "soak": "1h30m",
    "approval": "AfterCanary",
    "orderBy": {"label": "ring", "values": ["0"]},
    "windows": [{"schedule": "0 22 * * 1-5", "duration": "6h", "timeZone": "Europe/Berlin"}],
}
MANIFESTS = {"localSourceRef": {"kind": "ConfigMap", "name": "a"}}
UPGRADES = [{"name": "b", "version": "1"}, {"name": "c"}]
EQUALS = {"matchExpressions": [{"key": "a", "operator": "Equals"}]}
FREEZE = {"since": AT, "reason": "end of the year"}
SERVICES = {
    "services": [{**SERVICE, "values": "a: 1", "dependsOn": [{"name": "db"}]}, {"name": "db", "template": "db"}]
}

OBJECTS: dict[str, tuple[str, dict[str, Any]]] = {
    "ServiceTemplate": (
        f"{HERE}/servicetemplates",
        made("ServiceTemplate", helm=HELM, helmOptions={"timeout": "5m0s"}),
    ),
    "ServiceTemplateChain": (
        f"{HERE}/servicetemplatechains",
        made(
            "ServiceTemplateChain",
            supportedTemplates=[{"name": "web-1", "availableUpgrades": [{"name": "web-2"}]}, {"name": "web-2"}],
        ),
    ),
    "ClusterDeployment": (
        f"{HERE}/clusterdeployments",
        made(
            "ClusterDeployment",
            kubeconfigSecret={"name": "edge"},
            serviceSpec=SERVICES,
            rollout={"windows": ROLLOUT["windows"], "approval": "EveryChange", "freeze": [FREEZE]},
        ),
    ),
    "MultiClusterService": (
        f"{API}/multiclusterservices",
        made(
            "MultiClusterService",
            clusterSelector={"matchLabels": {"stage": "prod"}},
            serviceSpec={**SERVICES, "provider": {"name": "windlass", "config": {"any": {"thing": [1]}}}},
            rollout=ROLLOUT,
        ),
    ),
    "ServiceSet": (
        f"{HERE}/servicesets",
        made("ServiceSet", cluster="edge", provider={"name": "windlass"}, services=[{**SERVICE, "version": "1.0.0"}]),
    ),
    "StateManagementProvider": (
        f"{API}/statemanagementproviders",
        made("StateManagementProvider", selector={"matchLabels": {"adapter": "windlass"}}),
    ),
}


@pytest_asyncio.fixture(loop_scope="session")
async def there(api: Api) -> AsyncIterator[None]:
    """One object of each kind."""
    for path, obj in OBJECTS.values():
        status, answer = await api.call("POST", path, obj, fieldValidation="Strict")
        assert status == 201, answer.get("message")
    yield
    for path, _ in OBJECTS.values():
        await api.call("DELETE", f"{path}/fleet-test")


READY = {"type": "Ready", "status": "True", "reason": "Succeeded", "message": "all good", "lastTransitionTime": AT}
STATUS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    # kind: (status, columns that it shows)
    "ServiceTemplate": ({"valid": True}, {"Valid": True}),
    "ServiceTemplateChain": (
        {"valid": False, "validationError": "it is wrong"},
        {"Valid": False, "ValidationError": "it is wrong"},
    ),
    "ClusterDeployment": (
        {"conditions": [READY, {**READY, "type": "ServicesInReadyState", "message": "1/2"}]},
        {"Ready": "True", "Services": "1/2", "Messages": "all good"},
    ),
    "MultiClusterService": (
        {
            "conditions": [{**READY, "type": "ClusterInReadyState", "message": "2/3"}],
            "matchingClusters": [{"name": "edge", "permit": {"generation": 1, "since": AT, "by": "rollout"}}],
            "pastSteps": [{"from": "web-1", "to": "web-2", "duration": "4m"}],
        },
        {"Clusters": "2/3", "Provider": "windlass"},
    ),
    "ServiceSet": (
        {"deployed": True, "services": [{**SERVICE, "namespace": "default", "state": "Deployed"}]},
        {"Cluster": "edge", "Provider": "windlass", "Deployed": True},
    ),
    "StateManagementProvider": ({"ready": True}, {"Ready": True, "Suspended": False}),
}


@pytest.mark.usefixtures("there")
@pytest.mark.parametrize("kind", STATUS)
async def test_status_is_a_subresource_and_the_table_shows_it(api: Api, kind: str) -> None:
    path, _ = OBJECTS[kind]
    status, shown = STATUS[kind]

    _, ignored = await api.call("PATCH", f"{path}/fleet-test", {"status": status})
    code, stored = await api.call("PATCH", f"{path}/fleet-test/status", {"status": status}, fieldValidation="Strict")
    _, table = await api.call("GET", f"{path}/fleet-test", accept=TABLE)

    assert "status" not in ignored
    assert code == 200, stored.get("message")
    assert stored["status"] == status
    (row,) = table["rows"]
    cells = {one["name"]: cell for one, cell in zip(table["columnDefinitions"], row["cells"], strict=True)}
    assert {name: cells[name] for name in shown} == shown


@pytest.mark.usefixtures("there")
@pytest.mark.parametrize(
    ("kind", "change", "refusal"),
    [
        ("ServiceTemplate", {"version": "2.0.0"}, "a ServiceTemplate cannot change"),
        ("ServiceTemplate", {"helm": {"chartSpec": {"version": "1.0.1"}}}, "a ServiceTemplate cannot change"),
        ("ServiceTemplate", {"helmOptions": None}, "a ServiceTemplate cannot change"),
        ("MultiClusterService", {"serviceSpec": {"provider": {"name": "other"}}}, "the provider cannot change"),
        ("ServiceSet", {"provider": {"name": "other"}}, "the provider cannot change"),
        ("ServiceTemplateChain", {"supportedTemplates": [{"name": "web-9"}]}, ""),
        ("MultiClusterService", {"rollout": {"soak": "2h"}}, ""),
    ],
)
async def test_what_can_change(api: Api, kind: str, change: dict[str, Any], refusal: str) -> None:
    status, answer = await api.call("PATCH", f"{OBJECTS[kind][0]}/fleet-test", {"spec": change})

    assert (status, refusal in answer.get("message", "")) == (422 if refusal else 200, True)


def chain(*templates: dict[str, Any]) -> dict[str, Any]:
    return made("ServiceTemplateChain", supportedTemplates=list(templates))


LARGEST = [
    {"name": f"t-{number}", "availableUpgrades": [{"name": f"t-{one}", "version": "1.0.0"} for one in range(10)]}
    for number in range(500)
]


@pytest.mark.parametrize(
    ("obj", "refusal"),
    [
        (chain(*LARGEST), ""),
        (chain({"name": "a"}, {"name": "a"}), "Duplicate value"),
        (chain({"name": "a", "availableUpgrades": UPGRADES}), "either all or none"),
        (chain({"name": "A_b"}), "spec.supportedTemplates[0].name"),
        (made("ServiceTemplate"), "exactly one of helm, kustomize and resources"),
        (made("ServiceTemplate", helm={}), "exactly one of chartSpec, chartRef and chartSource"),
        (made("ServiceTemplate", helm=HELM, resources=MANIFESTS), "exactly one"),
        (made("ServiceTemplate", resources=MANIFESTS), ""),
        (made("ServiceTemplate", kustomize={"remoteSourceSpec": {"git": {"url": "https://a"}}, "path": "./x"}), ""),
        (made("ServiceTemplate", kustomize={"remoteSourceSpec": {}}), "exactly one of git, bucket and oci"),
        (made("ServiceTemplate", helm=HELM, colour="red"), 'unknown field "spec.colour"'),
        (made("MultiClusterService", serviceSpec={"services": [SERVICE, SERVICE]}), "Duplicate value"),
        (made("MultiClusterService", serviceSpec={"services": [{**SERVICE, "name": "A"}]}), "services[0].name"),
        (made("MultiClusterService", serviceSpec={"priority": 0}), "spec.serviceSpec.priority"),
        (made("MultiClusterService", rollout={"waves": [0]}), "spec.rollout.waves[0]"),
        (made("MultiClusterService", rollout={"canary": "101%"}), "spec.rollout.canary"),
        (made("MultiClusterService", rollout={"soak": "soon"}), "spec.rollout.soak"),
        (made("MultiClusterService", clusterSelector=EQUALS), "operator"),
        (made("ClusterDeployment", rollout={"freeze": [{"since": AT}]}), "reason"),
        (made("ClusterDeployment", template="adopted-cluster-1-0", credential="edge", config={"any": 1}), ""),
    ],
)  # fmt: skip
async def test_what_a_schema_can_check(api: Api, obj: dict[str, Any], refusal: str) -> None:
    path, _ = OBJECTS[obj["kind"]]
    status, answer = await api.call("POST", path, obj, dryRun="All", fieldValidation="Strict")

    assert (status in {400, 422}, status == 201) == (bool(refusal), not refusal), answer.get("message")
    assert refusal in answer.get("message", "")


@pytest.mark.parametrize("kind", KCM)
async def test_what_is_imported_is_taken(api: Api, kind: str) -> None:
    document = {**KCM[kind], "metadata": {"name": "fleet-import"}}
    converted = convert(document, Credentials({}))

    status, answer = await api.call("POST", OBJECTS[kind][0], converted.object, dryRun="All", fieldValidation="Strict")

    assert status == 201, answer.get("message")


async def test_names_for_people(api: Api) -> None:
    _, served = await api.call("GET", API)
    short = {one["name"]: one.get("shortNames") for one in served["resources"]}

    assert short["multiclusterservices"] == ["mcs"]
    assert short["clusterdeployments"] == ["clusterd", "cld"]
    assert short["statemanagementproviders"] == ["smp"]
    assert {f"{path.rpartition('/')[2]}/status" for path, _ in OBJECTS.values()} <= short.keys()
