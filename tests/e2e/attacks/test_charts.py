"""Charts that hold what their package has no right to, and templates that eat the machine."""

from __future__ import annotations

import pytest
import yaml

from support.attacks import Scene
from support.installation import CONFIG_MAP, write_package
from support.running import packages
from windlass.ports.kube import Object, ObjectRef

RBAC = "rbac.authorization.k8s.io/v1"
ADMISSION = "admissionregistration.k8s.io/v1"
POD = {"containers": [{"name": "main", "image": "example.invalid/none"}]}
EVERYTHING = [{"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"]}]


def webhook(kind: str) -> Object:
    return {
        "apiVersion": ADMISSION,
        "kind": kind,
        "metadata": {"name": "attack"},
        "webhooks": [
            {
                "name": "attack.example.dev",
                "rules": EVERYTHING,
                "clientConfig": {"url": "https://attack.example.dev/"},
                "admissionReviewVersions": ["v1"],
                "sideEffects": "None",
                "failurePolicy": "Fail",
            }
        ],
    }


def bound(kind: str, role: str, account: str, **metadata: str) -> Object:
    return {
        "apiVersion": RBAC,
        "kind": kind,
        "metadata": {"name": "attack", **metadata},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": "NAMESPACE"}],
    }


def definition(name: str) -> Object:
    plural, _, group = name.partition(".")
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": name},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": plural, "singular": "attack", "kind": "Attack", "listKind": "AttackList"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}],
        },
    }


ATTACKS: dict[str, Object] = {
    "binds-itself-to-the-cluster": bound("ClusterRoleBinding", "cluster-admin", "windlass-application"),
    "binds-itself-as-the-module": bound("ClusterRoleBinding", "windlass-module", "windlass-application"),
    "grants-itself-more-at-home": bound("RoleBinding", "cluster-admin", "windlass-application"),
    "listens-to-everything": webhook("ValidatingWebhookConfiguration"),
    "changes-everything": webhook("MutatingWebhookConfiguration"),
    "serves-our-api": {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": "v1alpha1.windlass.dev"},
        "spec": {
            "group": "windlass.dev",
            "version": "v1alpha1",
            "groupPriorityMinimum": 9999,
            "versionPriority": 9999,
            "service": {"name": "attack", "namespace": "NAMESPACE"},
        },
    },
    "opens-the-borders": {
        "apiVersion": ADMISSION,
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "windlass-identities"},
        "spec": {"policyName": "windlass-homes", "validationActions": ["Audit"]},
    },
    "shadows-our-kind": definition("applications.windlass.dev"),
    "runs-as-the-worker": {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "attack", "namespace": "windlass-system"},
        "spec": {
            "selector": {"matchLabels": {"app": "attack"}},
            "template": {
                "metadata": {"labels": {"app": "attack"}},
                "spec": {**POD, "serviceAccountName": "windlass-worker"},
            },
        },
    },
    "runs-a-helm-hook-as-the-worker": {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "attack",
            "namespace": "windlass-system",
            "annotations": {"helm.sh/hook": "pre-install"},
        },
        "spec": {**POD, "serviceAccountName": "windlass-worker"},
    },
    "asks-for-a-token": {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": "attack",
            "annotations": {"kubernetes.io/service-account.name": "windlass-application"},
        },
        "type": "kubernetes.io/service-account-token",
    },
    "forges-state": {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "attack", "namespace": "windlass-system"},
        "stringData": {"state": "{}"},
    },
    "takes-our-lease": {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "attack", "namespace": "windlass-system"},
        "spec": {"holderIdentity": "attack", "leaseDurationSeconds": 3600},
    },
    "writes-into-its-neighbour": {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "theirs", "namespace": "NEIGHBOUR"},
        "data": {"whose": "attack"},
    },
    "makes-a-module": {
        "apiVersion": "windlass.dev/v1alpha1",
        "kind": "Module",
        "metadata": {"name": "attack"},
        "spec": {"package": {"repository": "none", "name": "attack", "version": "1.0.0"}},
    },
    "brings-its-own-packages": {
        "apiVersion": "windlass.dev/v1alpha1",
        "kind": "PackageRepository",
        "metadata": {"name": "attack"},
        "spec": {"kind": "file", "file": {"path": "/etc"}},
    },
    "approves-itself": {
        "apiVersion": "windlass.dev/v1alpha1",
        "kind": "ActionRequest",
        "metadata": {"name": "attack"},
        "spec": {"action": "approve", "target": {"kind": "Application", "name": "approves-itself"}, "reason": "x"},
    },
    "has-a-mightier-one-act": {
        "apiVersion": "windlass.dev/v1alpha1",
        "kind": "Application",
        "metadata": {"name": "attack"},
        "spec": {
            "package": {"repository": "none", "name": "attack", "version": "1.0.0"},
            "target": {"serviceAccountName": "mighty"},
        },
    },
}


