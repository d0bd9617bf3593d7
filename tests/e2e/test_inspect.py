"""The workers' inspect endpoint: who gets an answer, which worker gives it, and what is never in it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from support import people, rights
from support.command import Ran, windlass
from support.installation import Installation, installed, write_package
from support.people import ASK, INSPECT, MODULES_INSPECT, READ, UPDATE
from support.running import packages, running
from support.waiting import eventually
from windlass.adapters.inspection import directory
from windlass.adapters.inspection.authority import trusting
from windlass.adapters.inspection.client import InspectClient
from windlass.adapters.inspection.server import Reply
from windlass.contracts.inspection import CALLER_HEADER, TICKET_HEADER, Question, View, path_of
from windlass.devstack.stack import Stack
from windlass.domain.errors import PermanentError, Reason, WindlassError
from windlass.domain.ids import SYSTEM_NAMESPACE, Kind, inspect_authority_name, member_of, shard_of, shards_name
from windlass.observers.inspection.tickets import proof_of
from windlass.ports.kube import Object, ObjectRef

CANARY = "swordfish-canary"
TEMPLATES = {
    "config.yaml": """\
apiVersion: v1
kind: ConfigMap
metadata: {name: {{ .Release.Name }}}
data:
  greeting: {{ .Values.greeting | quote }}
  dsn: "db://{{ .Values.password }}@host"
  packed: {{ .Values.password | b64enc }}
""",
    "secret.yaml": """\
