"""What a real API server makes of our CRDs."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any, Protocol

import pytest
import pytest_asyncio
from kubernetes.aio import client as kube
from kubernetes.aio import config

pytestmark = pytest.mark.stack

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
APPLICATIONS = "/apis/windlass.dev/v1alpha1/namespaces/default/applications"
REPOSITORIES = "/apis/windlass.dev/v1alpha1/packagerepositories"
LONG = "a" * 64
DRY_RUN = {"dryRun": "All", "fieldValidation": "Strict"}


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


def application(name: str = "shop", **spec: Any) -> dict[str, Any]:
    package = {"repository": "examples", "name": "webapp", "version": "1.0.0"}
    return {
        "apiVersion": "windlass.dev/v1alpha1",
        "kind": "Application",
        "metadata": {"name": name},
        "spec": {**spec, "package": {**package, **spec.get("package", {})}},
    }


def repository(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "windlass.dev/v1alpha1",
        "kind": "PackageRepository",
        "metadata": {"name": "crd-test"},
        "spec": spec,
    }


VALID = [
    application(),
    application(package={"version": "1.0.0-rc.1+build.7"}),
    *(
        application(package={"version": one})
        for one in ("^1.0", "~1.2 || 2.x", ">=1.28, <2", "1.2 - 2.0", "*", ">=2-0")
    ),
    application(package={"version": f"1.0.0@sha256:{'a' * 64}"}),
    application(settings={"any": {"thing": [1, "a", None, {"b": True}]}}, suspend=True, deleteOnDisable=True),
    application(valuesFrom=[{"kind": "Secret", "name": "s"}, {"kind": "ConfigMap", "name": "c", "targetPath": "a.b"}]),
    application(timeouts={"readiness": "1h30m"}, wait=False),
    application(name="a" * 63),
]


@pytest.mark.parametrize("obj", VALID)
async def test_valid_applications_are_accepted(api: Api, obj: dict[str, Any]) -> None:
    status, answer = await api.call("POST", APPLICATIONS, obj, **DRY_RUN)

    assert status == 201, answer.get("message")


INVALID = [
    (application(package={"version": "v1.0.0"}), "without a leading v"),
    (application(package={"version": "latest"}), "or a range of them"),
    (application(package={"version": "1.0.0-01"}), "must be a semantic version"),
    (application(package={"version": "1.0.0@sha256:abc"}), "must be a semantic version"),
    (application(package={"version": ">=1.2 ||"}), "or a range of them"),
    (application(package={"name": "../etc"}), "must be a DNS label"),
    (application(package={"repository": "A_b"}), "spec.package.repository"),
    (application(name=LONG), "at most 63 characters"),
    (application(name="a.b"), "must be a DNS label"),
    (application(valuesFrom=[{"kind": "Pod", "name": "x"}]), "spec.valuesFrom[0].kind"),
    (application(valuesFrom=[{"kind": "Secret", "name": "x", "targetPath": "a..b"}]), "spec.valuesFrom[0].targetPath"),
    (application(timeouts={"readiness": "10 minutes"}), "spec.timeouts.readiness"),
    (application(timeouts={"readiness": "25h"}), "between 1s and 24h"),
    (application(settings=[1]), "spec.settings"),
    (application(suspended=True), 'unknown field "spec.suspended"'),
]


@pytest.mark.parametrize(("obj", "message"), INVALID)
async def test_invalid_applications_are_refused_with_words(api: Api, obj: dict[str, Any], message: str) -> None:
    status, answer = await api.call("POST", APPLICATIONS, obj, **DRY_RUN)

    assert status in {400, 422}
    assert message in answer["message"]


def served(**allowed: Any) -> dict[str, Any]:
    return {"kind": "file", "file": {"path": "/srv"}, "allowedNamespaces": allowed}


def archives(*hosts: str) -> dict[str, Any]:
    return {"kind": "helm", "helm": {"url": "https://host/charts", "archiveHosts": list(hosts)}}


COSIGN = {"provider": "cosign", "key": {"secretRef": {"name": "cosign"}}}


@pytest.mark.parametrize(
    ("spec", "status", "message"),
    [
        ({"kind": "file", "file": {"path": "/srv/packages"}}, 201, ""),
        ({"kind": "file"}, 422, "spec.file is required"),
        ({"kind": "file", "file": {"path": "packages"}}, 422, "must be an absolute path"),
        ({"kind": "file", "file": {"path": "/srv/../etc"}}, 422, "without '..'"),
        ({"kind": "ftp"}, 422, "spec.kind"),
        ({"kind": "oci"}, 422, "spec.oci is required"),
        ({"kind": "oci", "oci": {"url": "oci://host:5000/a/b", "insecure": True}}, 201, ""),
        ({"kind": "oci", "oci": {"url": "https://host/a"}}, 422, "spec.oci.url"),
        ({"kind": "helm", "helm": {"url": "https://host/charts", "secretRef": {"name": "login"}}}, 201, ""),
        ({"kind": "helm", "helm": {"url": "http://host/charts"}}, 422, "must be https unless insecure"),
        ({"kind": "helm", "helm": {"url": "https://user:password@host"}}, 422, "spec.helm.url"),
        ({"kind": "http", "http": {"url": "https://host/{package}/{version}.tgz"}}, 201, ""),
        ({"kind": "http", "http": {"url": "https://host"}, "verify": COSIGN}, 422, "for kind oci only"),
        ({"kind": "oci", "oci": {"url": "oci://host/a"}, "verify": COSIGN}, 201, ""),
        (served(names=["a", "b"], selector={"matchLabels": {"a": "b"}}), 201, ""),
        (served(selector={"matchExpressions": [{"key": "a", "operator": "Exists"}]}), 201, ""),
        (served(**{"from": "All"}), 201, ""),
        (served(**{"from": "All", "names": ["a"]}), 422, "from: All goes without names and selector"),
        (served(selector={}), 422, "an empty selector selects all namespaces: write from: All"),
        (served(selector={"matchLabels": {}}), 422, "write from: All"),
        (served(selector={"matchExpressions": [{"key": "a", "operator": "Gt"}]}), 422, "operator"),
        (served(names=["A_b"]), 422, "spec.allowedNamespaces.names"),
        (served(**{"from": "Same"}), 422, "spec.allowedNamespaces.from"),
        ({"kind": "file", "file": {"path": "/srv"}, "hooks": "Deny"}, 201, ""),
        ({"kind": "file", "file": {"path": "/srv"}, "hooks": "deny"}, 422, "spec.hooks"),
        (archives("cdn.example.com", "cdn.example.com:8443", "*"), 201, ""),
        (archives("https://cdn.example.com"), 422, "spec.helm.archiveHosts"),
        (archives("cdn.example.com/path"), 422, "spec.helm.archiveHosts"),
    ],
)
async def test_repositories(api: Api, spec: dict[str, Any], status: int, message: str) -> None:
    code, answer = await api.call("POST", REPOSITORIES, repository(**spec), **DRY_RUN)

    assert code == status
    assert message in answer.get("message", "")


@pytest_asyncio.fixture(loop_scope="session")
async def shop(api: Api) -> AsyncIterator[str]:
    await api.call("POST", APPLICATIONS, application("crd-test"))
    yield f"{APPLICATIONS}/crd-test"
    await api.call("DELETE", f"{APPLICATIONS}/crd-test")


async def test_an_application_cannot_become_another_package(api: Api, shop: str) -> None:
    changed, _ = await api.call("PATCH", shop, {"spec": {"package": {"version": "1.1.0"}}})
    refused, answer = await api.call("PATCH", shop, {"spec": {"package": {"name": "other"}}})

    assert (changed, refused) == (200, 422)
    assert "cannot change" in answer["message"]


async def test_status_is_a_subresource_and_the_table_shows_it(api: Api, shop: str) -> None:
    at = "2026-01-02T03:04:05Z"
    ready = {"type": "Ready", "status": "False", "reason": "DownloadFailed", "message": "m", "lastTransitionTime": at}
    status = {"version": "1.0.0", "phase": "Running", "step": "download", "conditions": [ready]}

    _, ignored = await api.call("PATCH", shop, {"status": status})
    _, stored = await api.call("PATCH", f"{shop}/status", {"status": status})
    _, table = await api.call("GET", shop, accept=TABLE)

    assert "status" not in ignored
    assert stored["status"] == status
    (row,) = table["rows"]
    columns = [(column["name"], column["priority"]) for column in table["columnDefinitions"]]
    shown = {name: cell for (name, _), cell in zip(columns, row["cells"], strict=True) if name != "Age"}
    assert shown == {
        "Name": "crd-test",
        "Package": "webapp",
        "Version": "1.0.0",
        "Phase": "Running",
        "Step": "download",
        "Ready": "False",
        "Reason": "DownloadFailed",
        "Message": "m",
    }
    assert [name for name, priority in columns if priority] == ["Package", "Step", "Message"]


async def test_names_for_people(api: Api) -> None:
    _, served = await api.call("GET", "/apis/windlass.dev/v1alpha1")
    by_name = {entry["name"]: entry for entry in served["resources"]}

    assert by_name["applications"]["shortNames"] == ["wapp"]
    assert by_name["packagerepositories"]["shortNames"] == ["prepo"]
    assert by_name["applications"]["categories"] == ["windlass"]
    assert "applications/status" in by_name
