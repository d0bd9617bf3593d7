"""ActionRequests on the real API server: who may ask, what is answered, and that it is done once."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import yaml

from support import rights
from support.command import done, user_name, windlass
from support.installation import CONFIG_MAP, GREETING, Installation, write_greeter, write_package
from support.rights import plain, request
from support.running import packages, running
from support.waiting import eventually
from windlass.adapters.kube.client import KubeClient
from windlass.devstack.stack import Stack
from windlass.domain.ids import API_VERSION, Kind
from windlass.ports.kube import Object, ObjectRef


@pytest.fixture(scope="module")
async def installation(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Installation]:
    """One running installation for all tests here; each has an Application of its own."""
    async with running(stack, tmp_path_factory.mktemp("requests"), WINDLASS_KEEP_REQUESTS_HOURS="1") as made:
        write_greeter(packages(made), "1.0.0", "1.1.0")
        await rights.policies_settled(made.kube)
        yield made


async def placed(installation: Installation, name: str) -> None:
    """Have an Application running."""
    await installation.application(name, "greeter", "1.0.0")
    await installation.ready(name)


def named(made: Object) -> ObjectRef:
    metadata = made["metadata"]
    return ObjectRef(
        api_version=API_VERSION, kind="ActionRequest", namespace=metadata["namespace"], name=metadata["name"]
    )


async def answered(kube: KubeClient, made: Object) -> Object:
    """Wait until a request is answered; return its status."""

    async def told() -> Object | None:
        found = await kube.get(named(made))
        status: Object = (found or {}).get("status") or {}
        return status if status.get("phase") in {"Accepted", "Refused", "Unknown"} else None

    return await eventually(told, what="an answer")  # type: ignore[return-value]


async def asked(installation: Installation, action: str, name: str, **spec: str) -> Object:
    """Ask as kubectl does; return the answer."""
    made = await installation.kube.create(request(action, name, installation.namespace, **spec))
    return await answered(installation.kube, made)


async def actions(installation: Installation, name: str) -> list[str]:
    obj = await installation.object(name)
    assert obj is not None
    return [one["action"] for one in obj["status"].get("actions") or []]


async def test_what_kubectl_creates_is_carried_out_and_kept_with_who_and_why(installation: Installation) -> None:
    await placed(installation, "one")
    status = await asked(installation, "pause", "one", reason="holidays")
    assert (status["accepted"], status["phase"]) == (True, "Accepted")
    assert status["message"].startswith("no further step is begun (phase Paused")
    obj = await installation.status("one", lambda status: status.get("phase") == "Paused")
    [record] = obj["status"]["actions"]
    assert (record["who"], record["why"]) == (await user_name(installation.kube), "holidays")
    assert record["uid"]
    again = await asked(installation, "pause", "one")
    assert (again["accepted"], again["phase"]) == (False, "Refused")
    assert again["message"].startswith("already paused")
    assert (await asked(installation, "resume", "one"))["accepted"]


@pytest.mark.parametrize(
    ("action", "spec", "said"),
    [
        ("rollback", {"detail": "latest"}, "spec.detail of rollback is a Helm revision such as 3, not 'latest'"),
        ("pause", {"detail": "lunch"}, "spec.detail of pause: 'lunch' is none of download"),
        ("resume", {"detail": "some"}, "spec.detail of resume is empty or 'all', not 'some'"),
        ("skip", {"detail": "x"}, "skip takes no spec.detail"),
        ("adopt", {}, "there is nothing to adopt"),
        ("approve", {}, "this version of Windlass does not carry out approve"),
        ("retry", {}, "nothing has failed"),
    ],
)
async def test_what_makes_no_sense_is_answered(
    installation: Installation, action: str, spec: dict[str, str], said: str
) -> None:
    name = f"sense-{action}"
    await placed(installation, name)
    status = await asked(installation, action, name, **spec)
    assert (status["accepted"], status["phase"]) == (False, "Refused")
    assert said in status["message"]


async def test_a_request_about_nothing_is_answered(installation: Installation) -> None:
    status = await asked(installation, "retry", "nobody")
    assert status["message"] == f"there is no Application nobody in namespace {installation.namespace}"


async def test_a_request_about_another_installation_is_left_to_it(installation: Installation) -> None:
    await installation.kube.create(rights.package("Application", "theirs", installation.namespace))
    theirs = await installation.kube.create(request("retry", "theirs", installation.namespace))
    await asked(installation, "retry", "nobody-else")
    found = await installation.kube.get(named(theirs))
    assert found is not None
    assert "status" not in found


async def test_the_command_line_asks_and_tells(installation: Installation) -> None:
    await placed(installation, "two")
    ran = await done(installation, "pause", "two", "-r", "audit", "-b", "run")
    assert ran.out.startswith("two: the lifecycle holds before UpgradeRelease")
    ran = await done(installation, "resume", "two", "-r", "over", "--all", "--no-wait")
    assert "resume is asked for; see `kubectl get wact resume-two-" in ran.out
    await eventually(lambda: _ordered(installation, "two", ["pause", "resume"]))
    table = (await done(installation, "get", "actions")).out
    assert "application/two" in table
    assert "Accepted" in table


async def _ordered(installation: Installation, name: str, wanted: list[str]) -> bool:
    return await actions(installation, name) == wanted


@asynccontextmanager
async def person(installation: Installation, folder: Path, verbs: list[str]) -> AsyncIterator[dict[str, str]]:
    """Give the environment of somebody who may do ``verbs`` on Applications, and ask; nothing else is set up."""
    kube, here = installation.kube, installation.namespace
    name = rights.fresh("oncall")
    rules = [
        {"apiGroups": ["windlass.dev"], "resources": ["applications"], "verbs": ["get", *verbs]},
        {"apiGroups": ["windlass.dev"], "resources": ["actionrequests"], "verbs": ["get", "list", "watch", "create"]},
    ]
    await kube.create(plain("Role", here, name, api_version=rights.RBAC, rules=rules))
    bound = rights.binding(here, name, name, name=name)
    bound["roleRef"]["kind"] = "Role"
    await kube.create(bound)
    async with rights.acting(kube, here, name) as client:
        await eventually(lambda: rights.allowed(client, "create", "actionrequests.windlass.dev", here))
    document = yaml.safe_load(installation.stack.kubeconfig.read_text())
    document["users"] = [
        {"name": one["name"], "user": {"token": await rights.token(kube, here, name)}} for one in document["users"]
    ]
    file = folder / "kubeconfig"
    file.write_text(yaml.safe_dump(document))
    # Neither Temporal nor the keys can be reached.
    yield {
        "KUBECONFIG": str(file),
        "TEMPORAL_ADDRESS": "127.0.0.1:1",
        "WINDLASS_KEYRING_FILE": "/nowhere",
        "WINDLASS_DIGEST_KEY_FILE": "/nowhere",
    }


async def test_rbac_gives_retry_and_withholds_rollback(installation: Installation, tmp_path: Path) -> None:
    await placed(installation, "three")
    where = ("-n", installation.namespace)
    async with person(installation, tmp_path, ["retry"]) as environ:
        ran = await windlass(installation, "retry", "three", "-r", "x", *where, **environ)
        assert "retry was refused: nothing has failed (phase Running" in ran.err, ran
        ran = await windlass(installation, "rollback", "three", "-r", "x", *where, **environ)
        assert ran.code == 1
        assert (
            "may not rollback Application three: the verb rollback on applications.windlass.dev is missing" in ran.err
        )
        assert "the ClusterRole windlass-operate has both" in ran.err


async def test_requests_are_refused_while_the_policy_is_missing(installation: Installation) -> None:
    await placed(installation, "four")
    [_, bound, *_] = rights.documents("policies/actions.yaml")
    kube = installation.kube
    await kube.delete(ObjectRef(api_version=bound["apiVersion"], kind=bound["kind"], name=bound["metadata"]["name"]))
    try:

        async def refused() -> Object | None:
            status = await asked(installation, "retry", "four")
            return status if "is missing" in status["message"] else None

        status = await eventually(refused, what="the watcher has noticed")
        assert "the ValidatingAdmissionPolicyBinding windlass-actions is missing" in status["message"]  # type: ignore[index]
        assert "kubectl apply --server-side -k deploy" in status["message"]  # type: ignore[index]
    finally:
        await kube.apply(bound, field_manager="tests")

    async def trusted() -> bool:
        return "nothing has failed" in (await asked(installation, "retry", "four"))["message"]

    await eventually(trusted, 30, every=1, what="requests are taken again")


async def test_a_killed_worker_carries_a_request_out_once(installation: Installation) -> None:
    await placed(installation, "five")
    made = await installation.kube.create(request("pause", "five", installation.namespace))
    uid = made["metadata"]["uid"]

    def noted(status: Object) -> bool:
        return any(one.get("uid") == uid for one in status.get("actions") or [])

    # From here on the effect may or may not have happened.
    await installation.status("five", noted)
    installation.kill()
    installation.start()
    status = await answered(installation.kube, made)
    assert status["phase"] == "Accepted"
    assert await actions(installation, "five") == ["pause"]
    await installation.status("five", lambda status: status.get("phase") == "Paused")


async def test_a_request_waits_for_who_carries_it_out(installation: Installation) -> None:
    await placed(installation, "six")
    installation.kill()
    try:
        made = await installation.kube.create(request("pause", "six", installation.namespace))
        ran = await windlass(installation, "pause", "six", "-r", "x", "--timeout", "4", "-n", installation.namespace)
        assert ran.code == 1
        assert "pause was asked for and is not answered yet: no watcher" in ran.err
    finally:
        installation.start()
    assert (await answered(installation.kube, made))["phase"] == "Accepted"


async def test_requests_about_modules_lie_in_windlass_modules(installation: Installation) -> None:
    name = f"{installation.name}-mod"
    write_package(
        packages(installation),
        name,
        "1.0.0",
        templates={"config.yaml": CONFIG_MAP},
        settings=GREETING,
        kind=Kind.MODULE,
    )
    await installation.module(name, "1.0.0")
    await installation.ready(f"module/{name}")
    ran = await done(installation, "pause", f"module/{name}", "-r", "audit")
    assert ran.out.startswith(f"module/{name}: no further step is begun")
    found = await installation.kube.list(API_VERSION, "ActionRequest", namespace=rights.MODULES)
    assert [one["spec"]["action"] for one in found.items if one["spec"]["target"]["name"] == name] == ["pause"]
