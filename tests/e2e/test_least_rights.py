"""Worker and watcher on the embedded stack are the accounts that `deploy/` gives rights to, never administrators."""

from __future__ import annotations

from pathlib import Path

import pytest

from support import rights
from support.rights import SYSTEM, user_name
from windlass.adapters.kube.client import KubeClient
from windlass.cli.context import Context
from windlass.devstack.stack import Stack

REVIEW = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}


async def who(kubeconfig: Path) -> tuple[str, set[str]]:
    """Return user and groups of a kubeconfig as the API server knows them."""
    async with KubeClient.from_kubeconfig(kubeconfig) as kube:
        found = (await kube.create(REVIEW))["status"]["userInfo"]
    return found["username"], set(found["groups"])


def contexts(stack: Stack) -> list[Context]:
    """A user's shell without anything set, and one with the line that `windlass up` prints."""
    environs = ({}, {"KUBECONFIG": str(stack.kubeconfig)})
    return [Context(data_dir=stack.data_dir, environ=environ, stack=stack) for environ in environs]


async def test_worker_and_watcher_are_their_own_accounts(stack: Stack) -> None:
    groups = {"system:serviceaccounts", f"system:serviceaccounts:{SYSTEM}", "system:authenticated"}
    for context in contexts(stack):
        assert await who(context.worker_kubeconfig) == (user_name(SYSTEM, "windlass-worker"), groups)
        assert await who(context.watcher_kubeconfig) == (user_name(SYSTEM, "windlass-watcher"), groups)
        assert (await who(context.kubeconfig))[0] == "admin"


async def test_a_kubeconfig_of_ones_own_is_used_as_it_is(stack: Stack, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    environ = {"KUBECONFIG": str(mine)}
    context = Context(data_dir=stack.data_dir, environ=environ, stack=stack)
    assert (context.worker_kubeconfig, context.watcher_kubeconfig) == (mine, mine)
    apart = {**environ, "WINDLASS_WATCHER_KUBECONFIG": str(tmp_path / "theirs")}
    context = Context(data_dir=stack.data_dir, environ=apart, stack=stack)
    assert (context.worker_kubeconfig, context.watcher_kubeconfig) == (mine, tmp_path / "theirs")


@pytest.mark.parametrize("verb", ["get", "list", "create"])
async def test_neither_reads_secrets_outside_windlass_system(stack: Stack, verb: str) -> None:
    for kubeconfig in (stack.worker_kubeconfig, stack.watcher_kubeconfig):
        async with KubeClient.from_kubeconfig(kubeconfig) as kube:
            assert not await rights.allowed(kube, verb, "secrets", "default")
            assert not await rights.allowed(kube, verb, "clusterrolebindings.rbac.authorization.k8s.io")
