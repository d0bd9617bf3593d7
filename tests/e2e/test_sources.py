"""Packages from registries and web servers, as a user sees them."""

from __future__ import annotations

import base64
import contextlib
import json
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web
from aiohttp.test_utils import TestServer
from aiohttp.typedefs import Handler
from temporalio.service import RPCError

from support.installation import Installation, condition, write_greeter, write_package
from support.packages import tgz_of
from support.registry import PASSWORD, USER, RunningRegistry, registry
from support.running import keep, keep_workflow
from support.waiting import eventually
from windlass.adapters.packages.sources.push import push
from windlass.domain.ids import API_VERSION, INSTALLATION_LABEL, SYSTEM_NAMESPACE, repository_workflow_id
from windlass.ports.kube import Object, ObjectRef


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningRegistry]:
    with registry(tmp_path_factory.mktemp("registry"), secured=True) as running:
        yield running


@pytest.fixture(autouse=True)
async def clean(installation: Installation) -> AsyncIterator[None]:
    """Take away what lives outside the installation's namespace."""
    await installation.kube.apply(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SYSTEM_NAMESPACE}}, field_manager="tests"
    )
    yield
    catalog = repository_workflow_id(installation.name, f"repo-{installation.name}")
    with contextlib.suppress(RPCError):  # it may have ended, or never begun
        await installation.client.get_workflow_handle(catalog).terminate("end of test")
    for kind in ("login", "tls"):
        await installation.kube.delete(
            ObjectRef(api_version="v1", kind="Secret", namespace=SYSTEM_NAMESPACE, name=f"{kind}-{installation.name}")
        )


async def repository(installation: Installation, **spec: Any) -> str:
    name = f"repo-{installation.name}"
    await installation.apply(
        {
            "apiVersion": API_VERSION,
            "kind": "PackageRepository",
            "metadata": {"name": name, "labels": {INSTALLATION_LABEL: installation.name}},
            "spec": spec,
        }
    )
    return name


async def secret(installation: Installation, kind: str, type_: str, data: dict[str, bytes]) -> str:
    name = f"{kind}-{installation.name}"
    await installation.apply(
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "type": type_,
            "metadata": {"name": name, "namespace": SYSTEM_NAMESPACE},
            "data": {key: base64.b64encode(value).decode() for key, value in data.items()},
        }
    )
    return name


async def scanned(installation: Installation, **wanted: Any) -> Object:
    """Wait until the repository's status holds ``wanted``."""
    ref = ObjectRef(api_version=API_VERSION, kind="PackageRepository", name=f"repo-{installation.name}")

    async def reached() -> Object | None:
        obj = await installation.kube.get(ref)
        status: Object = (obj or {}).get("status") or {}
        fresh = obj is not None and status.get("observedGeneration") == obj["metadata"]["generation"]
        if not fresh or "conditions" not in status:
            return None
        ready = condition(obj, "Ready")
        facts = {**status, "ready": ready["status"], "reason": ready["reason"]}
        return obj if all(facts.get(key) == value for key, value in wanted.items()) else None

    return await eventually(reached, what=f"the repository is {wanted}")  # type: ignore[return-value]


async def failing(installation: Installation, name: str, reason: str) -> Object:
    """Wait until a package fails for ``reason``."""
    return await installation.status(name, lambda status: (status.get("failure") or {}).get("reason") == reason)


async def shown(installation: Installation, name: str = "one") -> dict[str, str]:
    found = await installation.get("ConfigMap", name)
    return found["data"] if found else {}


@asynccontextmanager
async def served(folder: Path, asked: list[str] | None = None) -> AsyncIterator[str]:
    """Serve a folder; the paths of requests are written down in ``asked``."""

    @web.middleware
    async def note(request: web.Request, handler: Handler) -> web.StreamResponse:
        if asked is not None:
            asked.append(request.path)
        return await handler(request)

    app = web.Application(middlewares=[note])
    app.router.add_static("/", folder)
    async with TestServer(app) as server:
        yield str(server.make_url("/")).rstrip("/")


def indexed(installation: Installation, folder: Path, *charts: Path) -> None:
    helm = installation.stack.tool("helm")
    for chart in charts:
        subprocess.run([helm, "package", chart, "-d", folder], check=True, capture_output=True)
    subprocess.run([helm, "repo", "index", folder], check=True, capture_output=True)


