"""What accounts may do to objects, asked of a real API server, and how many requests that takes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest

from support import rights
from support.waiting import eventually
from windlass.adapters.kube.client import KubeClient
from windlass.adapters.kube.permissions import impersonating, review
from windlass.domain.errors import PermanentError, Reason
from windlass.domain.target import APPLICATION_ACCOUNT, Account
from windlass.ports.kube import Object, ObjectRef

FULL = ("get", "create", "patch", "delete")


@dataclass
class Counting:
    """A client that notes which reviews it is asked for."""

    kube: KubeClient
    asked: list[str]

    def __getattr__(self, name: str) -> object:
        return getattr(self.kube, name)

    async def create(self, obj: Object) -> Object:
        self.asked.append(obj["kind"])
        return await self.kube.create(obj)


def config_map(namespace: str, name: str = "web") -> ObjectRef:
    return ObjectRef(api_version="v1", kind="ConfigMap", namespace=namespace, name=name)


CLUSTER_ROLE = ObjectRef(api_version=rights.RBAC, kind="ClusterRole", name="web")
DEFINITION = ObjectRef(api_version="apiextensions.k8s.io/v1", kind="CustomResourceDefinition", name="a.example.dev")
HOOK = ObjectRef(
    api_version="admissionregistration.k8s.io/v1", kind="ValidatingWebhookConfiguration", name="web.example.dev"
)


async def allow(kube: KubeClient, namespace: str, account: str, *rules: Object) -> None:
    role = rights.plain("Role", namespace, account, api_version=rights.RBAC, rules=list(rules))
    await kube.apply(role, field_manager="tests")
    bound = rights.binding(namespace, account, account, name=account)
    bound["roleRef"]["kind"] = "Role"
    await kube.apply(bound, field_manager="tests")


@pytest.fixture
async def shop(kube: KubeClient, namespace: str) -> AsyncIterator[Counting]:
    """An account that may do everything to ConfigMaps of its namespace, and little to one Lease."""
    maps = {"apiGroups": [""], "resources": ["configmaps"], "verbs": list(FULL)}
    lease = {
        "apiGroups": ["coordination.k8s.io"],
        "resources": ["leases"],
        "resourceNames": ["mine"],
        "verbs": ["get", "patch", "delete"],
    }
    await allow(kube, namespace, "shop", maps, lease)
    async with rights.acting(kube, namespace, "shop") as client:
        await eventually(lambda: rights.allowed(client, "get", "configmaps", namespace))
        yield Counting(client, [])


async def test_what_is_allowed_takes_one_request(shop: Counting, namespace: str) -> None:
    found = await review(shop, [config_map(namespace, f"m{n}") for n in range(50)])  # type: ignore[arg-type]  # passes the rest on
    assert (found.forbidden, found.unknown) == ((), ())
    assert shop.asked == ["SelfSubjectRulesReview"]


async def test_every_forbidden_object_is_found_with_its_verbs(shop: Counting, namespace: str) -> None:
    refs = [config_map(namespace), config_map("default"), CLUSTER_ROLE, DEFINITION, HOOK]
    found = await review(shop, refs)  # type: ignore[arg-type]  # passes the rest on
    assert {one.item.kind: one.verbs for one in found.forbidden} == {
        "ConfigMap": FULL,
        "ClusterRole": FULL,
        "CustomResourceDefinition": FULL,
        "ValidatingWebhookConfiguration": FULL,
    }
    assert [one.item.namespace for one in found.forbidden if one.item.kind == "ConfigMap"] == ["default"]


async def test_a_role_for_one_name_counts_for_that_name(shop: Counting, namespace: str) -> None:
    refs = [
        ObjectRef(api_version="coordination.k8s.io/v1", kind="Lease", namespace=namespace, name=name)
        for name in ("mine", "theirs")
    ]
    found = await review(shop, refs)  # type: ignore[arg-type]  # passes the rest on
    assert {one.item.name: one.verbs for one in found.forbidden} == {"mine": ("create",), "theirs": FULL}


async def test_rights_in_a_namespace_say_nothing_of_the_cluster(kube: KubeClient, namespace: str) -> None:
    await kube.apply(rights.binding(namespace, "cluster-admin", "chief", name="chief"), field_manager="tests")
    async with rights.acting(kube, namespace, "chief") as client:
        await eventually(lambda: rights.allowed(client, "create", "configmaps", namespace))
        found = await review(client, [config_map(namespace), CLUSTER_ROLE])
    assert [one.item.kind for one in found.forbidden] == ["ClusterRole"]


async def test_kinds_that_are_not_served_are_left_out(shop: Counting, namespace: str) -> None:
    odd = ObjectRef(api_version="none.example/v1", kind="None", namespace=namespace, name="x")
    assert not (await review(shop, [odd])).forbidden  # type: ignore[arg-type]  # passes the rest on


@pytest.mark.usefixtures("shop")
async def test_whoever_may_impersonate_an_account_can_ask_for_it(kube: KubeClient, namespace: str) -> None:
    await kube.apply(rights.binding(namespace, "edit", "editor", name="editor"), field_manager="tests")
    account = Account(namespace=namespace, name="shop")
    async with rights.acting(kube, namespace, "editor") as editor:
        await eventually(lambda: rights.allowed(editor, "impersonate", "serviceaccounts", namespace))
        async with impersonating(editor, account) as client:
            found = await review(client, [config_map(namespace), CLUSTER_ROLE])
    assert [one.item.kind for one in found.forbidden] == ["ClusterRole"]


async def test_whoever_may_not_impersonate_it_cannot(kube: KubeClient, namespace: str) -> None:
    async with (
        rights.acting(kube, namespace, "nobody") as nobody,
        impersonating(nobody, Account(namespace=namespace, name="shop")) as client,
    ):
        with pytest.raises(PermanentError) as caught:
            await review(client, [config_map(namespace)])
    assert caught.value.reason is Reason.FORBIDDEN


async def test_before_the_default_account_is_bound_its_role_counts(kube: KubeClient, namespace: str) -> None:
    account = Account(namespace=namespace, name=APPLICATION_ACCOUNT)
    async with impersonating(kube, account) as client:
        without = await review(client, [config_map(namespace)])
        found = await review(client, [config_map(namespace), CLUSTER_ROLE], unbound=account)
    assert [one.item.kind for one in without.forbidden] == ["ConfigMap"]
    assert [one.item.kind for one in found.forbidden] == ["ClusterRole"]
    # The account itself may not read the role it is going to be bound to, so that is left open.
    assert [one.kind for one in found.unknown] == ["ConfigMap"]
