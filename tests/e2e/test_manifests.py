"""What `deploy/` holds is taken by the API server, and its rights are enough for a whole life."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.installation import Installation, condition, installed, write_package
from windlass.adapters.kube.client import KubeClient
from windlass.adapters.kube.kubeconfig import write_in_cluster
from windlass.devstack.credentials import Credentials
from windlass.devstack.stack import Stack
from windlass.ports.kube import ObjectRef

DEPLOY = Path(__file__).parents[2] / "deploy"
SYSTEM = "windlass-system"
SCREEN = 50
"""Lines of a terminal that is not maximised."""

CHART = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: {{ .Release.Name }}}
data: {version: {{ .Chart.Version | quote }}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: {{ .Release.Name | replace "." "-" }}}
spec:
  selector: {matchLabels: {app: {{ .Release.Name }}}}
  template:
    metadata: {labels: {app: {{ .Release.Name }}}}
    spec: {containers: [{name: main, image: example.invalid/none}]}
---
apiVersion: v1
kind: Secret
metadata: {name: {{ .Release.Name }}}
stringData: {version: {{ .Chart.Version | quote }}}
"""
HOOK = """\
#!/bin/sh
[ "$1" = --config ] && echo '{"configVersion": "v1", "beforeHelm": 1, "afterDeleteHelm": 1}' && exit
echo '{"operation": "CreateOrUpdate", "object": {"apiVersion": "v1", "kind": "ConfigMap",
  "metadata": {"name": "made-by-hook"}, "data": {"made": "yes"}}}' > "$KUBERNETES_PATCH_PATH"
"""


@pytest.fixture(scope="module")
def documents(stack: Stack) -> list[dict[str, Any]]:
    """What ``kubectl apply -k deploy`` would apply."""
    rendered = subprocess.run(
        [stack.tool("kubectl"), "kustomize", DEPLOY], check=True, capture_output=True, text=True, timeout=60
    )
    return [document for document in yaml.safe_load_all(rendered.stdout) if document]


@pytest.fixture
async def installation(stack: Stack, tmp_path: Path) -> AsyncIterator[Installation]:
    async with installed(stack, tmp_path / "installation") as made:
        (tmp_path / "packages").mkdir()
        await made.repository(tmp_path / "packages")
        yield made


async def applied(kube: KubeClient, documents: list[dict[str, Any]]) -> None:
    for document in sorted(documents, key=lambda one: one["kind"] != "Namespace"):
        await kube.apply(document, field_manager="tests")


async def kubeconfig_of(kube: KubeClient, stack: Stack, account: str, folder: Path) -> Path:
    """Lay a pod's mounted service account out in ``folder``; return the kubeconfig that a pod would write."""
    answer = await kube.create_subresource(
        ObjectRef(api_version="v1", kind="ServiceAccount", namespace=SYSTEM, name=account),
        "token",
        {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}},
    )
    mounted = folder / account
    mounted.mkdir()
    (mounted / "token").write_text(answer["status"]["token"])
    (mounted / "namespace").write_text(SYSTEM)
    (mounted / "ca.crt").write_text(Credentials(stack.data_dir / "pki").ca.read_text())
    host, port = stack.state.apiserver_url.removeprefix("https://").split(":")
    return write_in_cluster(folder / f"{account}.kubeconfig", host, port, mounted=mounted)


async def test_everything_is_accepted_and_nothing_is_left_out(
    installation: Installation, documents: list[dict[str, Any]]
) -> None:
    await applied(installation.kube, documents)
    listed = set(yaml.safe_load((DEPLOY / "kustomization.yaml").read_text())["resources"])
    there = {
        str(path.relative_to(DEPLOY))
        for folder in ("crds", "rbac", "policies", "policies/mutating", "cluster")
        for path in DEPLOY.glob(f"{folder}/*.yaml")
    }
    assert listed == there
    for kind, name in (("StatefulSet", "windlass-worker"), ("Deployment", "windlass-watcher")):
        found = await installation.kube.get(ObjectRef(api_version="apps/v1", kind=kind, namespace=SYSTEM, name=name))
        assert found is not None
        container, *others = found["spec"]["template"]["spec"]["containers"]
        for other in others:  # hooks run without keyring and token
            mounts = {mount["name"] for mount in other["volumeMounts"]}
            assert other["name"] == "hooks"
            assert not mounts & {"keyring", "token", "data"}
            assert "envFrom" not in other
        settings = next(
            one for one in documents if one["kind"] == "ConfigMap" and one["metadata"]["name"] == "windlass-settings"
        )
        assert settings["data"]["WINDLASS_METRICS_ADDRESS"].endswith(f":{container['ports'][0]['containerPort']}")
        assert found["spec"]["replicas"] == 2
        # The kwok node runs nothing: what counts is that the objects are what the API server takes.
        await installation.kube.delete(ObjectRef(api_version="apps/v1", kind=kind, namespace=SYSTEM, name=name))


@pytest.mark.parametrize("process", ["worker", "watcher"])
def test_what_windlass_itself_may_do_fits_on_one_screen(process: str) -> None:
    text = (DEPLOY / "rbac" / f"{process}.yaml").read_text()
    [role] = [one for one in text.split("---\n") if yaml.safe_load(one)["kind"] == "ClusterRole"]
    assert len(role.splitlines()) <= SCREEN
    for rule in yaml.safe_load(role)["rules"]:
        assert "*" not in [*rule["apiGroups"], *rule["resources"], *rule["verbs"]]


async def test_a_package_lives_its_life_with_the_rights_of_the_manifests(
    installation: Installation, documents: list[dict[str, Any]], stack: Stack, tmp_path: Path
) -> None:
    kube = installation.kube
    await applied(kube, [one for one in documents if one["kind"] not in {"StatefulSet", "Deployment"}])
    worker = await kubeconfig_of(kube, stack, "windlass-worker", tmp_path)
    watcher = await kubeconfig_of(kube, stack, "windlass-watcher", tmp_path)
    for version in ("1.0.0", "2.0.0"):
        write_package(
            tmp_path / "packages",
            "shop",
            version,
            templates={"all.yaml": CHART},
            hooks={"make.sh": HOOK},
            settings={"greeting": {"type": "string", "default": "hello"}},
        )
    await kube.create(
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"namespace": installation.namespace, "name": "given"},
            "stringData": {"settings.yaml": "greeting: hi"},
        }
    )
    watching = installation.start("watcher", data="watching", KUBECONFIG=str(watcher))
    working = installation.start("worker", data="working", KUBECONFIG=str(worker))
    try:
        given = [{"kind": "Secret", "name": "given", "key": "settings.yaml"}]
        await installation.application("shop", "shop", "1.0.0", valuesFrom=given)
        await installation.ready("shop", "1.0.0", within=60)
        assert await installation.get("ConfigMap", "shop-made-by-hook")
        await installation.application("shop", "shop", "2.0.0", valuesFrom=given)
        obj = await installation.ready("shop", "2.0.0", within=60)
        assert condition(obj, "Ready")["status"] == "True"
        await installation.delete("shop")
        await installation.gone("shop", within=60)
        # In order, so that the Lease is deleted and the shards are given back with these rights, too.
        working.terminate()
        assert await asyncio.to_thread(working.wait, 30) == 0
    finally:
        for process in (watching, working):
            process.kill()
            process.wait()
    log = installation.log.read_text()
    assert "orbidden" not in log, [line for line in log.splitlines() if "orbidden" in line][:3]