async def test_an_application_from_a_registry_with_login_and_private_ca(
    installation: Installation, secured: RunningRegistry, tmp_path: Path
) -> None:
    assert secured.authority is not None
    write_greeter(tmp_path / "built", "1.0.0")
    path = f"corp/{installation.name}"
    await push(secured.repository(path), tmp_path / "built/greeter/1.0.0")
    certificates = await secret(installation, "tls", "Opaque", {"ca.crt": secured.authority.certificate_pem})
    wrong = {"username": USER.encode(), "password": b"wrong"}
    login = await secret(installation, "login", "kubernetes.io/basic-auth", wrong)
    oci = {
        "url": f"oci://{secured.host}/{path}",
        "secretRef": {"name": login},
        "certSecretRef": {"name": certificates},
    }
    await repository(installation, kind="oci", oci=oci)
    installation.start()
    await installation.application("one", "greeter", "1.0.0")

    obj = await installation.status("one", lambda status: status.get("failure"))
    assert condition(obj, "ReadyOnFilesystem")["reason"] == "RepositoryNotAllowed", "one with a login serves nobody"
    await repository(installation, kind="oci", oci=oci, allowedNamespaces={"names": [installation.namespace]})

    obj = await scanned(installation, ready="False", reason="Unauthorized")
    assert obj["status"]["failure"]["actor"] == "admin"
    await failing(installation, "one", "Unauthorized")

    auth = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
    config = json.dumps({"auths": {secured.host: {"auth": auth}}}).encode()
    await installation.kube.delete(ObjectRef(api_version="v1", kind="Secret", namespace=SYSTEM_NAMESPACE, name=login))
    await secret(installation, "login", "kubernetes.io/dockerconfigjson", {".dockerconfigjson": config})
    await scanned(installation, ready="True", count=1)
    obj = await installation.ready("one", "1.0.0")
    assert (await shown(installation))["version"] == "1.0.0"
    for text in (json.dumps(obj["status"]), installation.log.read_text()):
        assert PASSWORD not in text
        assert auth not in text


async def test_a_range_follows_a_helm_repository(installation: Installation, tmp_path: Path) -> None:
    folder = tmp_path / "charts"
    folder.mkdir()
    write_greeter(tmp_path / "built", "1.0.0", "1.1.0", "1.2.0", "2.0.0")
    built = tmp_path / "built/greeter"
    indexed(installation, folder, built / "1.0.0", built / "1.1.0", built / "2.0.0")
    async with served(folder) as url:
        helm = {"url": url, "insecure": True}
        await repository(installation, kind="helm", helm=helm, interval="1s")
        installation.start()
        await installation.application("one", "greeter", "^1")
        obj = await installation.ready("one", "1.1.0")
        assert (obj["status"]["phase"], (await shown(installation))["version"]) == ("Running", "1.1.0")
        pinned = obj["status"]["digest"]
        obj = await scanned(installation, ready="True", count=1)
        assert obj["status"]["packages"][0] | {"digest": ""} == {
            "name": "greeter",
            "version": "2.0.0",
            "versions": 3,
            "digest": "",
        }

        indexed(installation, folder, built / "1.2.0")
        obj = await installation.ready("one", "1.2.0")
        assert (await shown(installation))["version"] == "1.2.0"
        assert obj["status"]["digest"] != pinned
        await keep(installation, "one", "range-moves")

        await installation.application("one", "greeter", "~1.1")
        await installation.ready("one", "1.1.0")

    obj = await scanned(installation, ready="False", reason="DownloadFailed")
    assert obj["status"]["failure"]["attempt"] >= 1
    assert obj["status"]["failure"]["nextTry"]
    assert obj["status"]["count"] == 1
    assert condition(await installation.ready("one", "1.1.0"), "Ready")["status"] == "True"


async def test_a_plain_chart_is_a_package(installation: Installation, tmp_path: Path) -> None:
    chart = write_package(
        tmp_path / "built",
        "plain",
        "v0.3.0",
        templates={"config.yaml": CHART},
        values={"plain": {"greeting": "hello"}},
        extra={
            "values.schema.json": json.dumps(
                {
                    "$schema": "http://json-schema.org/draft-07/schema#",
                    "properties": {"plain": {"properties": {"greeting": {"maxLength": 10}}}},
                }
            )
        },
    )
    (chart / "package.yaml").unlink()
    tgz_of(tmp_path / "web/plain-0.3.0.tgz", chart, top="plain")
    async with served(tmp_path / "web") as url:
        await repository(installation, kind="http", http={"url": url, "insecure": True})
        installation.start()
        await installation.application("one", "plain", "0.3.0")
        await installation.ready("one", "0.3.0")
        assert await shown(installation) == {"greeting": "hello", "extra": "none"}
        settings = {"plain": {"greeting": "hi"}, "extra": "more"}
        await installation.application("one", "plain", "0.3.0", settings=settings)
        await eventually(lambda: shown(installation))
        await installation.ready("one", "0.3.0")
        assert await shown(installation) == {"greeting": "hi", "extra": "more"}

        await installation.application("one", "plain", "0.3.0", settings={"plain": {"greeting": "x" * 11}})
        obj = await installation.status("one", lambda status: status.get("failure"))
        failure = obj["status"]["failure"]
        assert (failure["reason"], failure["actor"]) == ("ValidationFailed", "user")
        assert "settings.plain.greeting: must have at most 10 characters" in failure["message"]
        assert condition(obj, "SettingsValid")["reason"] == "ValidationFailed"
        assert (await shown(installation))["greeting"] == "hi"