apiVersion: v1
kind: Secret
metadata: {name: {{ .Release.Name }}}
stringData: {password: {{ .Values.password }}}
""",
}
SETTINGS: Object = {
    "greeting": {"type": "string", "default": "hello"},
    "password": {"type": "string", "default": "none"},
}


@pytest.fixture(scope="module")
async def installation(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Installation]:
    """One running installation with the Application web, whose password comes from a Secret."""
    async with running(stack, tmp_path_factory.mktemp("inspect")) as made:
        write_package(packages(made), "web", "1.0.0", templates=TEMPLATES, settings=SETTINGS)
        await rights.policies_settled(made.kube)
        await people.open_to_everybody(made)
        await made.apply(rights.plain("Secret", made.namespace, "login", stringData={"password": CANARY}))
        source = {"kind": "Secret", "name": "login", "key": "password", "targetPath": "password"}
        await made.application("web", "web", "1.0.0", valuesFrom=[source])
        await made.ready("web")
        yield made


async def as_person(installation: Installation, kubeconfig: Path, *arguments: str, namespace: str = "") -> Ran:
    """Run the program as somebody with a kubeconfig and nothing else: no keyring, no Temporal."""
    empty = installation.folder / "nothing"
    empty.mkdir(exist_ok=True)
    return await windlass(
        installation,
        *arguments,
        "-n",
        namespace or installation.namespace,
        KUBECONFIG=str(kubeconfig),
        WINDLASS_DATA=str(empty),
        WINDLASS_KEYRING_FILE="",
        WINDLASS_DIGEST_KEY_FILE="",
        WINDLASS_HELM="",
        TEMPORAL_ADDRESS="127.0.0.1:1",
    )


async def allowed(installation: Installation, kubeconfig: Path, *arguments: str) -> Ran:
    """Run as `as_person` until the rights that were just given are in effect."""
    ran = await as_person(installation, kubeconfig, *arguments)
    for _ in range(10):
        if "may not" not in ran.err and "Forbidden" not in ran.err:
            break
        ran = await as_person(installation, kubeconfig, *arguments)
    return ran


EVERY_VIEW = (
    ("history", "web", "-o", "json"),
    ("values", "web", "-o", "json"),
    ("render", "web", "-o", "json"),
    ("diff", "web", "-o", "json"),
    ("tree", "web", "-o", "json"),
    ("dump", "web", "--queues", "-o", "json"),
)


@pytest.mark.parametrize("login", ["token", "certificate"])
async def test_who_may_inspect_sees_every_view_and_no_secret_with_a_kubeconfig_only(
    installation: Installation, login: str
) -> None:
    if login == "token":
        user, _, kubeconfig = await people.with_token(installation, "viewer")
        await people.grant(installation, user, INSPECT)
    else:
        kubeconfig = people.with_certificate(installation, "vera")
        await people.grant(installation, "vera", INSPECT, ASK)
    for arguments in EVERY_VIEW:
        ran = await allowed(installation, kubeconfig, *arguments)
        assert ran.code == 0, (arguments, ran.err)
        assert json.loads(ran.out) is not None
        assert CANARY not in ran.out + ran.err
        assert "c3dvcmRmaXNoLWNhbmFyeQ" not in ran.out  # its base64
    rendered = json.loads((await as_person(installation, kubeconfig, "render", "web", "-o", "json")).out)
    [config] = [one for one in rendered["items"] if one["kind"] == "ConfigMap"]
    assert config["data"]["greeting"] == "hello"
    assert config["data"]["dsn"] == "db://(hidden)@host"


@pytest.mark.parametrize("login", ["token", "certificate"])
async def test_who_may_read_the_object_only_is_refused(installation: Installation, login: str) -> None:
    if login == "token":
        user, _, kubeconfig = await people.with_token(installation, "reader")
    else:
        user, kubeconfig = "rita", people.with_certificate(installation, "rita")
    await people.grant(installation, user, READ, ASK)
    ran = await as_person(installation, kubeconfig, "history", "web")
    assert ran.code != 0
    assert ran.out == ""
    assert f"{user} may not" in ran.err
    assert "applications/inspect" in ran.err


async def test_the_right_holds_in_its_namespace_only(installation: Installation) -> None:
    user, _, kubeconfig = await people.with_token(installation, "local")
    async with rights.namespace(installation.kube, "elsewhere") as elsewhere:
        await people.grant(installation, user, INSPECT, namespace=elsewhere)
        ran = await as_person(installation, kubeconfig, "values", "web")
        assert f"{user} may not get applications/inspect.windlass.dev web in namespace" in ran.err


@pytest.mark.parametrize("login", ["token", "certificate"])
async def test_what_a_change_would_do_is_told_to_who_could_make_it(installation: Installation, login: str) -> None:
    if login == "token":
        user, _, kubeconfig = await people.with_token(installation, "planner")
    else:
        user, kubeconfig = "paul", people.with_certificate(installation, "paul")
    await people.grant(installation, user, INSPECT, ASK)
    asking = ("render", "web", "--set", "greeting=hi", "-o", "json")
    assert (await allowed(installation, kubeconfig, "render", "web", "-o", "json")).code == 0
    ran = await as_person(installation, kubeconfig, *asking)
    assert ran.code != 0
    assert f"{user} may not" in ran.err
    assert "update" in ran.err
    await people.grant(installation, user, UPDATE)
    ran = await allowed(installation, kubeconfig, *asking)
    assert '"greeting": "hi"' in ran.out


# -- at the endpoint itself ------------------------------------------------------------------------------------------


async def asked(
    installation: Installation, headers: dict[str, str], name: str = "web", *, member: str = "", **question: str
) -> Reply:
    """Ask a worker's address for the values of a package."""
    found = await directory.read(installation.kube, SYSTEM_NAMESPACE, installation.name)
    assert found is not None
    member = member or next(iter(found.addresses))
    path = path_of(installation.key(name), View.RENDER if question else View.VALUES)
    async with InspectClient(trusting(found.authority_pem)) as client:
        return await client.ask(found.addresses[member], member, path, Question.model_validate(question), headers)


async def refused(installation: Installation, headers: dict[str, str], name: str = "web", **question: str) -> str:
    with pytest.raises(PermanentError) as raised:
        await asked(installation, headers, name, **question)
    assert raised.value.reason is Reason.UNAUTHORIZED
    return raised.value.message


async def test_without_a_good_login_there_is_no_answer(installation: Installation) -> None:
    admin = installation.kube.access.token
    assert b"greeting" in (await asked(installation, {"Authorization": f"Bearer {admin}"})).body
    assert "neither" in await refused(installation, {})
    tampered = admin[:-1] + ("A" if admin[-1] != "A" else "B")
    for token in (tampered, "x", "x" * 15_000):
        assert "does not know the token" in await refused(installation, {"Authorization": f"Bearer {token}"})


