"""What an installation allows: default accounts, and what kubeconfigs of other clusters may hold."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from support.installation import Installation, condition, installed, write_greeter
from support.running import shown
from windlass.adapters.kube.kubeconfig import read
from windlass.adapters.targets.kubeconfig import render
from windlass.devstack.stack import Stack
from windlass.ports.kube import Object

RBAC = "rbac.authorization.k8s.io"


@pytest.fixture
async def installation(stack: Stack, tmp_path: Path) -> AsyncIterator[Installation]:
    """An installation without a process; each test starts one with settings of its own."""
    async with installed(stack, tmp_path / "installation") as made:
        write_greeter(tmp_path / "packages", "1.0.0")
        await made.repository(tmp_path / "packages")
        yield made


async def failed(installation: Installation, name: str, reason: str) -> Object:
    obj = await installation.status(name, lambda status: (status.get("failure") or {}).get("reason") == reason)
    failure: Object = obj["status"]["failure"]
    return failure


async def account(installation: Installation, name: str) -> None:
    """Make an account that may what `admin` may."""
    metadata = {"name": name, "namespace": installation.namespace}
    await installation.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})
    await installation.apply(
        {
            "apiVersion": f"{RBAC}/v1",
            "kind": "RoleBinding",
            "metadata": metadata,
            "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "admin"},
            "subjects": [{"kind": "ServiceAccount", **metadata}],
        }
    )


async def retry(installation: Installation, name: str) -> None:
    """Have a failed step tried again: nothing about the object says that the settings of the workers have changed."""
    answer = await installation.lifecycles.retry(installation.key(name), installation.action("settings have changed"))
    assert answer.accepted


async def test_an_installation_without_default_accounts(installation: Installation) -> None:
    installation.start(WINDLASS_DEFAULT_ACCOUNTS="false")
    await account(installation, "own")
    await installation.application("unnamed", "greeter", "1.0.0")
    await installation.application("named", "greeter", "1.0.0", target={"serviceAccountName": "own"})
    await installation.ready("named")
    failure = await failed(installation, "unnamed", "TargetRefused")
    assert "spec.target.serviceAccountName" in failure["message"]
    assert f"name a service account of namespace {installation.namespace}" in failure["hint"]
    assert await shown(installation, "unnamed") == {}
    assert await installation.get("ServiceAccount", "windlass-application") is None, "it is not made either"

    await installation.application("unnamed", "greeter", "1.0.0", target={"serviceAccountName": "own"})
    await installation.ready("unnamed")


async def test_an_installation_that_takes_its_default_accounts_away(installation: Installation) -> None:
    installation.start(WINDLASS_DEFAULT_ACCOUNTS="true")
    await installation.application("one", "greeter", "1.0.0")
    await installation.ready("one")
    assert installation.stop() == 0
    installation.start(WINDLASS_DEFAULT_ACCOUNTS="false")
    await installation.application("one", "greeter", "1.0.0", settings={"greeting": "changed"})
    await failed(installation, "one", "TargetRefused")
    assert (await shown(installation, "one"))["greeting"] == "hello", "what runs is left alone"
    assert installation.stop() == 0
    installation.start(WINDLASS_DEFAULT_ACCOUNTS="true")
    await retry(installation, "one")
    await installation.ready("one")
    assert (await shown(installation, "one"))["greeting"] == "changed"
    assert len((await installation.history("one")).events) < 200, "the step is not done again and again"


async def test_kubeconfigs_of_servers_on_this_machine(installation: Installation) -> None:
    access = read(installation.stack.kubeconfig)
    await installation.apply(
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "edge", "namespace": installation.namespace},
            "data": {"kubeconfig": base64.b64encode(render(access).encode()).decode()},
        }
    )
    installation.start(WINDLASS_KUBECONFIGS="proxy,insecure")
    target = {"cluster": {"kubeconfigSecret": {"name": "edge"}}}
    await installation.application("far", "greeter", "1.0.0", target=target)
    failure = await failed(installation, "far", "KubeconfigInvalid")
    assert "server" in failure["message"]
    assert condition((await installation.object("far")) or {}, "RequirementsMet")["status"] != "True"
    assert await shown(installation, "far") == {}

    assert installation.stop() == 0
    installation.start(WINDLASS_KUBECONFIGS="local")
    await retry(installation, "far")
    await installation.ready("far")
    assert (await shown(installation, "far"))["greeting"] == "hello"


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("WINDLASS_KUBECONFIGS", "exec,local", "kubeconfigs may not be allowed exec"),
        ("WINDLASS_DEFAULT_ACCOUNTS", "sometimes", "WINDLASS_DEFAULT_ACCOUNTS"),
    ],
)
async def test_settings_that_make_no_sense_stop_the_worker(
    installation: Installation, name: str, value: str, says: str
) -> None:
    process = installation.start(**{name: value})
    assert process.wait(timeout=30) == 1
    installation.process = None
    assert says in installation.log.read_text()
