"""How packages end when what they need for it ended before them: nothing hangs without saying what would help."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from support.faults import HoldingProxy
from support.installation import ROLLOUT, STUCK, Installation, condition, write_greeter, write_package
from support.running import packages, running, shown
from support.waiting import eventually
from windlass.contracts.lifecycle import AdoptAction
from windlass.devstack.stack import Stack
from windlass.domain.errors import Reason
from windlass.domain.ids import ABANDON_ANNOTATION
from windlass.domain.target import APPLICATION_ACCOUNT
from windlass.ports.kube import Object, ObjectRef

RBAC = "rbac.authorization.k8s.io/v1"
HOOK = """\
#!/bin/sh
[ "$1" = --config ] && echo 'configVersion: v1
beforeDeleteHelm: 1' && exit 0
exit 1
"""
"""A hook that no removal gets past."""


@pytest.fixture(scope="module")
async def installation(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Installation]:
    async with running(stack, tmp_path_factory.mktemp("ends"), WINDLASS_KUBECONFIGS="local") as made:
        write_greeter(packages(made), "1.0.0")
        write_package(packages(made), "rollout", "1.0.0", templates={"a.yaml": ROLLOUT}, settings=STUCK)
        write_package(
            packages(made), "stubborn", "1.0.0", templates={"a.yaml": ROLLOUT}, settings=STUCK, hooks={"a.sh": HOOK}
        )
        yield made


async def elsewhere(installation: Installation, name: str) -> Installation:
    """Make another namespace of the same installation."""
    namespace = f"{installation.name}-{name}"
    await installation.kube.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    return replace(installation, namespace=namespace)


def namespace_ref(name: str) -> ObjectRef:
    return ObjectRef(api_version="v1", kind="Namespace", name=name)


async def held(installation: Installation, name: str, reason: Reason) -> Object:
    """Wait until the removal says what holds it; return the failure."""
    obj = await installation.status(
        name,
        lambda status: status["phase"] == "Removing" and (status.get("failure") or {}).get("reason") == reason.value,
    )
    ready = condition(obj, "Ready")
    assert (ready["status"], ready["reason"]) == ("False", "Removing")
    failure: Object = obj["status"]["failure"]
    assert ABANDON_ANNOTATION in failure["hint"]
    return failure


async def abandon(installation: Installation, name: str) -> None:
    patch = {"metadata": {"annotations": {ABANDON_ANNOTATION: "true"}}}
    await installation.kube.patch(installation.package_ref(name), patch, kind="merge")


async def account(installation: Installation, name: str) -> None:
    """Create a service account that may do everything in the namespace."""
    metadata = {"name": name, "namespace": installation.namespace}
    await installation.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})
    await installation.apply(
        {
            "apiVersion": RBAC,
            "kind": "RoleBinding",
            "metadata": metadata,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "admin"},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": installation.namespace}],
        }
    )


async def test_a_namespace_that_is_deleted_takes_its_packages_along(installation: Installation) -> None:
    there = await elsewhere(installation, "ending")
    await there.application("plain", "greeter", "1.0.0")
    await there.application("stubborn", "stubborn", "1.0.0")
    await there.ready("plain")
    await there.ready("stubborn")

    await installation.kube.delete(namespace_ref(there.namespace))

    async def gone() -> bool:
        return await installation.kube.get(namespace_ref(there.namespace)) is None

    await eventually(gone, what="the namespace is gone")
    assert await there.record("plain") is None
    assert await there.record("stubborn") is None


async def test_a_package_that_has_failed_for_want_of_rights_goes_with_its_namespace(installation: Installation) -> None:
    there = await elsewhere(installation, "poor")
    await there.application("poor", "greeter", "1.0.0", target={"serviceAccountName": "nobody"})
    await there.status("poor", lambda status: (status.get("failure") or {}).get("reason") == "IdentityMissing")

    await installation.kube.delete(namespace_ref(there.namespace))

    async def gone() -> bool:
        return await installation.kube.get(namespace_ref(there.namespace)) is None

    await eventually(gone, what="the namespace is gone")


async def test_the_default_account_is_made_again_for_a_removal(installation: Installation) -> None:
    there = await elsewhere(installation, "default")
    await there.application("bare", "greeter", "1.0.0")
    await there.ready("bare")
    installation.kill()  # with the token that it has, it could go on for some seconds
    await there.kube.delete(there.ref("RoleBinding", APPLICATION_ACCOUNT, RBAC))
    await there.kube.delete(there.ref("ServiceAccount", APPLICATION_ACCOUNT))

    await there.delete("bare")
    installation.start()

    await there.gone("bare")
    assert await there.release("bare") == {}
    assert await shown(there, "bare") == {}


async def test_a_removal_without_its_account_names_it_and_ends_when_it_is_back(installation: Installation) -> None:
    await account(installation, "mine")
    await installation.application("orphaned", "greeter", "1.0.0", target={"serviceAccountName": "mine"})
    await installation.ready("orphaned")
    installation.kill()  # the API server takes the account's token for some more seconds, and a new worker has none
    await installation.kube.delete(installation.ref("ServiceAccount", "mine"))
    await installation.delete("orphaned")

    installation.start()

    failure = await held(installation, "orphaned", Reason.IDENTITY_MISSING)
    assert "service account mine" in failure["message"]
    await account(installation, "mine")
    await installation.gone("orphaned")
    assert await shown(installation, "orphaned") == {}


async def test_a_removal_without_rights_says_which_and_may_be_abandoned(installation: Installation) -> None:
    await account(installation, "unbound")
    await installation.application("unbound", "greeter", "1.0.0", target={"serviceAccountName": "unbound"})
    await installation.ready("unbound")
    await installation.kube.delete(installation.ref("RoleBinding", "unbound", RBAC))

    await installation.delete("unbound")

    failure = await held(installation, "unbound", Reason.FORBIDDEN)
    assert "service account unbound" in failure["message"]
    await abandon(installation, "unbound")
    await installation.gone("unbound")
    assert await installation.record("unbound") is None
    assert await shown(installation, "unbound")


async def other_cluster(installation: Installation, proxy: HoldingProxy, name: str, folder: Path) -> None:
    """Install a package through a kubeconfig that leads through ``proxy``, as if it led to another cluster."""
    text = await asyncio.to_thread(_through, proxy, folder)
    metadata = {"name": name, "namespace": installation.namespace}
    await installation.kube.create(
        {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {"kubeconfig": text}}
    )
    target = {"cluster": {"kubeconfigSecret": {"name": name}}, "namespace": installation.namespace}
    await installation.application(name, "greeter", "1.0.0", target=target)
    await installation.ready(name)


def _through(proxy: HoldingProxy, folder: Path) -> str:
    folder.mkdir()
    return proxy.kubeconfig(folder).read_text()


async def test_a_kubeconfig_that_is_deleted_first_is_asked_for(installation: Installation, tmp_path: Path) -> None:
    async with HoldingProxy(installation.stack).serving() as proxy:
        await other_cluster(installation, proxy, "nokey", tmp_path / "nokey")
        ref = installation.ref("Secret", "nokey")
        secret = await installation.kube.get(ref)
        assert secret is not None
        await installation.kube.delete(ref)

        await installation.delete("nokey")

        failure = await held(installation, "nokey", Reason.IDENTITY_MISSING)
        assert "Secret nokey" in failure["message"]
        metadata = {"name": "nokey", "namespace": installation.namespace}
        await installation.kube.create({**secret, "metadata": metadata})
        await installation.gone("nokey")
        assert await shown(installation, "nokey") == {}


async def test_a_cluster_that_is_gone_for_good_holds_a_removal_until_it_is_abandoned(
    installation: Installation, tmp_path: Path
) -> None:
    async with AsyncExitStack() as living:
        proxy = await living.enter_async_context(HoldingProxy(installation.stack).serving())
        await other_cluster(installation, proxy, "lost", tmp_path / "lost")
        await living.aclose()

        await installation.delete("lost")

        failure = await held(installation, "lost", Reason.CLUSTER_UNREACHABLE)
        assert f"{installation.namespace}/lost" in failure["message"]
        await abandon(installation, "lost")
        await installation.gone("lost")
        assert await installation.record("lost") is None


async def test_an_orphaned_release_stays_and_may_be_adopted_later(installation: Installation) -> None:
    await installation.application("stays", "rollout", "1.0.0", deletionPolicy="Orphan")
    await installation.ready("stays")
    pods = await pod_uids(installation, "stays")
    assert pods

    await installation.delete("stays")
    await installation.gone("stays")

    assert await installation.release("stays") == {1: "deployed"}
    assert await installation.record("stays") is None
    assert await pod_uids(installation, "stays") == pods
    await installation.application("stays", "rollout", "1.0.0")
    obj = await installation.status("stays", lambda status: status.get("failure"))
    assert obj["status"]["failure"]["reason"] == Reason.RELEASE_FOREIGN.value
    answer = await installation.lifecycles.adopt(installation.key("stays"), AdoptAction(who="tests"))
    assert answer.accepted
    await installation.ready("stays")
    assert await pod_uids(installation, "stays") == pods


async def pod_uids(installation: Installation, release: str) -> list[str]:
    found = await installation.kube.list("v1", "Pod", namespace=installation.namespace, label_selector=f"app={release}")
    return sorted(pod["metadata"]["uid"] for pod in found.items)
