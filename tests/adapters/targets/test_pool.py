"""Identities of packages on the real API server."""

from __future__ import annotations

import asyncio
import base64
import stat
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

import pytest
import yaml

from support.rights import package
from support.targets import at_home
from support.waiting import eventually
from windlass.adapters.kube.client import KubeClient
from windlass.adapters.kube.kubeconfig import read
from windlass.adapters.targets import pool as pool_module
from windlass.adapters.targets.accounts import TOKEN_SECONDS
from windlass.adapters.targets.kubeconfig import Allowed, render, with_token
from windlass.adapters.targets.pool import CHECK_SECONDS, IDLE_SECONDS, TargetPool
from windlass.devstack.stack import Stack
from windlass.domain.errors import PermanentError, Reason, TransientError
from windlass.domain.target import APPLICATION_ACCOUNT, Account, Kubeconfig, Target
from windlass.ports.kube import Object, ObjectRef
from windlass.ports.targets import Role

pytestmark = pytest.mark.stack


@dataclass
class Clock:
    """Seconds that tests move on; starts now, since tokens expire by the API server's clock."""

    now: float = field(default_factory=time.time)

    def __call__(self) -> float:
        return self.now


def package_account(namespace: str) -> Object:
    """The account that Windlass makes, which policies admit where there are Applications."""
    labels = {"windlass.dev/identity": "package"}
    metadata = {"name": APPLICATION_ACCOUNT, "namespace": namespace, "labels": labels}
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}


@pytest.fixture
async def kube(stack: Stack) -> AsyncIterator[KubeClient]:
    async with KubeClient.from_kubeconfig(stack.kubeconfig, qps=1000, burst=1000) as client:
        yield client


@pytest.fixture
async def namespace(kube: KubeClient) -> AsyncIterator[str]:
    name = f"targets-{uuid4().hex[:8]}"
    await kube.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    await kube.create(package("Application", "first", name))
    account = package_account(name)

    async def admitted() -> bool:
        try:
            await kube.apply(account, field_manager="tests", dry_run=True)
        except PermanentError:
            return False
        return True

    await eventually(admitted, what="policies have seen the Application")
    yield name
    await kube.delete(ObjectRef(api_version="v1", kind="Namespace", name=name))


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def pool(kube: KubeClient, tmp_path: Path, clock: Clock) -> AsyncIterator[TargetPool]:
    allowed = Allowed(local=True)
    async with TargetPool(kube, tmp_path / "targets", allowed=allowed, clock=clock, monotonic=clock) as made:
        yield made


async def who(pool: TargetPool, target: Target) -> str:
    async with pool.acting(target) as acting:
        client = await acting.kube(Role.HELM)
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
        return (await client.create(review))["status"]["userInfo"]["username"]


async def secret(kube: KubeClient, namespace: str, text: str, *, key: str = "kubeconfig") -> Target:
    """Store a kubeconfig under the name `edge`; return the target that names it."""
    await kube.apply(
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "edge", "namespace": namespace},
            "data": {key: base64.b64encode(text.encode()).decode()},
        },
        field_manager="tests",
    )
    return Target(account=at_home(namespace).account, cluster=Kubeconfig(name="edge"), namespace="default")


async def test_the_default_account_is_made_and_bound_to_its_namespace(
    pool: TargetPool, kube: KubeClient, namespace: str
) -> None:
    assert await who(pool, at_home(namespace)) == f"system:serviceaccount:{namespace}:windlass-application"
    binding = await kube.get(
        ObjectRef(
            api_version="rbac.authorization.k8s.io/v1",
            kind="RoleBinding",
            namespace=namespace,
            name="windlass-application",
        )
    )
    assert binding is not None
    assert binding["roleRef"]["name"] == "windlass-application"
    assert binding["metadata"]["labels"]["windlass.dev/identity"] == "package"


async def test_an_application_reads_its_namespace_and_no_other(
    pool: TargetPool, kube: KubeClient, namespace: str
) -> None:
    await secret(kube, namespace, "x")
    async with pool.acting(at_home(namespace)) as acting:
        client = await acting.kube(Role.INPUTS)
        here = ObjectRef(api_version="v1", kind="Secret", namespace=namespace, name="edge")
        assert await client.get(here) is not None
        with pytest.raises(PermanentError) as refused:
            await client.get(ObjectRef(api_version="v1", kind="Secret", namespace="kube-system", name="any"))
    assert refused.value.reason is Reason.FORBIDDEN


