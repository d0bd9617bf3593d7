"""What a package can do is what its account can do: Applications at home, nothing elsewhere."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from support.installation import CONFIG_MAP, Installation, condition, write_greeter, write_package
from support.running import packages, running
from windlass.devstack.stack import Stack
from windlass.domain.errors import PermanentError
from windlass.domain.ids import API_VERSION, INSTALLATION_LABEL, SYSTEM_NAMESPACE
from windlass.domain.target import APPLICATION_ACCOUNT
from windlass.ports.kube import Object, ObjectRef

RBAC = "rbac.authorization.k8s.io/v1"
CLUSTER_ROLE = """
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: "{{ .Release.Namespace }}-{{ .Release.Name }}"}
rules: [{apiGroups: ["*"], resources: ["*"], verbs: ["*"]}]
"""
ELSEWHERE = """
apiVersion: v1
kind: ConfigMap
metadata: {name: "{{ .Release.Namespace }}-{{ .Release.Name }}", namespace: default}
"""
SPY = """
apiVersion: v1
kind: ConfigMap
metadata: {name: {{ .Release.Name }}}
data:
  found: {{ lookup "v1" "Secret" "windlass-system" "" | toJson | b64enc | quote }}
"""


@pytest.fixture(scope="module")
async def installation(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Installation]:
    async with running(stack, tmp_path_factory.mktemp("targets")) as made:
        repository = packages(made)
        write_greeter(repository, "1.0.0")
        write_package(repository, "grabby", "1.0.0", templates={"a.yaml": CONFIG_MAP, "b.yaml": CLUSTER_ROLE})
        write_package(repository, "stray", "1.0.0", templates={"a.yaml": CONFIG_MAP, "b.yaml": ELSEWHERE})
        write_package(repository, "spy", "1.0.0", templates={"a.yaml": SPY})
        yield made


async def failed(installation: Installation, name: str) -> Object:
    """Wait until the package has failed; return its failure."""
    obj = await installation.status(name, lambda status: status.get("failure"))
    failure: Object = obj["status"]["failure"]
    told = condition(obj, "Ready")
    assert (told["status"], told["reason"]) == ("False", failure["reason"])
    assert failure["message"].startswith(told["message"].partition(" …")[0][:100])
    return failure


async def test_an_application_acts_as_the_default_account_and_its_release_is_named_after_it(
    installation: Installation,
) -> None:
    await installation.application("plain", "greeter", "1.0.0")
    obj = await installation.ready("plain")
    assert obj["status"]["release"]["name"] == "plain"
    assert await installation.release("plain") == {1: "deployed"}
    made = await installation.get("ConfigMap", "plain")
    assert made is not None
    binding = await installation.get("RoleBinding", APPLICATION_ACCOUNT, RBAC)
    assert binding is not None
    assert binding["roleRef"]["name"] == APPLICATION_ACCOUNT


async def test_the_state_of_a_package_is_kept_in_the_namespace_of_windlass(installation: Installation) -> None:
    await installation.application("kept", "greeter", "1.0.0")
    await installation.ready("kept")
    record = await installation.record("kept")
    assert record is not None
    assert record["metadata"]["namespace"] == SYSTEM_NAMESPACE
    types = {
        one["type"] for one in (await installation.kube.list("v1", "Secret", namespace=installation.namespace)).items
    }
    assert types == {"helm.sh/release.v1"}


@pytest.mark.parametrize(
    ("package", "what"),
    [
        ("grabby", "ClusterRole/{} (get, create, patch, delete clusterroles.rbac.authorization.k8s.io)"),
        ("stray", "ConfigMap/{} in namespace default (get, create, patch, delete configmaps)"),
    ],
)
async def test_what_the_account_may_not_do_is_refused_and_nothing_is_left_behind(
    installation: Installation, package: str, what: str
) -> None:
    await installation.application(package, package, "1.0.0")
    told = await failed(installation, package)
    assert told["reason"] == "Forbidden"
    account = f"service account {APPLICATION_ACCOUNT} in {installation.namespace}"
    what = what.format(f"{installation.namespace}-{package}")
    assert f"{account} may not install 1 object: {what}" in told["message"]
    assert "spec.target.serviceAccountName" in told["hint"]
    name = f"{installation.namespace}-{package}"
    assert await installation.kube.get(ObjectRef(api_version=RBAC, kind="ClusterRole", name=name)) is None
    assert (
        await installation.kube.get(ObjectRef(api_version="v1", kind="ConfigMap", namespace="default", name=name))
        is None
    )
    assert await installation.get("ConfigMap", package) is None
    await installation.delete(package)
    await installation.gone(package)
    assert await installation.release(package) == {}


async def test_a_chart_looks_nothing_up_in_other_namespaces(installation: Installation) -> None:
    await installation.application("spy", "spy", "1.0.0")
    told = await failed(installation, "spy")
    assert told["reason"] == "Forbidden"
    assert "secrets" in told["message"]
    assert await installation.get("ConfigMap", "spy") is None


async def test_a_release_of_another_application_is_left_alone(installation: Installation) -> None:
    await installation.application("owner", "greeter", "1.0.0", releaseName="shared")
    obj = await installation.ready("owner")
    assert obj["status"]["release"]["name"] == "shared"
    await installation.application("rival", "greeter", "1.0.0", releaseName="shared")
    told = await failed(installation, "rival")
    assert told["reason"] == "ReleaseConflict"
    assert "spec.releaseName" in told["hint"]
    await installation.delete("rival")
    await installation.gone("rival")
    assert await installation.get("ConfigMap", "shared") is not None


async def test_an_account_that_is_missing_is_named(installation: Installation) -> None:
    await installation.application("lost", "greeter", "1.0.0", target={"serviceAccountName": "nobody"})
    told = await failed(installation, "lost")
    assert told["reason"] == "IdentityMissing"
    assert "service account nobody" in told["message"]
    account: Object = {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": "nobody", "namespace": installation.namespace},
    }
    binding: Object = {
        "apiVersion": RBAC,
        "kind": "RoleBinding",
        "metadata": {"name": "nobody", "namespace": installation.namespace},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"},
        "subjects": [{"kind": "ServiceAccount", "name": "nobody", "namespace": installation.namespace}],
    }
    await installation.apply(account)
    await installation.apply(binding)
    await installation.ready("lost")


@pytest.mark.parametrize("namespace", ["kube-system", "windlass-system", "default"])
async def test_targets_that_no_application_may_have_are_refused(installation: Installation, namespace: str) -> None:
    """By the admission policies; that the code refuses them too is tested in the domain."""
    obj = {
        "apiVersion": API_VERSION,
        "kind": "Application",
        "metadata": {
            "name": "abroad",
            "namespace": installation.namespace,
            "labels": {INSTALLATION_LABEL: installation.name},
        },
        "spec": {
            "package": {"repository": f"repo-{installation.name}", "name": "greeter", "version": "1.0.0"},
            "target": {"namespace": namespace},
        },
    }
    with pytest.raises(PermanentError, match=r"spec\.target\.namespace"):
        await installation.apply(obj)