async def test_packages_and_their_hooks_cannot_inspect_one_another(installation: Installation) -> None:
    token = await rights.token(installation.kube, installation.namespace, "windlass-application")
    with pytest.raises(PermanentError) as raised:
        await asked(installation, {"Authorization": f"Bearer {token}"})
    assert raised.value.reason is Reason.FORBIDDEN


async def test_who_is_no_worker_cannot_speak_for_others(installation: Installation) -> None:
    assert "neither" in await refused(installation, {CALLER_HEADER: "system:admin"})


async def ticket(installation: Installation, secret: str, name: str = "web", *, detail: str = "") -> str:
    made = await installation.kube.create(
        rights.request("inspect", name, installation.namespace, detail=detail or proof_of(secret))
    )
    return made["metadata"]["name"]


async def test_a_ticket_is_good_for_its_package_and_its_creator_only(installation: Installation) -> None:
    await installation.application("other", "web", "1.0.0")
    await installation.ready("other")
    secret = "s" * 43
    made = await ticket(installation, secret)
    assert b"greeting" in (await asked(installation, {TICKET_HEADER: f"{made}/{secret}"})).body
    assert await refused(installation, {TICKET_HEADER: f"{made}/{'t' * 43}"}) == "there is no such ticket"
    # Everybody who may read requests sees the proof; it is not the secret.
    assert await refused(installation, {TICKET_HEADER: f"{made}/{proof_of(secret)}"}) == "there is no such ticket"
    assert await refused(installation, {TICKET_HEADER: f"nobody/{secret}"}) == "there is no such ticket"
    assert "something else" in await refused(installation, {TICKET_HEADER: f"{made}/{secret}"}, "other")
    for malformed in ("", "/", made, f"{made}/", f"/{secret}", f"../secrets/x/{secret}", "x/" + "y" * 4000):
        assert await refused(installation, {TICKET_HEADER: malformed})
    assert "does not cover" in await refused(installation, {TICKET_HEADER: f"{made}/{secret}"}, version="1.0.0")
    change = await ticket(installation, secret, detail=proof_of(secret, hypothetical=True))
    assert (await asked(installation, {TICKET_HEADER: f"{change}/{secret}"}, version="1.0.0")).body


async def test_a_request_for_something_else_is_no_ticket(installation: Installation) -> None:
    secret = "r" * 43
    body = rights.request("pause", "web", installation.namespace, detail=proof_of(secret))
    made = await installation.kube.create(body)
    name = made["metadata"]["name"]
    assert "something else" in await refused(installation, {TICKET_HEADER: f"{name}/{secret}"})


async def test_packages_of_other_installations_are_not_there(installation: Installation) -> None:
    stranger = rights.package("Application", "stranger", installation.namespace)
    await installation.kube.apply(stranger, field_manager="tests")
    with pytest.raises(PermanentError) as raised:
        await asked(installation, {"Authorization": f"Bearer {installation.kube.access.token}"}, "stranger")
    assert raised.value.reason is Reason.PACKAGE_NOT_FOUND


# -- several workers -------------------------------------------------------------------------------------------------


async def test_any_worker_passes_a_question_on_to_the_one_that_serves_the_package(stack: Stack, tmp_path: Path) -> None:
    async with AsyncExitStack() as cleanup:
        made = await cleanup.enter_async_context(installed(stack, tmp_path / "installation"))
        (tmp_path / "packages").mkdir()
        await made.repository(tmp_path / "packages")
        write_package(tmp_path / "packages", "web", "1.0.0", templates=TEMPLATES, settings=SETTINGS)
        first = made.start("all")
        cleanup.callback(ended, first)
        await made.application("web", "web", "1.0.0")
        await made.ready("web")
        second = made.start("worker", data="second")
        cleanup.callback(ended, second)
        made.process = None

        async def both() -> bool:
            found = await directory.read(made.kube, SYSTEM_NAMESPACE, made.name)
            return found is not None and len(found.addresses) == 2

        await eventually(both, what="two addresses")
        login = {"Authorization": f"Bearer {made.kube.access.token}"}

        async def owner() -> str:
            ref = ObjectRef(api_version="v1", kind="ConfigMap", namespace=SYSTEM_NAMESPACE, name=shards_name(made.name))
            table = await made.kube.get(ref)
            assert table is not None
            data = table["data"]
            return member_of(data.get(f"shard-{shard_of(made.key('web'), int(data['count']))}", ""))

        async def everywhere() -> bool:
            found = await directory.read(made.kube, SYSTEM_NAMESPACE, made.name)
            assert found is not None
            try:
                replies = [await asked(made, login, member=member) for member in found.addresses]
            except WindlassError:
                return False  # the shard is moving
            serving = await owner()
            return len(replies) == 2 and [one.member for one in replies] == [serving, serving]

        await eventually(everywhere, what="both answer through the owner")

        # The owner is killed: the other one takes the shard over and answers.
        serving = await owner()
        leases = {member: at for member, at in (await _addresses(made)).items() if member != serving}
        [left] = leases
        ended(first if _listens(first.pid, (await _addresses(made))[serving]) else second)

        async def taken_over() -> bool:
            try:
                return (await asked(made, login, member=left)).member == left
            except WindlassError:
                return False

        await eventually(taken_over, what="the other worker answers")