def at(scene: Scene, attack: Object) -> ObjectRef:
    """Name the object of an attack."""
    namespaced = attack["kind"] not in {
        "ClusterRoleBinding",
        "ValidatingWebhookConfiguration",
        "MutatingWebhookConfiguration",
        "APIService",
        "ValidatingAdmissionPolicyBinding",
        "CustomResourceDefinition",
        "Module",
        "PackageRepository",
    }
    metadata = attack["metadata"]
    return ObjectRef(
        api_version=attack["apiVersion"],
        kind=attack["kind"],
        namespace=metadata.get("namespace", scene.namespace) if namespaced else "",
        name=metadata["name"],
    )


@pytest.mark.parametrize("name", ATTACKS)
async def test_a_chart_does_not_get_what_its_account_may_not_have(scene: Scene, name: str) -> None:
    text = yaml.safe_dump(ATTACKS[name]).replace("NAMESPACE", scene.namespace).replace("NEIGHBOUR", scene.neighbour)
    attack: Object = yaml.safe_load(text)
    ref = at(scene, attack)
    before = await scene.admin.kube.get(ref)
    write_package(packages(scene.admin), name, "1.0.0", templates={"a.yaml": CONFIG_MAP, "b.yaml": text})
    failure = await scene.attacked(name)
    assert failure["reason"] in {"Forbidden", "ApplyManifestsFailed", "ApiRejected", "ReleaseForeign"}, failure
    assert await scene.admin.kube.get(ref) == before
    await scene.unharmed()
    await scene.tenant.delete(name)
    await scene.admin.gone(name)


async def test_a_definition_in_the_folder_crds_is_not_installed(scene: Scene) -> None:
    """Helm applies that folder before it looks at anything else."""
    text = yaml.safe_dump(definition("attacks.example.dev"))
    write_package(
        packages(scene.admin), "definer", "1.0.0", templates={"a.yaml": CONFIG_MAP}, extra={"crds/attack.yaml": text}
    )
    failure = await scene.attacked("definer")
    assert failure["reason"] == "Forbidden"
    ref = ObjectRef(api_version="apiextensions.k8s.io/v1", kind="CustomResourceDefinition", name="attacks.example.dev")
    assert await scene.admin.kube.get(ref) is None
    await scene.unharmed()


BOMBS = {
    "loops": '{{ $x := "x" }}{{ range until 2000000000 }}{{ end }}',
    "doubles": '{{ $x := "xxxxxxxxxxxxxxxx" }}{{ range until 40 }}{{ $x = print $x $x }}{{ end }}{{ $x }}',
    "recurses": '{{ define "a" }}{{ include "a" . }}{{ end }}{{ include "a" . }}',
}


@pytest.mark.parametrize("name", BOMBS)
async def test_a_template_that_eats_memory_ends_no_worker(scene: Scene, name: str) -> None:
    write_package(packages(scene.admin), name, "1.0.0", templates={"a.yaml": BOMBS[name]})
    await scene.attacked(name)
    await scene.unharmed()
    await scene.tenant.delete(name)


async def test_an_error_without_end_is_cut(scene: Scene) -> None:
    write_package(packages(scene.admin), "wordy", "1.0.0", templates={"a.yaml": '{{ fail (repeat 3000000 "word ") }}'})
    failure = await scene.attacked("wordy")
    assert len(failure["message"].encode()) <= 8192
    obj = await scene.admin.object("wordy")
    assert len(str(obj)) < 100_000
    await scene.unharmed()