async def test_a_named_account_that_does_not_exist_is_missing(pool: TargetPool, namespace: str) -> None:
    target = Target(account=Account(namespace=namespace, name="nobody"), namespace=namespace)
    with pytest.raises(TransientError) as missing:
        await who(pool, target)
    assert missing.value.reason is Reason.IDENTITY_MISSING
    assert f"service account nobody in {namespace}" in missing.value.message


async def test_users_of_one_identity_share_it_and_it_is_closed_when_idle(
    pool: TargetPool, namespace: str, clock: Clock
) -> None:
    target = at_home(namespace)
    async with pool.acting(target) as first, pool.acting(target) as second:
        assert await first.kube(Role.HELM) is await second.kube(Role.HELM)
        file = first.kubeconfig
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        clock.now += 2 * IDLE_SECONDS
        await pool.close_idle()
        assert (pool.open, file.exists()) == (1, True)
    clock.now += 2 * IDLE_SECONDS
    await pool.close_idle()
    assert (pool.open, file.exists()) == (0, False)


async def test_what_one_identity_meets_does_not_end_the_care_for_the_others(
    kube: KubeClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool_module, "TEND_SECONDS", 0.01)
    looks: list[int] = []

    async def broken(_: TargetPool) -> None:
        looks.append(1)
        raise RuntimeError("an answer nobody thought of")

    monkeypatch.setattr(TargetPool, "close_idle", broken)
    async with TargetPool(kube, tmp_path / "targets"):
        await eventually(lambda: len(looks) > 1, what="a second look")


async def test_a_token_is_renewed_before_its_last_fifth(pool: TargetPool, namespace: str, clock: Clock) -> None:
    target = at_home(namespace)
    async with pool.acting(target) as acting:
        first = acting.kubeconfig.read_text()
    assert pool.known(target)
    clock.now += 0.85 * TOKEN_SECONDS
    assert not pool.known(target)
    clock.now -= 0.85 * TOKEN_SECONDS - 1  # the API server's clock has not moved: its tokens live from now on
    async with pool.acting(target) as acting:
        assert acting.kubeconfig.read_text() == first


async def test_an_account_that_was_made_anew_is_used_again(
    pool: TargetPool, kube: KubeClient, namespace: str, clock: Clock
) -> None:
    target = at_home(namespace)
    await who(pool, target)
    clock.now += CHECK_SECONDS + 1
    await kube.delete(
        ObjectRef(api_version="v1", kind="ServiceAccount", namespace=namespace, name="windlass-application")
    )

    async def refused() -> Reason | None:
        try:
            await who(pool, target)
        except TransientError as error:
            return error.reason
        return None

    found = await eventually(refused, what="the API server has forgotten the token")
    assert found is Reason.IDENTITY_MISSING, "what goes away by itself is tried again soon"
    assert await who(pool, target) == f"system:serviceaccount:{namespace}:windlass-application"


async def test_another_cluster_is_reached_as_the_user_of_its_kubeconfig(
    pool: TargetPool, kube: KubeClient, stack: Stack, namespace: str
) -> None:
    target = await secret(kube, namespace, _inline(stack))
    assert not (await who(pool, target)).startswith("system:serviceaccount")
    async with pool.acting(target) as acting:
        assert "exec" not in acting.kubeconfig.read_text()
        context = yaml.safe_load(acting.kubeconfig_text())["contexts"][0]["context"]
        assert context["namespace"] == "default"


async def test_a_changed_secret_is_noticed_at_the_next_use(
    pool: TargetPool, kube: KubeClient, stack: Stack, namespace: str
) -> None:
    target = await secret(kube, namespace, _inline(stack))
    await who(pool, target)
    await secret(kube, namespace, "no kubeconfig")
    with pytest.raises(PermanentError) as invalid:
        await who(pool, target)
    assert invalid.value.reason is Reason.KUBECONFIG_INVALID


async def test_a_missing_secret_is_named(pool: TargetPool, kube: KubeClient, namespace: str) -> None:
    target = await secret(kube, namespace, "x", key="other")
    with pytest.raises(PermanentError, match=f"Secret edge in {namespace} has no key kubeconfig"):
        await who(pool, target)
    await kube.delete(ObjectRef(api_version="v1", kind="Secret", namespace=namespace, name="edge"))
    with pytest.raises(TransientError) as missing:
        await who(pool, target)
    assert missing.value.reason is Reason.IDENTITY_MISSING


