"""What the accounts of Windlass and of packages may do with the rights of `deploy/`, as the real API server sees it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass

import pytest

from support import rights
from support.rights import FOR_PACKAGES, MODULES, SYSTEM, binding, package, plain, refused
from support.waiting import eventually
from windlass.adapters.kube.client import KubeClient
from windlass.devstack.stack import Stack
from windlass.domain.errors import Reason
from windlass.domain.ids import API_VERSION
from windlass.ports.kube import Object, ObjectRef

POD = {"containers": [{"name": "main", "image": "example.invalid/none"}]}
NO_PACKAGES = "ValidatingAdmissionPolicy 'windlass-package-namespaces'"


def deployment(namespace: str, account: str) -> Object:
    return plain(
        "Deployment",
        namespace,
        api_version="apps/v1",
        spec={
            "selector": {"matchLabels": {"app": "attack"}},
            "template": {"metadata": {"labels": {"app": "attack"}}, "spec": {**POD, "serviceAccountName": account}},
        },
    )


@dataclass(frozen=True)
class World:
    """A namespace with an Application and one without; clients by account."""

    admin: KubeClient
    worker: KubeClient
    watcher: KubeClient
    reader: KubeClient
    module: KubeClient
    application: KubeClient
    team: str
    bare: str


@pytest.fixture(scope="module")
async def world(stack: Stack) -> AsyncIterator[World]:
    async with (
        KubeClient.from_kubeconfig(stack.kubeconfig, qps=500, burst=1000, user_agent="tests") as admin,
        rights.namespace(admin, "team") as team,
        rights.namespace(admin, "bare") as bare,
    ):
        await admin.create(package("Application", "shop", team))
        await admin.create(plain("Secret", bare, "theirs", stringData={"password": "secret"}))
        async with (
            rights.acting(admin, SYSTEM, "windlass-worker") as worker,
            rights.acting(admin, SYSTEM, "windlass-watcher") as watcher,
            rights.acting(admin, MODULES, "windlass-reader") as reader,
            rights.acting(admin, MODULES, "windlass-module") as module,
        ):
            await bound(worker, team)
            async with rights.acting(admin, team, "windlass-application") as application:
                await eventually(lambda: rights.allowed(application, "create", "deployments.apps", team))
                yield World(admin, worker, watcher, reader, module, application, team, bare)


async def bound(worker: KubeClient, namespace: str) -> None:
    """Make account and binding as a worker does for the first Application of a namespace."""
    account = plain(
        "ServiceAccount",
        namespace,
        "windlass-application",
        metadata={"labels": FOR_PACKAGES},
        automountServiceAccountToken=False,
    )
    await eventually(lambda: worker.create(account))
    await eventually(
        lambda: worker.create(
            binding(
                namespace,
                "windlass-application",
                "windlass-application",
                name="windlass-application",
                labels=FOR_PACKAGES,
            )
        )
    )


# -- the worker ------------------------------------------------------------------------------------------------------


async def test_a_worker_gets_tokens_where_an_application_is(world: World) -> None:
    assert await rights.token(world.worker, world.team, "windlass-application", labels=FOR_PACKAGES)
    assert await rights.token(world.worker, world.team, "default", labels=FOR_PACKAGES)
    assert await rights.token(world.watcher, world.team, "windlass-application", labels=FOR_PACKAGES)


async def test_a_worker_gets_tokens_for_modules_and_for_reading(world: World) -> None:
    assert await rights.token(world.worker, MODULES, "windlass-module")
    assert await rights.token(world.worker, MODULES, "windlass-reader")


@pytest.mark.parametrize("labels", [None, FOR_PACKAGES], ids=["plain", "labelled"])
@pytest.mark.parametrize("who", ["worker", "watcher"])
@pytest.mark.parametrize(
    ("namespace", "account"),
    [("kube-system", "namespace-controller"), ("kube-public", "default"), (SYSTEM, "windlass-worker")],
)
async def test_windlass_gets_no_token_of_the_cluster_or_of_itself(
    world: World, who: str, namespace: str, account: str, labels: dict[str, str] | None
) -> None:
    client: KubeClient = getattr(world, who)
    await refused(lambda: rights.token(client, namespace, account, labels=labels), "denied request")


async def test_the_refusal_of_a_token_names_the_namespace(world: World) -> None:
    await refused(
        lambda: rights.token(world.worker, "kube-system", "namespace-controller"),
        "Windlass makes no accounts, bindings and tokens in namespace kube-system",
    )


@pytest.mark.parametrize("who", ["worker", "watcher"])
async def test_windlass_gets_no_token_where_no_application_is(world: World, who: str) -> None:
    client: KubeClient = getattr(world, who)
    await refused(lambda: rights.token(client, world.bare, "default", labels=FOR_PACKAGES), NO_PACKAGES)
    await refused(
        lambda: rights.token(client, world.bare, "default"),
        "what Windlass makes for packages carries the label windlass.dev/identity: package, this token does not",
    )


async def test_tokens_end_with_the_last_application_of_a_namespace(world: World) -> None:
    async with rights.namespace(world.admin, "left") as left:
        await world.admin.create(package("Application", "last", left))
        await eventually(lambda: rights.token(world.worker, left, "default", labels=FOR_PACKAGES))
        await world.admin.delete(
            ObjectRef(api_version=API_VERSION, kind="Application", namespace=left, name="last"),
        )
        await refused(lambda: rights.token(world.worker, left, "default", labels=FOR_PACKAGES), NO_PACKAGES)


async def test_other_people_are_not_bound_to_namespaces_with_packages(world: World) -> None:
    await world.admin.create(plain("ServiceAccount", world.bare, "ordinary"))
    await world.admin.create(binding(world.bare, "view", "ordinary"))
    assert await rights.token(world.admin, world.bare, "ordinary")


async def test_a_worker_makes_one_account_and_one_binding_and_no_other(world: World) -> None:
    worker, team, bare = world.worker, world.team, world.bare
    labelled = {"labels": FOR_PACKAGES}
    await refused(
        lambda: worker.create(plain("ServiceAccount", team, metadata=labelled)),
        "Windlass makes no serviceaccounts but windlass-application, not attack-",
    )
    await refused(
        lambda: worker.create(plain("ServiceAccount", bare, "windlass-application", metadata=labelled)), NO_PACKAGES
    )
    await refused(
        lambda: worker.create(binding(team, "windlass-application", "windlass-application", labels=FOR_PACKAGES)),
        "Windlass makes no rolebindings but windlass-application, not attack-",
    )
    only = "Windlass binds the ClusterRole windlass-application only to the account windlass-application beside it"
    named = {"name": "windlass-application", "labels": FOR_PACKAGES}
    await refused(lambda: worker.create(binding(team, "windlass-application", "default", **named)), only)
    await refused(
        lambda: worker.create(
            binding(team, "windlass-application", "windlass-application", account_namespace=bare, **named)
        ),
        only,
    )
    await refused(
        lambda: worker.create(binding(bare, "windlass-application", "windlass-application", **named)), NO_PACKAGES
    )
    for namespace in ("kube-system", SYSTEM, MODULES):
        await refused(
            lambda namespace=namespace: worker.create(
                binding(namespace, "windlass-application", "windlass-application", **named)
            ),
            "denied request",
        )


@pytest.mark.parametrize("role", ["admin", "edit", "cluster-admin", "windlass-module", "windlass-worker", "view"])
async def test_a_worker_binds_no_other_role(world: World, role: str) -> None:
    attack = binding(world.team, role, "windlass-application", name="windlass-application", labels=FOR_PACKAGES)
    await refused(lambda: world.worker.create(attack))


async def test_a_worker_binds_nothing_in_the_whole_cluster(world: World) -> None:
    for role in ("windlass-application", "cluster-admin"):
        attack = binding("", role, "windlass-application", account_namespace=world.team)
        error = await refused(lambda attack=attack: world.worker.create(attack))
        assert error.reason is Reason.FORBIDDEN


async def test_a_worker_changes_nothing_of_a_package_but_its_finalizers(world: World) -> None:
    ref = ObjectRef(api_version=API_VERSION, kind="Application", namespace=world.team, name="shop")
    assert await world.worker.patch(ref, {"metadata": {"finalizers": ["windlass.dev/lifecycle"]}}, kind="merge")
    for attack in (
        {"spec": {"package": {"version": "6.6.6"}}},
        {"spec": {"settings": {"image": "another"}}},
        {"metadata": {"labels": {"team": "another"}}},
        {"metadata": {"annotations": {"windlass.dev/abandon": "true"}}},
        {"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": "x"}]}},
    ):
        await refused(
            lambda attack=attack: world.worker.patch(ref, attack, kind="merge"),
            "Windlass changes nothing of an object that people write but its finalizers",
        )
    assert await world.worker.patch(ref, {"metadata": {"finalizers": None}}, kind="merge")


MIGHTY = ("get", "list", "watch", "create", "update", "patch", "delete")
ELSEWHERE = [
    *((verb, "secrets") for verb in MIGHTY),
    *((verb, "configmaps") for verb in MIGHTY),
    *((verb, "deployments.apps") for verb in MIGHTY),
    *((verb, "pods") for verb in MIGHTY),
    *((verb, "roles.rbac.authorization.k8s.io") for verb in MIGHTY),
    *((verb, "clusterroles.rbac.authorization.k8s.io") for verb in ("create", "update", "patch", "escalate", "bind")),
    *((verb, "clusterrolebindings.rbac.authorization.k8s.io") for verb in MIGHTY),
    *((verb, "rolebindings.rbac.authorization.k8s.io") for verb in ("list", "watch", "update", "patch", "delete")),
    *((verb, "serviceaccounts") for verb in ("list", "watch", "update", "patch", "delete", "impersonate")),
    *((verb, "applications.windlass.dev") for verb in ("create", "update", "delete", "retry", "approve")),
    *((verb, "actionrequests.windlass.dev") for verb in ("create", "update", "patch")),
    *((verb, "nodes") for verb in MIGHTY),
    *((verb, "namespaces") for verb in ("create", "update", "patch", "delete")),
    *((verb, "users") for verb in ("impersonate",)),
    *((verb, "groups") for verb in ("impersonate",)),
    *((verb, "validatingadmissionpolicies.admissionregistration.k8s.io") for verb in ("update", "patch", "delete")),
    *((verb, "validatingadmissionpolicybindings.admissionregistration.k8s.io") for verb in ("update", "delete")),
]


@pytest.mark.parametrize("who", ["worker", "watcher"])
async def test_windlass_has_no_rights_on_what_packages_hold(world: World, who: str) -> None:
    client: KubeClient = getattr(world, who)
    for namespace in (world.team, world.bare, "kube-system", MODULES):
        assert await granted(client, ELSEWHERE, namespace) == []


async def test_nothing_runs_in_windlass_system_but_what_is_deployed(world: World) -> None:
    for client in (world.worker, world.watcher, world.application, world.module):
        await refused(lambda client=client: client.create(deployment(SYSTEM, "windlass-worker")))
        await refused(lambda client=client: client.create(plain("Pod", SYSTEM, spec=POD)))


async def granted(client: KubeClient, table: Iterable[tuple[str, str]], namespace: str) -> list[tuple[str, str]]:
    return [(verb, what) for verb, what in table if await rights.allowed(client, verb, what, namespace)]


async def test_a_watcher_writes_no_package(world: World) -> None:
    table = [(verb, "applications.windlass.dev") for verb in ("create", "update", "patch", "delete")]
    table += [("patch", "applications/status.windlass.dev"), ("create", "rolebindings.rbac.authorization.k8s.io")]
    assert await granted(world.watcher, table, world.team) == []


# -- the account of Applications ---------------------------------------------------------------------------------------


async def test_an_application_does_in_its_namespace_what_charts_need(world: World) -> None:
    client, team = world.application, world.team
    await client.create(deployment(team, "default"))
    await client.create(plain("Secret", team, stringData={"a": "b"}))
    await client.create(plain("ServiceAccount", team))
    role = plain(
        "Role", team, api_version=rights.RBAC, rules=[{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]
    )
    await client.create(role)
    await client.create(binding(team, "view", "default"))
    await client.create(package("Application", rights.fresh("inner"), team))


async def test_an_application_cannot_leave_its_namespace(world: World) -> None:
    for namespace in (world.bare, SYSTEM, MODULES, "kube-system", ""):
        table = [("get", "secrets"), ("list", "secrets"), ("list", "configmaps"), ("create", "deployments.apps")]
        table += [("create", "rolebindings.rbac.authorization.k8s.io"), ("create", "serviceaccounts/token")]
        table += [("create", "clusterrolebindings.rbac.authorization.k8s.io"), ("impersonate", "serviceaccounts")]
        assert await granted(world.application, table, namespace) == []


async def test_an_application_makes_no_tokens_and_impersonates_nobody(world: World) -> None:
    client, team = world.application, world.team
    await refused(lambda: rights.token(client, team, "default"))
    assert not await rights.allowed(client, "impersonate", "serviceaccounts", team)
    secret = plain(
        "Secret",
        team,
        metadata={"annotations": {"kubernetes.io/service-account.name": "default"}},
        type="kubernetes.io/service-account-token",
    )
    # The text of refusals about Secrets is dropped by our client; without the policy this is allowed.
    error = await refused(lambda: client.create(secret))
    assert error.reason is Reason.FORBIDDEN


@pytest.mark.parametrize("role", ["edit", "admin", "cluster-admin", "windlass-operate", "windlass-module"])
async def test_an_application_grants_no_more_than_it_has(world: World, role: str) -> None:
    await refused(
        lambda: world.application.create(binding(world.team, role, "default")), "permissions not currently held"
    )


async def test_an_application_has_no_other_one_act_for_it(world: World) -> None:
    name = rights.fresh("inner")
    attack = package("Application", name, world.team, serviceAccountName="mighty")
    await refused(lambda: world.application.create(attack), "impersonate serviceaccounts/mighty", "is missing")
    ordinary = package("Application", name, world.team)
    for namespace in (world.bare, SYSTEM, MODULES):
        attack = package("Application", name, namespace)
        await refused(lambda attack=attack: world.application.create(attack))
    assert await world.application.create(ordinary)


async def test_an_application_asks_for_no_actions(world: World) -> None:
    table = [(verb, "applications.windlass.dev") for verb in ("retry", "rollback", "adopt", "approve")]
    assert await granted(world.application, [*table, ("create", "actionrequests.windlass.dev")], world.team) == []


GONE = {("extensions", None), ("apps", "deployments/rollback")}
"""What the built-in roles still list although no API server serves it any more."""

type Right = tuple[str, str, str]


async def expanded(kube: KubeClient, role: str) -> set[Right]:
    found = await kube.get(ObjectRef(api_version=rights.RBAC, kind="ClusterRole", name=role))
    assert found is not None
    return {
        (group, resource, verb)
        for rule in found.get("rules") or []
        for group in rule.get("apiGroups", [])
        for resource in rule.get("resources", [])
        for verb in rule["verbs"]
        if (group, None) not in GONE and (group, resource) not in GONE and group != "windlass.dev"
    }


async def test_the_role_of_applications_is_admin_without_tokens_and_impersonation(world: World) -> None:
    ours, theirs = await expanded(world.admin, "windlass-application"), await expanded(world.admin, "admin")
    assert theirs - ours == {("", "serviceaccounts/token", "create"), ("", "serviceaccounts", "impersonate")}
    assert ours - theirs == set()


async def test_a_labelled_role_extends_what_applications_may(world: World) -> None:
    name = rights.fresh("extra")
    role = plain(
        "ClusterRole",
        "",
        name,
        api_version=rights.RBAC,
        metadata={"labels": {"windlass.dev/aggregate-to-application": "true"}},
        rules=[{"apiGroups": ["example.dev"], "resources": ["gadgets"], "verbs": ["create"]}],
    )
    await world.admin.create(role)
    try:
        await eventually(lambda: rights.allowed(world.application, "create", "gadgets.example.dev", world.team))
    finally:
        await world.admin.delete(ObjectRef(api_version=rights.RBAC, kind="ClusterRole", name=name))


# -- the accounts of Modules and of reading ----------------------------------------------------------------------------


async def test_a_module_administers_the_cluster_but_not_windlass(world: World) -> None:
    name = rights.fresh("module")
    role = plain(
        "ClusterRole",
        "",
        name,
        api_version=rights.RBAC,
        rules=[{"apiGroups": ["example.dev"], "resources": ["*"], "verbs": ["*"]}],
    )
    await world.module.create(role)
    await world.module.delete(ObjectRef(api_version=rights.RBAC, kind="ClusterRole", name=name))
    await world.module.create(deployment(world.bare, "default"))
    said = "windlass-system holds Windlass itself and nothing of any package"
    await refused(lambda: world.module.create(plain("ConfigMap", SYSTEM)), said)
    await refused(lambda: rights.token(world.module, SYSTEM, "windlass-worker"), said)
    await refused(
        lambda: world.module.delete(ObjectRef(api_version="v1", kind="Namespace", name=SYSTEM)),
        said,
    )
    assert not await rights.allowed(world.module, "impersonate", "serviceaccounts", world.bare)


async def test_the_reader_watches_ordinary_kinds_everywhere_and_no_secrets(world: World) -> None:
    kinds = ["deployments.apps", "configmaps", "services", "roles.rbac.authorization.k8s.io", "cronjobs.batch"]
    kinds += ["customresourcedefinitions.apiextensions.k8s.io", "clusterroles.rbac.authorization.k8s.io"]
    for kind in [*kinds, "applications.windlass.dev"]:
        assert await rights.allowed(world.reader, "watch", kind), kind
    for namespace in ("", world.team, world.bare, SYSTEM, MODULES):
        table = [("get", "secrets"), ("list", "secrets"), ("watch", "secrets"), ("get", "pods/log")]
        table += [("create", "configmaps"), ("patch", "deployments.apps"), ("create", "serviceaccounts/token")]
        assert await granted(world.reader, table, namespace) == []
