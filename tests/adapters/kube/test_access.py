from __future__ import annotations

import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
import yaml

from support.waiting import eventually
from windlass.adapters.kube.access import TOKEN_SECONDS, KubeHookAccess
from windlass.adapters.kube.client import KubeClient
from windlass.domain.errors import Actor, PermanentError, Reason, TransientError
from windlass.ports.kube import ObjectRef

RBAC = "rbac.authorization.k8s.io/v1"


class Clock:
    """The real time, and something on top."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def __call__(self) -> float:
        return time.time() + self.ahead


class Counting:
    """Passes everything on to a client and counts what is asked of it."""

    def __init__(self, kube: KubeClient) -> None:
        self._kube = kube
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> Any:
        if name in ("get", "apply", "create_subresource", "delete"):
            self.calls.append(name)
        return getattr(self._kube, name)


@pytest_asyncio.fixture
async def role(kube: KubeClient, namespace: str) -> AsyncIterator[str]:
    name = f"hooks-{namespace}"
    rules = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "create"]}]
    await kube.apply(
        {"apiVersion": RBAC, "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules}, field_manager="it"
    )
    yield name
    await kube.delete(ObjectRef(api_version=RBAC, kind="ClusterRole", name=name))


async def test_the_kubeconfig_works_within_the_role_and_the_namespace(
    kube: KubeClient, namespace: str, role: str
) -> None:
    access = KubeHookAccess(kube, role=role)
    text = await access.kubeconfig(namespace, "hooks")
    context = yaml.safe_load(text)["contexts"][0]["context"]
    assert context["namespace"] == namespace
    async with KubeClient.from_kubeconfig(text) as hook:
        listed = await eventually(lambda: hook.list("v1", "ConfigMap", namespace=namespace))
        assert listed.resource_version
        for kind, where in (("ConfigMap", "default"), ("Secret", namespace)):
            with pytest.raises(PermanentError) as caught:
                await hook.list("v1", kind, namespace=where)
            assert caught.value.reason is Reason.FORBIDDEN
    await access.remove(namespace, "hooks")
    await access.remove(namespace, "hooks")  # absent is fine
    async with KubeClient.from_kubeconfig(text) as hook:
        await eventually(lambda: _is_refused(hook, namespace))


async def _is_refused(hook: KubeClient, namespace: str) -> bool:
    try:
        await hook.list("v1", "ConfigMap", namespace=namespace)
    except PermanentError:
        return True
    return False


async def test_a_second_call_costs_nothing_until_the_token_ages(kube: KubeClient, namespace: str, role: str) -> None:
    counting: Any = Counting(kube)
    clock = Clock()
    access = KubeHookAccess(counting, role=role, clock=clock)
    first = await access.kubeconfig(namespace, "hooks")
    asked = len(counting.calls)
    clock.ahead = TOKEN_SECONDS * 0.79
    assert await access.kubeconfig(namespace, "hooks") == first
    assert len(counting.calls) == asked
    clock.ahead = TOKEN_SECONDS * 0.81
    assert await access.kubeconfig(namespace, "hooks") != first
    assert len(counting.calls) == 2 * asked
    clock.ahead = TOKEN_SECONDS * 2
    with pytest.raises(TransientError, match="set the clocks"):
        await access.kubeconfig(namespace, "hooks")


async def test_another_role_replaces_the_binding(kube: KubeClient, namespace: str, role: str) -> None:
    await KubeHookAccess(kube, role=role).kubeconfig(namespace, "hooks")
    await KubeHookAccess(kube, role="view").kubeconfig(namespace, "hooks")
    ref = ObjectRef(api_version=RBAC, kind="RoleBinding", namespace=namespace, name="hooks")
    found = await kube.get(ref)
    assert found is not None
    assert found["roleRef"]["name"] == "view"


async def test_without_the_role_it_says_who_must_act(kube: KubeClient, namespace: str) -> None:
    with pytest.raises(PermanentError, match="absent-role") as caught:
        await KubeHookAccess(kube, role="absent-role").kubeconfig(namespace, "hooks")
    assert caught.value.actor is Actor.ADMIN
    ref = ObjectRef(api_version="v1", kind="ServiceAccount", namespace=namespace, name="hooks")
    assert await kube.get(ref) is None


async def test_hooks_of_modules_act_cluster_wide_until_they_are_removed(
    kube: KubeClient, namespace: str, role: str
) -> None:
    access = KubeHookAccess(kube, role=role, cluster_role=role)
    account = f"hooks-{namespace}"
    text = await access.kubeconfig(namespace, account, cluster_wide=True)
    binding = ObjectRef(api_version=RBAC, kind="ClusterRoleBinding", name=account)
    found = await kube.get(binding)
    assert found is not None
    assert found["subjects"] == [{"kind": "ServiceAccount", "name": account, "namespace": namespace}]

    async with KubeClient.from_kubeconfig(text, user_agent="hook") as hook:

        async def allowed() -> bool:
            try:
                return bool((await hook.list("v1", "ConfigMap", namespace="kube-system")).items)
            except PermanentError:
                return False  # the authorizer learns of the binding a moment later

        await eventually(allowed)

    await access.remove(namespace, account, cluster_wide=True)
    assert await kube.get(binding) is None
