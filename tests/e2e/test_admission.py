"""The policies of `deploy/` on the real API server: where packages live, as whom they act, who may ask for what."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

import pytest

from support import rights
from support.rights import MODULES, SYSTEM, package, plain, refused, request, user_name
from support.waiting import eventually
from windlass.adapters.kube.client import KubeClient
from windlass.devstack.stack import Stack
from windlass.domain.errors import PermanentError, Reason
from windlass.domain.ids import API_VERSION
from windlass.ports.kube import Object, ObjectRef

ROLES = {"viewer": "view", "editor": "edit", "owner": "admin"}
"""People of the namespace and the built-in role that each has there."""


@dataclass
class Team:
    """A namespace with an Application; ``people`` are clients by name, each with an account in ``home``."""

    admin: KubeClient
    namespace: str
    home: str
    application: str = "shop"
    people: dict[str, KubeClient] = field(default_factory=dict[str, KubeClient])

    def user(self, name: str) -> str:
        return user_name(self.home, name)

    def ref(self, name: str = "shop") -> ObjectRef:
        return ObjectRef(api_version=API_VERSION, kind="Application", namespace=self.namespace, name=name)


@pytest.fixture(scope="module")
async def team(stack: Stack) -> AsyncIterator[Team]:
    async with AsyncExitStack() as held:
        admin = await held.enter_async_context(
            KubeClient.from_kubeconfig(stack.kubeconfig, qps=500, burst=1000, user_agent="tests")
        )
        namespace = await held.enter_async_context(rights.namespace(admin, "team"))
        home = await held.enter_async_context(rights.namespace(admin, "people"))
        made = Team(admin, namespace, home)
        await admin.create(package("Application", "shop", namespace))
        for person in (*ROLES, "author", "oncall", "nobody"):
            made.people[person] = await held.enter_async_context(rights.acting(admin, home, person))
        for person, role in ROLES.items():
            await admin.create(rights.binding(namespace, role, person, account_namespace=home))
        # Writes Applications and, unlike `admin`, impersonates nobody.
        await give(made, "author", [("applications", ["get", "create", "update", "patch"], [])])
        # The person on call may retry one package, and nothing else.
        await give(made, "oncall", [("applications", ["retry"], ["shop"]), ("actionrequests", ["create"], [])])
        await eventually(lambda: rights.allowed(made.people["owner"], "adopt", "applications.windlass.dev", namespace))
        yield made


async def give(team: Team, person: str, rules: list[tuple[str, list[str], list[str]]]) -> None:
    """Make a Role of (resource of windlass.dev, verbs, names) and bind the person to it."""
    name = rights.fresh(person)
    role = plain(
        "Role",
        team.namespace,
        name,
        api_version=rights.RBAC,
        rules=[
            {"apiGroups": ["windlass.dev"], "resources": [what], "verbs": verbs, "resourceNames": names}
            for what, verbs, names in rules
        ],
    )
    await team.admin.create(role)
    bound = rights.binding(team.namespace, name, person, account_namespace=team.home)
    bound["roleRef"]["kind"] = "Role"
    await team.admin.create(bound)


# -- where packages live -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("namespace", [SYSTEM, MODULES, "kube-system", "kube-public"])
async def test_the_namespaces_of_windlass_and_of_the_cluster_hold_no_applications(team: Team, namespace: str) -> None:
    attack = package("Application", "shop", namespace)
    error = await refused(
        lambda: team.admin.apply(attack, field_manager="tests", dry_run=True),
        f"namespace {namespace} holds no Applications: create it in a namespace of its own, or as a Module",
    )
    assert error.reason is Reason.FORBIDDEN


async def test_an_application_targets_its_own_namespace_unless_it_names_who_may_act_elsewhere(team: Team) -> None:
    admin, here = team.admin, team.namespace

    def tried(**target: object) -> rights.Attempt:
        return lambda: admin.apply(package("Application", "tried", here, **target), field_manager="tests", dry_run=True)

    said = (
        f"spec.target.namespace default is not the namespace of the Application, {here}, and windlass-application has "
        "no rights outside: name an account with rights there in spec.target.serviceAccountName, or a cluster, "
        "or create a Module"
    )
    await refused(tried(namespace="default"), said)
    await refused(tried(namespace="default", serviceAccountName="windlass-application"), said)
    await tried(namespace=here)()
    await tried(namespace="default", serviceAccountName="default")()
    await tried(namespace="default", cluster={"kubeconfigSecret": {"name": "other"}})()
    await tried(namespace="kube-system", cluster={"kubeconfigSecret": {"name": "other"}})()
    await refused(
        tried(namespace=MODULES, serviceAccountName="default"),
        "spec.target.namespace windlass-modules is for Modules only",
    )


@pytest.mark.parametrize("namespace", [SYSTEM, "kube-system"])
@pytest.mark.parametrize("kind", ["Application", "Module"])
async def test_nothing_is_installed_into_windlass_or_the_cluster_itself(team: Team, kind: str, namespace: str) -> None:
    home = team.namespace if kind == "Application" else ""
    attack = package(kind, "tried", home, namespace=namespace, serviceAccountName="default")
    await refused(
        lambda: team.admin.apply(attack, field_manager="tests", dry_run=True),
        f"spec.target.namespace {namespace} belongs to the cluster or to Windlass itself: name another one",
    )


async def test_a_module_has_any_other_namespace(team: Team) -> None:
    for namespace in (MODULES, "default", team.namespace):
        module = package("Module", "tried", namespace=namespace)
        assert await team.admin.apply(module, field_manager="tests", dry_run=True)


# -- as whom packages act ----------------------------------------------------------------------------------------------


async def test_another_account_is_named_by_who_may_impersonate_it(team: Team) -> None:
    said = (
        f"spec.target.serviceAccountName: {team.user('author')} may not have a package act as mighty: the right to "
        f"impersonate serviceaccounts/mighty in namespace {team.namespace} is missing"
    )
    author, owner = team.people["author"], team.people["owner"]
    attack = package("Application", rights.fresh("mighty"), team.namespace, serviceAccountName="mighty")
    await refused(lambda: author.create(attack), said)
    assert await owner.create(attack)  # the built-in role `edit`, part of `admin`, may impersonate


async def test_the_account_of_the_namespace_may_be_named_by_everybody(team: Team) -> None:
    named = package("Application", rights.fresh("named"), team.namespace, serviceAccountName="windlass-application")
    assert await team.people["author"].create(named)


async def test_who_may_not_impersonate_an_account_neither_takes_nor_steers_it(team: Team) -> None:
    author, admin = team.people["author"], team.admin
    mine, theirs = rights.fresh("mine"), rights.fresh("theirs")
    await author.create(package("Application", mine, team.namespace))
    await admin.create(package("Application", theirs, team.namespace, serviceAccountName="mighty"))
    said = f"impersonate serviceaccounts/mighty in namespace {team.namespace} is missing"
    takes = {"spec": {"target": {"serviceAccountName": "mighty"}}}
    await refused(lambda: author.patch(team.ref(mine), takes, kind="merge"), said)
    steers = {"spec": {"package": {"version": "6.6.6"}}}
    await refused(lambda: author.patch(team.ref(theirs), steers, kind="merge"), said)
    # What is no part of the spec stays writable: finalizers would otherwise hold the object.
    assert await author.patch(team.ref(theirs), {"metadata": {"annotations": {"a": "b"}}}, kind="merge")
    assert await author.patch(team.ref(theirs), {"spec": {"target": None}}, kind="merge")


async def test_accounts_of_modules_are_those_of_windlass_modules(team: Team) -> None:
    module = package("Module", "tried", serviceAccountName="mighty")
    assert await team.admin.apply(module, field_manager="tests", dry_run=True)
    name = rights.fresh("modules")
    rule = {"apiGroups": ["windlass.dev"], "resources": ["modules"], "verbs": ["*"]}
    await team.admin.create(plain("ClusterRole", "", name, api_version=rights.RBAC, rules=[rule]))
    bound = rights.binding("", name, "author", account_namespace=team.home, name=name)
    await team.admin.create(bound)
    try:
        author = team.people["author"]
        await eventually(lambda: rights.allowed(author, "create", "modules.windlass.dev"))
        await refused(
            lambda: author.apply(module, field_manager="tests", dry_run=True),
            "impersonate serviceaccounts/mighty in namespace windlass-modules is missing",
        )
        default = package("Module", "tried", serviceAccountName="windlass-module")
        assert await author.apply(default, field_manager="tests", dry_run=True)
    finally:
        for kind in ("ClusterRoleBinding", "ClusterRole"):
            await team.admin.delete(ObjectRef(api_version=rights.RBAC, kind=kind, name=name))


# -- which installation ------------------------------------------------------------------------------------------------


async def test_an_object_stays_with_its_installation(team: Team) -> None:
    for labels, after in (
        ({"windlass.dev/installation": "mine"}, "mine"),
        ({"windlass.dev/installation": None}, "windlass"),
    ):
        await refused(
            lambda labels=labels: team.admin.patch(team.ref(), {"metadata": {"labels": labels}}, kind="merge"),
            f"the label windlass.dev/installation cannot change from nobodys to {after}: delete this object and create "
            "one for the other installation",
        )
    assert await team.admin.patch(team.ref(), {"metadata": {"labels": {"another": "label"}}}, kind="merge")


async def test_the_default_installation_may_be_named_later(team: Team) -> None:
    obj = package("Application", rights.fresh("unlabelled"), team.namespace)
    del obj["metadata"]["labels"]
    await team.admin.create(obj)
    labels = {"windlass.dev/installation": "windlass"}
    name = obj["metadata"]["name"]
    assert await team.admin.patch(team.ref(name), {"metadata": {"labels": labels}}, kind="merge")


# -- who may ask for what ----------------------------------------------------------------------------------------------

ACTIONS = ("retry", "skip", "cancel", "rollback", "pause", "resume", "adopt", "approve")
OPERATE = {"retry", "skip", "cancel", "rollback", "pause", "resume"}
MATRIX: dict[str, set[str]] = {
    "viewer": set(),
    "editor": OPERATE,
    "owner": {*ACTIONS},
    "author": set(),
    "oncall": {"retry"},
    "nobody": set(),
}


@pytest.mark.parametrize("person", MATRIX)
async def test_an_action_is_a_verb_on_the_package(team: Team, person: str) -> None:
    may = {
        action
        for action in ACTIONS
        if await rights.allowed(team.people[person], action, "applications.windlass.dev", team.namespace, "shop")
    }
    assert may == MATRIX[person]


OBJECTS: dict[str, dict[str, set[str]]] = {
    "viewer": {"applications": {"get", "list", "watch"}, "actionrequests": {"get", "list", "watch"}},
    "editor": {"applications": {"get", "list", "watch"}, "actionrequests": {"get", "list", "watch", "create"}},
    "owner": {
        "applications": {"get", "list", "watch", "create", "update", "patch", "delete"},
        "actionrequests": {"get", "list", "watch", "create", "delete"},
    },
    "nobody": {"applications": set(), "actionrequests": set()},
}


@pytest.mark.parametrize("person", OBJECTS)
async def test_view_edit_and_admin_include_windlass(team: Team, person: str) -> None:
    client = team.people[person]
    for plural, verbs in OBJECTS[person].items():
        may = {
            verb
            for verb in ("get", "list", "watch", "create", "update", "patch", "delete")
            if await rights.allowed(client, verb, f"{plural}.windlass.dev", team.namespace)
        }
        assert may == verbs, plural
        assert not await rights.allowed(client, "patch", f"{plural}/status.windlass.dev", team.namespace)
    for plural in ("modules", "packagerepositories"):
        assert not await rights.allowed(client, "create", f"{plural}.windlass.dev")
    inspects = await rights.allowed(client, "get", "applications/inspect.windlass.dev", team.namespace, "shop")
    assert inspects is (person in ("editor", "owner"))


async def test_retry_is_given_and_rollback_withheld(team: Team) -> None:
    oncall, here = team.people["oncall"], team.namespace
    await eventually(lambda: oncall.create(request("retry", "shop", here)))
    await refused(
        lambda: oncall.create(request("rollback", "shop", here)),
        f"{team.user('oncall')} may not rollback Application shop: the verb rollback on applications.windlass.dev is "
        f"missing in namespace {here}",
    )
    await refused(lambda: oncall.create(request("retry", "other", here)), "may not retry Application other")


async def test_who_asks_is_filled_in_and_cannot_be_forged(team: Team) -> None:
    oncall, here = team.people["oncall"], team.namespace

    await eventually(lambda: _filled_in(team))
    forged = await oncall.create(request("retry", "shop", here, who="root"))
    assert forged["spec"]["who"] == team.user("oncall")


async def _filled_in(team: Team) -> bool:
    made = await team.people["oncall"].create(request("retry", "shop", team.namespace))
    return made["spec"]["who"] == team.user("oncall")


async def test_without_the_mutating_policy_a_forged_author_is_refused(team: Team) -> None:
    [policy, bound] = rights.documents("policies/mutating/who.yaml")
    ref = ObjectRef(api_version=bound["apiVersion"], kind=bound["kind"], name=bound["metadata"]["name"])
    await team.admin.delete(ref)
    oncall, here = team.people["oncall"], team.namespace
    try:
        said = f"spec.who must be {team.user('oncall')}, who asks"
        await refused(lambda: oncall.create(request("retry", "shop", here, who="root")), said)
        await refused(lambda: oncall.create(request("retry", "shop", here)), said)
        assert await oncall.create(request("retry", "shop", here, who=team.user("oncall")))
    finally:
        await team.admin.apply(policy, field_manager="tests")
        await team.admin.apply(bound, field_manager="tests")
        await eventually(lambda: _filled_in(team))


async def test_what_was_asked_stays_as_it_was(team: Team) -> None:
    made = await team.people["owner"].create(request("retry", "shop", team.namespace))
    ref = ObjectRef(
        api_version=API_VERSION, kind="ActionRequest", namespace=team.namespace, name=made["metadata"]["name"]
    )
    for changed in ({"action": "rollback"}, {"who": "root"}, {"target": {"name": "other"}}, {"reason": None}):
        await refused(
            lambda changed=changed: team.admin.patch(ref, {"spec": changed}, kind="merge"),
            "spec cannot change: create another ActionRequest",
        )
    status = {"status": {"accepted": True}}
    assert await team.admin.patch(ref, status, kind="merge", subresource="status")


async def test_a_request_is_about_a_package_beside_it(team: Team) -> None:
    owner, admin, here = team.people["owner"], team.admin, team.namespace
    await refused(
        lambda: admin.create(request("retry", "dns", here, kind="Module")),
        f"a request about Module dns does not belong in namespace {here}: requests about Modules lie in "
        "windlass-modules, all others beside their Application",
    )
    await refused(
        lambda: admin.create(request("retry", "shop", MODULES)), "does not belong in namespace windlass-modules"
    )
    # The verbs that every object has are no actions, although somebody has them.
    await refused(lambda: owner.create(request("get", "shop", here)), "spec.action: Unsupported value")
    await refused(lambda: owner.create(request("retry", "", here)), "spec.target.name")


async def test_actions_on_modules_are_verbs_on_modules(team: Team) -> None:
    admin, oncall = team.admin, team.people["oncall"]
    name = rights.fresh("dns")
    rule = {"apiGroups": ["windlass.dev"], "resources": ["modules"], "verbs": ["retry"], "resourceNames": ["dns"]}
    await admin.create(plain("ClusterRole", "", name, api_version=rights.RBAC, rules=[rule]))
    await admin.create(rights.binding("", name, "oncall", account_namespace=team.home, name=name))
    ask = rights.binding(MODULES, "windlass-operate", "oncall", account_namespace=team.home, name=name)
    operate = {"apiGroups": ["windlass.dev"], "resources": ["actionrequests"], "verbs": ["create"]}
    await admin.create(plain("Role", MODULES, name, api_version=rights.RBAC, rules=[operate]))
    ask["roleRef"] |= {"kind": "Role", "name": name}
    await admin.create(ask)
    try:
        made = await eventually(lambda: oncall.create(request("retry", "dns", MODULES, kind="Module")))
        await admin.delete(_request_ref(made))
        await refused(
            lambda: oncall.create(request("rollback", "dns", MODULES, kind="Module")),
            f"{team.user('oncall')} may not rollback Module dns: the verb rollback on modules.windlass.dev is missing",
        )
        await refused(
            lambda: oncall.create(request("retry", "other", MODULES, kind="Module")), "may not retry Module other"
        )
    finally:
        for kind in ("ClusterRoleBinding", "ClusterRole"):
            await admin.delete(ObjectRef(api_version=rights.RBAC, kind=kind, name=name))
        for kind in ("RoleBinding", "Role"):
            await admin.delete(ObjectRef(api_version=rights.RBAC, kind=kind, namespace=MODULES, name=name))


def _request_ref(made: Object) -> ObjectRef:
    metadata = made["metadata"]
    return ObjectRef(
        api_version=API_VERSION, kind="ActionRequest", namespace=metadata["namespace"], name=metadata["name"]
    )


async def test_people_do_not_write_what_became_of_a_request(team: Team) -> None:
    owner = team.people["owner"]
    made = await owner.create({**request("retry", "shop", team.namespace), "status": {"accepted": True}})
    assert "status" not in made
    with pytest.raises(PermanentError) as written:
        await owner.patch(_request_ref(made), {"status": {"accepted": True}}, kind="merge", subresource="status")
    assert written.value.reason is Reason.FORBIDDEN