async def test_credentials_that_are_not_accepted_are_the_kubeconfigs_fault(
    pool: TargetPool, kube: KubeClient, stack: Stack, namespace: str
) -> None:
    target = await secret(kube, namespace, _inline(stack, token="revoked"))
    with pytest.raises(PermanentError) as invalid:
        await who(pool, target)
    assert invalid.value.reason is Reason.KUBECONFIG_INVALID
    assert "does not accept the credentials" in invalid.value.message


@asynccontextmanager
async def silent_server() -> AsyncIterator[tuple[int, list[int]]]:
    """A server that takes connections and says nothing; yields its port and who has connected."""
    connected: list[int] = []

    async def take(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connected.append(1)
        writer.close()

    server = await asyncio.start_server(take, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1], connected


async def test_a_cluster_that_does_not_answer_is_not_asked_by_every_package(
    pool: TargetPool, kube: KubeClient, stack: Stack, namespace: str, clock: Clock
) -> None:
    async with silent_server() as (port, connected):
        target = await secret(kube, namespace, _inline(stack, server=f"https://127.0.0.1:{port}"))
        for _ in range(5):
            with pytest.raises(TransientError) as unreachable:
                await who(pool, target)
            assert unreachable.value.reason is Reason.CLUSTER_UNREACHABLE
        asked = len(connected)
        clock.now += 60
        with pytest.raises(TransientError):
            await who(pool, target)
    assert (asked, len(connected)) == (1, 2)


async def test_a_server_on_this_machine_is_refused_unless_a_setting_allows_it(
    kube: KubeClient, stack: Stack, namespace: str, tmp_path: Path
) -> None:
    port = stack.kubeconfig.read_text().partition("server: https://")[2].split()[0].rpartition(":")[2]
    target = await secret(kube, namespace, _inline(stack, server=f"https://localhost:{port}"))
    async with TargetPool(kube, tmp_path / "strict") as strict:
        with pytest.raises(PermanentError, match="loopback or link-local"):
            await who(strict, target)


def _inline(stack: Stack, *, server: str = "", token: str = "") -> str:
    """Return the stack's kubeconfig with inline credentials, as somebody would store it."""
    access = read(stack.kubeconfig)
    if token:
        access = with_token(access, token)
    text = render(access)
    return text.replace(access.server, server) if server else text


async def test_a_refusal_is_final_only_when_account_and_binding_have_been_looked_at(
    pool: TargetPool, kube: KubeClient, namespace: str, clock: Clock
) -> None:
    """Whoever deletes the binding of a package holds it up until it is made again, and no longer."""
    target = at_home(namespace)
    configmap = ObjectRef(api_version="v1", kind="ConfigMap", namespace=namespace, name="any")

    async def reads() -> bool:
        async with pool.acting(target) as acting:
            return await (await acting.kube(Role.HELM)).get(configmap) is None

    await eventually(reads, what="the new binding acts")
    clock.now += CHECK_SECONDS + 1
    binding = ObjectRef(
        api_version="rbac.authorization.k8s.io/v1",
        kind="RoleBinding",
        namespace=namespace,
        name="windlass-application",
    )
    await kube.delete(binding)

    async def refused() -> bool:
        try:
            await reads()
        except TransientError as error:
            return error.reason is Reason.IDENTITY_MISSING
        return False

    await eventually(refused, what="the deletion acts")
    await eventually(reads, what="the binding is there again")
    assert await kube.get(binding) is not None
    clock.now += CHECK_SECONDS + 1
    elsewhere = ObjectRef(api_version="v1", kind="ConfigMap", namespace="default", name="any")
    with pytest.raises(PermanentError, match=f"service account windlass-application in {namespace} cannot get"):
        async with pool.acting(target) as acting:
            await (await acting.kube(Role.HELM)).get(elsewhere)


async def test_the_clients_of_another_cluster_are_closed_when_nobody_uses_them(
    pool: TargetPool, kube: KubeClient, namespace: str, clock: Clock
) -> None:
    target = await secret(kube, namespace, render(kube.access))
    before = pool.open
    async with pool.acting(target) as acting:
        await acting.kube(Role.HELM)
        clock.now += IDLE_SECONDS + 1
        await pool.close_idle()
        assert pool.open > 0
    clock.now += IDLE_SECONDS + 1
    await pool.close_idle()
    assert pool.open == before == 0
    assert await who(pool, target)