CHART = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}
data:
  greeting: {{ .Values.plain.greeting | quote }}
  extra: {{ .Values.extra | default "none" | quote }}
"""


async def test_a_folder_has_a_status_too_and_the_catalog_ends_with_the_object(
    installation: Installation, tmp_path: Path
) -> None:
    write_greeter(tmp_path / "packages", "1.0.0")
    name = await repository(installation, kind="file", file={"path": str(tmp_path / "packages")})
    installation.start()
    obj = await scanned(installation, ready="True", count=1)
    assert yaml.safe_dump(obj["status"]["packages"]).startswith("- digest:")
    assert obj["status"]["seen"]["uid"] == obj["metadata"]["uid"]
    handle = installation.client.get_workflow_handle(f"{installation.name}/repository/{name}")

    await repository(installation, kind="file", file={"path": str(tmp_path / "elsewhere")})
    obj = await scanned(installation, ready="False", reason="DownloadFailed")
    assert str(tmp_path / "elsewhere") in condition(obj, "Ready")["message"]

    await installation.kube.delete(ObjectRef(api_version=API_VERSION, kind="PackageRepository", name=name))

    async def ended() -> bool:
        return (await handle.describe()).status is not None and (await handle.describe()).status.name == "COMPLETED"

    await eventually(ended, what="the catalog has ended")
    await keep_workflow(installation, handle.id, "repository-scans")


async def test_a_catalog_recovers_and_hands_over(installation: Installation, tmp_path: Path) -> None:
    folder = tmp_path / "later"
    name = await repository(installation, kind="file", file={"path": str(folder)}, interval="1s")
    installation.start(WINDLASS_CONTINUE_AFTER_EVENTS="30")
    await scanned(installation, ready="False", reason="DownloadFailed")
    write_greeter(folder, "1.0.0")
    obj = await scanned(installation, ready="True", count=1)
    assert "failure" not in obj["status"]
    handle = installation.client.get_workflow_handle(f"{installation.name}/repository/{name}")
    first = obj["status"]["workflow"]["runId"]
    await keep_workflow(installation, handle.id, "repository-failure-and-recovery", first)

    async def handed_over() -> bool:
        return (await handle.describe()).run_id != first

    await eventually(handed_over, what="the next run has taken over")
    write_greeter(folder, "1.1.0")

    async def grown() -> bool:
        obj = await scanned(installation, ready="True")
        return bool(obj["status"]["packages"][0]["versions"] == 2)

    await eventually(grown)
    await keep_workflow(installation, handle.id, "repository-continued")


async def labelled(installation: Installation, **labels: str | None) -> None:
    ref = ObjectRef(api_version="v1", kind="Namespace", name=installation.namespace)
    await installation.kube.patch(ref, {"metadata": {"labels": labels}}, kind="merge")


async def test_a_repository_serves_the_namespaces_that_it_selects(installation: Installation, tmp_path: Path) -> None:
    write_greeter(tmp_path / "built", "1.0.0", "1.1.0")
    for version in ("1.0.0", "1.1.0"):
        tgz_of(tmp_path / f"web/greeter-{version}.tgz", tmp_path / f"built/greeter/{version}", top="greeter")
    asked: list[str] = []
    async with served(tmp_path / "web", asked) as url:
        allowed = {"selector": {"matchLabels": {"team": "a"}}}
        await repository(installation, kind="http", http={"url": url, "insecure": True}, allowedNamespaces=allowed)
        installation.start()
        await installation.application("one", "greeter", "1.0.0")
        obj = await failing(installation, "one", "RepositoryNotAllowed")
        failure = obj["status"]["failure"]
        assert failure["actor"] == "admin"
        for word in (f"'repo-{installation.name}'", f"'{installation.namespace}'", "spec.allowedNamespaces"):
            assert word in failure["message"] + failure["hint"]
        assert condition(obj, "ReadyOnFilesystem")["reason"] == "RepositoryNotAllowed"
        assert condition(obj, "SourceRefused")["status"] == "True"
        assert [path for path in asked if path.endswith(".tgz")] == []

        await labelled(installation, team="a")
        obj = await installation.ready("one", "1.0.0")
        assert condition(obj, "SourceRefused")["status"] == "False"

        await labelled(installation, team=None)
        obj = await refused(installation, "one")
        assert condition(obj, "Ready")["status"] == "True", "what runs keeps running"
        await installation.application("one", "greeter", "1.0.0", settings={"greeting": "still"})
        await eventually(lambda: greets(installation, "still"))

        await installation.application("one", "greeter", "1.1.0", settings={"greeting": "still"})
        await failing(installation, "one", "RepositoryNotAllowed")
        assert [path for path in asked if "1.1.0" in path] == []
        assert (await shown(installation))["version"] == "1.0.0"

        await labelled(installation, team="a")
        await installation.ready("one", "1.1.0")

        await labelled(installation, team="b")
        await refused(installation, "one")
        await installation.delete("one")
        await installation.gone("one")


async def refused(installation: Installation, name: str) -> Object:
    """Wait until the package says that its repository refuses it."""

    def says(status: Object) -> bool:
        return any((one["type"], one["status"]) == ("SourceRefused", "True") for one in status.get("conditions") or ())

    return await installation.status(name, says)


async def greets(installation: Installation, greeting: str) -> bool:
    return (await shown(installation)).get("greeting") == greeting


async def test_a_repository_that_denies_hooks(installation: Installation, tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    hook = (
        "#!/usr/bin/env bash\n"
        f"echo $1 >> {mark}\n"
        'if [ "$1" = --config ]; then echo \'{"configVersion": "v1", "beforeHelm": 1, "beforeDeleteHelm": 1}\'; fi\n'
    )
    packages = tmp_path / "packages"
    write_greeter(packages, "1.0.0", hooks={"10-mark.sh": hook})
    write_greeter(packages, "1.1.0")
    file = {"path": str(packages)}
    await repository(installation, kind="file", file=file, hooks="Deny")
    installation.start()
    await installation.application("one", "greeter", "1.0.0")
    obj = await failing(installation, "one", "HooksDenied")
    assert "hooks/10-mark.sh" in obj["status"]["failure"]["message"]
    assert condition(obj, "ReadyInRuntime")["reason"] == "HooksDenied"
    assert not mark.exists(), "not even asked for its bindings"
    await installation.application("two", "greeter", "1.1.0")
    await installation.ready("two", "1.1.0")

    await repository(installation, kind="file", file=file, hooks="Allow")
    await installation.ready("one", "1.0.0")
    assert mark.exists()
    before = mark.read_text()

    await repository(installation, kind="file", file=file, hooks="Deny")
    await failing(installation, "one", "HooksDenied")
    assert (await shown(installation))["version"] == "1.0.0", "the release stays"
    await installation.delete("one")
    await installation.gone("one")
    assert await shown(installation) == {}
    assert mark.read_text() == before, "taken away without its hooks"


async def test_an_index_that_points_to_another_host(installation: Installation, tmp_path: Path) -> None:
    folder, elsewhere = tmp_path / "charts", tmp_path / "elsewhere"
    folder.mkdir()
    elsewhere.mkdir()
    write_greeter(tmp_path / "built", "1.0.0")
    indexed(installation, elsewhere, tmp_path / "built/greeter/1.0.0")
    asked: list[str] = []
    async with served(folder) as url, served(elsewhere, asked) as other:
        index = yaml.safe_load((elsewhere / "index.yaml").read_text())
        index["entries"]["greeter"][0]["urls"] = [f"{other}/greeter-1.0.0.tgz"]
        (folder / "index.yaml").write_text(yaml.safe_dump(index))
        await repository(installation, kind="helm", helm={"url": url, "insecure": True})
        installation.start()
        await installation.application("one", "greeter", "1.0.0")
        obj = await failing(installation, "one", "HostNotAllowed")
        assert condition(obj, "ReadyOnFilesystem")["reason"] == "HostNotAllowed"
        host = other.partition("://")[2]
        assert "add it to spec.helm.archiveHosts" in obj["status"]["failure"]["hint"]
        assert host in obj["status"]["failure"]["hint"]
        assert asked == []
        helm = {"url": url, "insecure": True, "archiveHosts": [host]}
        await repository(installation, kind="helm", helm=helm)
        await installation.ready("one", "1.0.0")
