"""What a package may not do is told all at once, nothing of it is left behind, and a later role is enough."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import yaml

from support import rights
from support.command import windlass
from support.installation import CONFIG_MAP, Installation, condition, write_package
from support.running import packages, running
from windlass.devstack.stack import Stack
from windlass.domain.ids import API_VERSION
from windlass.domain.target import APPLICATION_ACCOUNT
from windlass.ports.kube import Object, ObjectRef

GREEDY = """
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: "{{ .Release.Namespace }}-{{ .Release.Name }}"}
rules: [{apiGroups: [""], resources: [configmaps], verbs: [get]}]
---
apiVersion: v1
kind: ConfigMap
metadata: {name: "{{ .Release.Namespace }}-{{ .Release.Name }}", namespace: default}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: "{{ .Release.Namespace }}-{{ .Release.Name }}"}
webhooks: []
"""
DEFINITION = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gadgets.told.example.dev}
spec:
  group: told.example.dev
  names: {kind: Gadget, plural: gadgets}
  scope: Namespaced
  versions:
    - name: v1
      served: true
      storage: true
      schema: {openAPIV3Schema: {type: object}}
"""


@pytest.fixture(scope="module")
async def installation(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Installation]:
    async with running(stack, tmp_path_factory.mktemp("forbidden")) as made:
        repository = packages(made)
        write_package(
            repository,
            "greedy",
            "1.0.0",
            templates={"a.yaml": CONFIG_MAP, "b.yaml": GREEDY},
            extra={"crds/gadgets.yaml": DEFINITION},
        )
        write_package(repository, "modest", "1.0.0", templates={"a.yaml": CONFIG_MAP})
        yield made


def mine(installation: Installation, kind: str, api_version: str, namespace: str = "") -> ObjectRef:
    name = f"{installation.namespace}-greedy"
    return ObjectRef(api_version=api_version, kind=kind, namespace=namespace, name=name)


def objects(installation: Installation) -> list[ObjectRef]:
    return [
        mine(installation, "ClusterRole", rights.RBAC),
        mine(installation, "ConfigMap", "v1", "default"),
        mine(installation, "ValidatingWebhookConfiguration", "admissionregistration.k8s.io/v1"),
        ObjectRef(
            api_version="apiextensions.k8s.io/v1", kind="CustomResourceDefinition", name="gadgets.told.example.dev"
        ),
    ]


def names_all(installation: Installation, text: str) -> None:
    name = f"{installation.namespace}-greedy"
    for one in (
        f"ClusterRole/{name} (get, create, patch, delete clusterroles.rbac.authorization.k8s.io)",
        f"ConfigMap/{name} in namespace default (get, create, patch, delete configmaps)",
        f"ValidatingWebhookConfiguration/{name} (",
        "CustomResourceDefinition/gadgets.told.example.dev (",
    ):
        assert one in text, text


async def test_all_that_is_forbidden_is_told_and_a_binding_later_is_enough(installation: Installation) -> None:
    await installation.application("greedy", "greedy", "1.0.0")
    obj = await installation.status("greedy", lambda status: status.get("failure"))
    failure: Object = obj["status"]["failure"]
    assert failure["reason"] == "Forbidden"
    account = f"service account {APPLICATION_ACCOUNT} in {installation.namespace}"
    assert f"{account} may not install 4 objects: " in failure["message"]
    names_all(installation, failure["message"])
    names_all(installation, condition(obj, "HelmApplied")["message"])
    for part in ("Module", "spec.target.serviceAccountName", "ClusterRoleBinding", "in default"):
        assert part in failure["hint"], failure["hint"]
    for ref in objects(installation):
        assert await installation.kube.get(ref) is None, ref
    assert await installation.get("ConfigMap", "greedy") is None
    assert await installation.release("greedy") == {}

    binding = rights.binding(
        "", "cluster-admin", APPLICATION_ACCOUNT, account_namespace=installation.namespace, name=installation.namespace
    )
    await installation.kube.create(binding)
    try:
        await rights.policies_settled(installation.kube)
        ran = await windlass(installation, "retry", "greedy", "-n", installation.namespace, "--reason", "allowed now")
        assert ran.code == 0, ran.err
        await installation.ready("greedy", within=90)
        for ref in objects(installation):
            assert await installation.kube.get(ref) is not None, ref
        await installation.delete("greedy")
        await installation.gone("greedy")
    finally:
        await installation.kube.delete(
            ObjectRef(api_version=rights.RBAC, kind="ClusterRoleBinding", name=installation.namespace)
        )
        await installation.kube.delete(objects(installation)[-1])