async def _addresses(made: Installation) -> dict[str, str]:
    found = await directory.read(made.kube, SYSTEM_NAMESPACE, made.name)
    return dict(found.addresses) if found else {}


def _listens(pid: int, address: str) -> bool:
    """Say whether a process listens at an address."""
    port = int(address.rpartition(":")[2])
    rows = [line.split() for line in Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]]
    listening = {row[9] for row in rows if row[3] == "0A" and int(row[1].rpartition(":")[2], 16) == port}
    held = {one.readlink().name for one in Path(f"/proc/{pid}/fd").iterdir()}
    return any(f"socket:[{number}]" in held for number in listening)


def ended(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()


async def test_commands_find_a_worker_that_was_started_again(stack: Stack, tmp_path: Path) -> None:
    async with running(stack, tmp_path) as made:
        write_package(packages(made), "web", "1.0.0", templates=TEMPLATES, settings=SETTINGS)
        await made.application("web", "web", "1.0.0")
        await made.ready("web")
        assert (await windlass(made, "values", "web", "-n", made.namespace)).code == 0
        made.kill()
        made.start()
        ran = await windlass(made, "values", "web", "-n", made.namespace)
        if ran.code != 0:  # a busy machine takes longer than the command's patience
            assert "no worker" in ran.err
            ran = await windlass(made, "values", "web", "-n", made.namespace)
        assert "greeting: hello" in ran.out
        made.stop()
        ran = await windlass(made, "values", "web", "-n", made.namespace)
        assert ran.code != 0
        assert "windlass worker" in ran.err


async def test_the_authority_is_made_once_and_read_by_workers_only(installation: Installation) -> None:
    name = inspect_authority_name(installation.name)
    ref = ObjectRef(api_version="v1", kind="Secret", namespace=SYSTEM_NAMESPACE, name=name)
    assert await installation.kube.get(ref) is not None
    async with rights.acting(installation.kube, installation.namespace, "curious") as curious:
        with pytest.raises(PermanentError) as raised:
            await curious.get(ref)
        assert raised.value.reason is Reason.FORBIDDEN


@pytest.mark.parametrize("login", ["token", "certificate"])
async def test_modules_are_inspected_by_who_has_the_right_in_the_whole_cluster(
    installation: Installation, login: str
) -> None:
    name = rights.fresh("mod")
    write_package(packages(installation), name, "1.0.0", templates=TEMPLATES, settings=SETTINGS, kind=Kind.MODULE)
    await installation.module(name, "1.0.0", settings={"greeting": "hi"})
    await installation.ready(f"module/{name}")
    if login == "token":
        user, _, kubeconfig = await people.with_token(installation, f"{name}-reader")
    else:
        user, kubeconfig = f"{name}-mia", people.with_certificate(installation, f"{name}-mia")
    # A right in a namespace, be it that of the Modules, is none on a Module.
    await people.grant(installation, user, INSPECT, MODULES_INSPECT, ASK, namespace="windlass-modules")
    ran = await as_person(installation, kubeconfig, "values", f"module/{name}")
    assert ran.code != 0
    assert f"{user} may not" in ran.err
    await people.grant_everywhere(installation, user, MODULES_INSPECT)
    ran = await allowed(installation, kubeconfig, "values", f"module/{name}")
    assert "greeting: hi" in ran.out
    await installation.delete(f"module/{name}")
    await installation.gone(f"module/{name}")