def tenant(installation: Installation, file: Path, token: str) -> Path:
    """Write a kubeconfig for a service account's token."""
    known = yaml.safe_load(installation.stack.kubeconfig.read_text())
    known["users"][0]["user"] = {"token": token}
    file.write_text(yaml.safe_dump(known))
    return file


async def as_tenant(installation: Installation, file: Path) -> Path:
    """Return the kubeconfig of somebody with the role `edit` in the installation's namespace."""
    namespace = installation.namespace
    await installation.apply(rights.plain("ServiceAccount", namespace, "editor"))
    await installation.apply(rights.binding(namespace, "edit", "editor", name="editor"))
    return tenant(installation, file, await rights.token(installation.kube, namespace, "editor"))


async def test_lint_asks_the_cluster_what_an_application_may_not_install(
    installation: Installation, tmp_path: Path
) -> None:
    await installation.application("modest", "modest", "1.0.0")
    await installation.ready("modest")  # the account of the namespace is made for the first Application
    folder = packages(installation)
    kubeconfig = str(await as_tenant(installation, tmp_path / "kubeconfig"))
    command = ("package", "lint", "--permissions", installation.namespace)

    ran = await windlass(installation, *command, str(folder / "greedy" / "1.0.0"), KUBECONFIG=kubeconfig)
    assert (ran.code, ran.err) == (1, "1 problem\n")
    names_all(installation, ran.out)
    assert "spec.target.serviceAccountName" in ran.out
    ran = await windlass(installation, *command, str(folder / "modest" / "1.0.0"), KUBECONFIG=kubeconfig)
    assert (ran.code, ran.out, ran.err) == (0, f"{folder / 'modest' / '1.0.0'}: ok\n", "")


async def test_lint_says_when_nobody_may_ask(installation: Installation, tmp_path: Path) -> None:
    await installation.apply(rights.plain("ServiceAccount", installation.namespace, "nobody"))
    token = await rights.token(installation.kube, installation.namespace, "nobody")
    kubeconfig = str(tenant(installation, tmp_path / "kubeconfig", token))
    folder = str(packages(installation) / "greedy" / "1.0.0")
    ran = await windlass(
        installation, "package", "lint", "--permissions", installation.namespace, folder, KUBECONFIG=kubeconfig
    )
    assert ran.code == 0
    assert "permissions not checked: " in ran.err
    assert "impersonate" in ran.err


async def test_apply_names_what_will_be_refused_before_it_applies(installation: Installation) -> None:
    def manifest(name: str, package: str) -> str:
        return yaml.safe_dump(
            {
                "apiVersion": API_VERSION,
                "kind": "Application",
                "metadata": {"name": name, "namespace": installation.namespace},
                "spec": {"package": {"repository": f"repo-{installation.name}", "name": package, "version": "1.0.0"}},
            }
        )

    ran = await windlass(installation, "apply", "-f", "-", stdin=manifest("greedy", "greedy"))
    assert ran.code == 0, ran.err
    assert ran.err.startswith("application/greedy: service account windlass-application in")
    names_all(installation, ran.err)
    ran = await windlass(installation, "apply", "-f", "-", stdin=manifest("plain", "modest"))
    assert (ran.code, ran.err) == (0, "")
    await installation.delete("greedy")
    await installation.gone("greedy")
