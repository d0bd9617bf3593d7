"""The `windlass` program as people and scripts run it, against a running installation."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from support.command import LIMIT, Ran, done, started, user_name, windlass
from support.installation import CONFIG_MAP, GREETING, Installation, write_greeter, write_package
from support.running import packages, revisions, running, shown
from support.waiting import eventually
from windlass.devstack.stack import Stack
from windlass.domain.ids import API_VERSION, INSTALLATION_LABEL
from windlass.ports.kube import Object, ObjectRef

CANARY: Final = "canary-of-the-cli"

SECRETIVE: Final = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}
data:
  greeting: {{ .Values.greeting | quote }}
"""


def failed(ran: Ran) -> list[str]:
    """Return the two lines of a failure: what is wrong, and what to do."""
    assert ran.code == 1, ran
    assert ran.out == ""
    lines = ran.err.splitlines()
    assert len(lines) == 2, ran.err
    assert lines[0].startswith("windlass: ")
    assert lines[1].startswith("  ")
    return lines


def manifest(installation: Installation, name: str, package: str = "greeter", **spec: Any) -> str:
    """An Application as a person writes it: no namespace, no labels."""
    repository = {"repository": f"repo-{installation.name}", "name": package, "version": "1.0.0"}
    spec = {"package": repository, **spec}
    return yaml.safe_dump({"apiVersion": API_VERSION, "kind": "Application", "metadata": {"name": name}, "spec": spec})


@pytest.fixture(scope="module")
async def installation(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Installation]:
    """One running installation for all tests here; each has an Application of its own."""
    async with running(stack, tmp_path_factory.mktemp("cli")) as made:
        write_greeter(packages(made), "1.0.0", "1.1.0")
        write_package(packages(made), "secretive", "1.0.0", templates={"c.yaml": SECRETIVE}, settings=GREETING)
        yield made


# -- apply, get, describe --------------------------------------------------------------------------------------------


async def test_apply_waits_until_it_is_ready_and_says_so(installation: Installation, tmp_path: Path) -> None:
    (tmp_path / "one.yaml").write_text(manifest(installation, "one") + "---\n" + manifest(installation, "two"))
    ran = await done(installation, "apply", "--wait", "-f", str(tmp_path))
    where = f"in {installation.namespace}"
    assert ran.lines[:2] == [f"Application one {where} applied", f"Application two {where} applied"]
    assert sorted(ran.lines[2:]) == [f"Application one {where} is ready", f"Application two {where} is ready"]
    assert (await shown(installation, "one"))["version"] == "1.0.0"
    assert (await shown(installation, "two"))["version"] == "1.0.0"


async def test_apply_says_whose_an_application_is_when_it_does_not_say_so_itself(installation: Installation) -> None:
    await done(installation, "apply", "-f", "-", stdin=manifest(installation, "mine"))
    other = yaml.safe_load(manifest(installation, "theirs"))
    other["metadata"]["labels"] = {INSTALLATION_LABEL: "somebody-else", "team": "a"}
    await done(installation, "apply", "-f", "-", stdin=yaml.safe_dump(other))
    mine, theirs = await installation.object("mine"), await installation.object("theirs")
    assert mine is not None
    assert theirs is not None
    assert mine["metadata"]["labels"] == {INSTALLATION_LABEL: installation.name}
    assert theirs["metadata"]["labels"] == other["metadata"]["labels"]
    await installation.ready("mine")
    told, hint = failed(await windlass(installation, "describe", "theirs", "-n", installation.namespace))
    assert "belongs to installation 'somebody-else'" in told
    assert "WINDLASS_INSTALLATION=somebody-else" in hint


async def test_apply_refuses_what_the_api_refuses(installation: Installation) -> None:
    bad = manifest(installation, "bad").replace("1.0.0", "v1")
    ran = await windlass(installation, "apply", "-f", "-", "-n", installation.namespace, stdin=bad)
    told, _ = failed(ran)
    assert "spec.package.version" in told
    assert await installation.object("bad") is None
    unknown = "apiVersion: windlass.dev/v1alpha1\nkind: Aplication\nmetadata: {name: x}\n"
    ran = await windlass(installation, "apply", "-f", "-", "-n", installation.namespace, stdin=unknown)
    told, _ = failed(ran)
    assert "Aplication" in told


async def test_apply_checks_everything_before_it_applies_anything(installation: Installation, tmp_path: Path) -> None:
    names = ("first", "second", "third")
    texts = {name: manifest(installation, name) for name in names}
    texts["second"] = texts["second"].replace("1.0.0", "v1")
    texts["third"] = texts["third"].replace("windlass.dev/v1alpha1", "windlass.dev/v9")
    file = tmp_path / "apps.yaml"
    file.write_text("---\n".join(texts.values()))
    told, _ = failed(await windlass(installation, "apply", "-f", str(file), "-n", installation.namespace))
    assert f"{file}, document 2: Application {installation.namespace}/second: " in told
    assert "spec.package.version" in told
    assert told.endswith(f"; refused too: {file}, document 3; nothing was applied")
    assert [await installation.object(name) for name in names] == [None, None, None]


async def test_apply_takes_a_namespace_together_with_what_lies_in_it(installation: Installation) -> None:
    name = f"{installation.namespace}-new"
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    inside = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "inside", "namespace": name}}
    try:
        ran = await done(installation, "apply", "-f", "-", stdin=yaml.safe_dump_all([namespace, inside]))
        assert ran.lines == [f"Namespace {name} applied", f"ConfigMap inside in {name} applied"]
    finally:
        await installation.kube.delete(ObjectRef(api_version="v1", kind="Namespace", name=name))


async def test_apply_says_which_document_lacks_its_namespace(installation: Installation) -> None:
    inside = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "inside", "namespace": "nowhere-at-all"}}
    told, _ = failed(await windlass(installation, "apply", "-f", "-", stdin=yaml.safe_dump(inside)))
    assert told.startswith("windlass: standard input, document 1: ConfigMap nowhere-at-all/inside: ")
    assert "nowhere-at-all" in told.partition("inside: ")[2]


async def test_apply_with_wait_ends_at_a_failure_that_a_person_must_mend(installation: Installation) -> None:
    text = manifest(installation, "wrong", settings={"greeting": "x" * 21})
    ran = await windlass(installation, "apply", "--wait", "-f", "-", "-n", installation.namespace, stdin=text)
    assert ran.code == 1
    assert ran.lines == [f"Application wrong in {installation.namespace} applied"]
    assert ran.err.startswith("windlass: Application wrong: ")
    assert "settings.greeting" in ran.err
    assert "Traceback" not in ran.err


async def test_get_as_table_and_for_programs(installation: Installation) -> None:
    await installation.application("listed", "greeter", "1.0.0")
    await installation.ready("listed")
    head, *lines = (await done(installation, "get")).lines
    assert head.split() == ["NAME", "PACKAGE", "VERSION", "PHASE", "READY", "REASON", "AGE"]
    line = next(line.split() for line in lines if line.startswith("listed "))
    assert line[1:3] == ["greeter", "1.0.0"]
    assert line[4] == "True"

    head, *lines = (await windlass(installation, "get", "-A", "-o", "wide")).lines
    assert head.split()[0] == "NAMESPACE"
    assert head.split()[-1] == "DIGEST"
    assert any(line.split()[:2] == [installation.namespace, "listed"] for line in lines)

    everything = json.loads((await done(installation, "get", "-o", "json")).out)
    assert everything["kind"] == "List"
    one = yaml.safe_load((await done(installation, "get", "listed", "-o", "yaml")).out)
    assert one in everything["items"]
    assert one == await installation.object("listed")


async def test_get_where_there_is_nothing(installation: Installation) -> None:
    ran = await windlass(installation, "get", "-n", "default")
    assert (ran.code, ran.out, ran.err) == (0, "", "No packages in namespace default.\n")
    ran = await windlass(installation, "get", "-n", "default", "-o", "json")
    assert json.loads(ran.out)["items"] == []
    told, hint = failed(await windlass(installation, "get", "nope", "-n", "default"))
    assert "there is no Application 'nope' in namespace 'default'" in told
    assert "windlass get -A" in hint


async def test_describe_tells_a_failure_and_what_to_do(installation: Installation) -> None:
    await installation.application("sad", "greeter", "9.9.9")
    obj = await installation.status("sad", lambda status: status.get("failure"))
    failure = obj["status"]["failure"]
    text = (await done(installation, "describe", "sad")).out
    assert f"{failure['step']}: {failure['reason']}, attempt " in text
    assert failure["message"].splitlines()[0] in text
    assert f"To do: {failure['hint']}" in text
    assert "Next try in " in text
    assert f"windlass retry sad -n {installation.namespace} --reason WHY" in text
    assert "none yet" in text


async def test_describe_tells_release_objects_conditions_and_events(installation: Installation) -> None:
    await installation.application("happy", "greeter", "1.0.0")
    await installation.ready("happy")

    async def told() -> bool:
        lines = (await done(installation, "describe", "happy")).lines
        release = "happy"
        assert [line for line in lines if line.startswith("Failed")] == []
        return (
            {"Conditions", "Objects of the release", "Events"} <= set(lines)
            and any(line.split() == [f"ConfigMap/{release}", "current"] for line in lines)
            and any(release in line and "revision 1" in line for line in lines)
        )

    # Events are written beside the status, a moment later at times.
    await eventually(told, every=0.5)


# -- values ----------------------------------------------------------------------------------------------------------


async def test_values_hide_what_came_from_a_secret(installation: Installation) -> None:
    await installation.apply(
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "word", "namespace": installation.namespace},
            "stringData": {"word": CANARY},
        }
    )
    source = {"kind": "Secret", "name": "word", "key": "word", "targetPath": "greeting"}
    await installation.application("valued", "secretive", "1.0.0", valuesFrom=[source])
    await installation.ready("valued")
    assert await shown(installation, "valued") == {"greeting": CANARY}

    hidden = await done(installation, "values", "valued")
    assert yaml.safe_load(hidden.out) == {"greeting": "(hidden: --show-secrets)"}
    for command in ("values", "describe", "dump", "get"):
        assert CANARY not in (await done(installation, command, "valued")).out
    clear = await done(installation, "values", "valued", "--show-secrets", "-o", "json")
    assert json.loads(clear.out) == {"greeting": CANARY}


# -- actions and dumps ------------------------------------------------------------------------------------------------


async def test_actions_are_obeyed_and_kept_with_who_and_why(installation: Installation) -> None:
    await installation.application("ordered", "greeter", "1.0.0")
    await installation.ready("ordered")
    ran = await done(installation, "pause", "ordered", "-r", "audit")
    assert ran.out.startswith("ordered: ")
    told, hint = failed(await windlass(installation, "pause", "ordered", "-r", "again", "-n", installation.namespace))
    assert "pause was refused: already paused (phase Paused" in told
    assert "windlass describe ordered" in hint
    await done(installation, "resume", "ordered", "--reason", "audit is over")

    me = await user_name(installation.kube)

    def kept(status: dict[str, Any]) -> bool:
        records: list[Object] = status.get("actions") or []
        actions = [(one["action"], one["who"], one["why"]) for one in records]
        return actions[0] == ("pause", me, "audit") and actions[-1] == ("resume", me, "audit is over")

    await installation.status("ordered", kept)
    text = (await done(installation, "describe", "ordered")).out
    assert "audit is over" in text


async def test_single_steps_are_ordered(installation: Installation) -> None:
    await installation.application("stepwise", "greeter", "1.0.0")
    await installation.ready("stepwise")
    wrong = await windlass(installation, "pause", "stepwise", "-b", "lunch", "-r", "x")
    assert (wrong.code, "lunch is none of download, install" in wrong.err) == (2, True), wrong.err
    where = ("-n", installation.namespace)
    for action, why in (
        ("skip", "nothing has failed"),
        ("cancel", "nothing is running"),
        ("rollback", "there is no good release to go back to"),
    ):
        told, _ = failed(await windlass(installation, action, "stepwise", "-r", "x", *where))
        assert told.startswith(f"windlass: {action} was refused: {why} (phase ")
    ran = await done(installation, "pause", "stepwise", "-b", "run", "-b", "afterhelm", "-r", "to look")
    assert ran.out.startswith("stepwise: the lifecycle holds before UpgradeRelease, AfterHelm")
    await installation.application("stepwise", "greeter", "1.1.0")
    await installation.status("stepwise", lambda status: status.get("step") == "Breakpoint")
    text = (await done(installation, "describe", "stepwise")).out
    assert "Breakpoints  before UpgradeRelease, AfterHelm" in text
    assert "pause before UpgradeRelease, AfterHelm" in text
    left = json.loads((await done(installation, "dump", "stepwise", "--queues", "-o", "json")).out)
    (queue,) = left["queues"].values()
    assert queue["tasks"][0] | {"scope": ""} == {
        "index": 1,
        "name": "UpgradeRelease",
        "scope": "",
        "held": "Breakpoint",
    }
    await done(installation, "resume", "stepwise", "--all", "-r", "seen")
    await installation.ready("stepwise", "1.1.0")
    ran = await done(installation, "rollback", "stepwise", "--to", "1", "-r", "the new one is ugly")
    assert ran.out.startswith("stepwise: going back to revision 1 (1.0.0)")
    await installation.status("stepwise", lambda status: status.get("phase") == "RolledBack")
    text = (await done(installation, "describe", "stepwise")).out
    assert "Rolled back  revision 3 (1.0.0) is kept, 1.1.0 is not tried" in text
    assert "the new one is ugly" in text


async def test_retry_tries_again_at_once(installation: Installation, tmp_path: Path) -> None:
    mended = tmp_path / "mended"
    # Wrong in form: somebody must act, so the next try by itself is minutes away.
    hook = (
        "#!/bin/sh\n[ \"$1\" = --config ] && echo 'configVersion: v1\nbeforeHelm: 1' && exit 0\n"
        f'[ -e {mended} ] || echo \'{{"op": "add", "path": "/elsewhere", "value": 1}}\' > $VALUES_JSON_PATCH_PATH\n'
    )
    chart = {"c.yaml": CONFIG_MAP}
    write_package(packages(installation), "hooked", "1.0.0", templates=chart, settings=GREETING, hooks={"w.sh": hook})
    await installation.application("again", "hooked", "1.0.0")
    await installation.status("again", lambda status: "actor" in (status.get("failure") or ()))
    mended.touch()
    await done(installation, "retry", "again", "-r", "the hook is mended")
    obj = await installation.ready("again")
    assert [(one["action"], one["why"]) for one in obj["status"]["actions"]] == [("retry", "the hook is mended")]


async def test_dump_shows_what_is_carried_and_left_to_do(installation: Installation) -> None:
    await installation.application("dumped", "greeter", "1.0.0")
    await installation.ready("dumped")
    await installation.application("stuck", "greeter", "9.9.9")
    await installation.status("stuck", lambda status: status.get("failure"))
    ids = {name: f"{installation.namespace}.{name}" for name in ("dumped", "stuck")}

    dumped = yaml.safe_load((await done(installation, "dump", "dumped")).out)
    assert set(dumped) == {"apps", "modules"}
    app = dumped["apps"][ids["dumped"]]
    assert (app["name"], app["definition"]["version"], app["paused"]) == ("dumped", "1.0.0", False)

    dumped = json.loads((await done(installation, "dump", "--queues", "-o", "json")).out)
    assert set(ids.values()) <= set(dumped["apps"])
    head = dumped["queues"][ids["stuck"]]["tasks"][0]
    assert head["attempt"] >= 1
    assert head["error"]
    assert float(head["next_retry"].removesuffix("s")) >= 0


# -- watch -----------------------------------------------------------------------------------------------------------


async def test_watch_in_a_pipe_is_a_line_for_each_change(installation: Installation) -> None:
    await installation.application("watched", "greeter", "1.0.0")
    await installation.ready("watched")
    async with started(installation, "watch", "watched", "-n", installation.namespace) as process:
        assert process.stdout is not None
        async with asyncio.timeout(LIMIT):
            first = (await process.stdout.readline()).decode()
            assert f"{installation.namespace}/watched  1.0.0  " in first
            assert "ready=True" in first
            await installation.application("watched", "greeter", "1.1.0")
            while "  1.1.0  " not in (line := (await process.stdout.readline()).decode()):
                assert line, "it ended"
            await installation.delete("watched")
            while not (line := (await process.stdout.readline()).decode()).endswith("  gone\n"):
                assert line, "it ended"
            process.send_signal(signal.SIGINT)
            _, err = await process.communicate()
            assert (process.returncode, err) == (130, b"")


# -- delete ----------------------------------------------------------------------------------------------------------


async def test_delete_waits_until_it_is_gone(installation: Installation) -> None:
    await installation.application("short", "greeter", "1.0.0")
    await installation.ready("short")
    assert (await done(installation, "delete", "short")).out == "short is gone\n"
    assert await installation.object("short") is None
    assert await shown(installation, "short") == {}


async def test_delete_that_takes_too_long_says_what_to_do(installation: Installation) -> None:
    await installation.application("held", "greeter", "1.0.0")
    await installation.ready("held")
    ref = installation.ref("Application", "held", API_VERSION)
    obj = await installation.object("held")
    assert obj is not None
    finalizers = [*obj["metadata"]["finalizers"], "example.invalid/held"]
    await installation.kube.patch(ref, {"metadata": {"finalizers": finalizers}}, kind="merge")
    told, hint = failed(await windlass(installation, "delete", "held", "--timeout", "2", "-n", installation.namespace))
    assert "held is not gone within 2 s" in told
    assert "windlass describe held" in hint
    await installation.kube.patch(ref, {"metadata": {"finalizers": []}}, kind="merge")
    await installation.gone("held")


async def test_delete_with_abandon_leaves_the_release(installation: Installation) -> None:
    await installation.application("left", "greeter", "1.0.0")
    await installation.ready("left")
    assert (await done(installation, "delete", "left", "--abandon")).out == "left is gone\n"
    assert (await shown(installation, "left"))["version"] == "1.0.0"
    assert await revisions(installation, "left") == ["deployed"]


# -- what is missing -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("missing", "problem", "remedy"),
    [
        ({"KUBECONFIG": "", "HOME": "/nonexistent"}, "no cluster: ", "windlass up"),
        ({"KUBECONFIG": "/nonexistent"}, "/nonexistent", "kubeconfig"),
    ],
)
async def test_what_is_not_there_is_named_with_its_remedy(
    installation: Installation, missing: dict[str, str], problem: str, remedy: str
) -> None:
    await installation.application("asked", "greeter", "1.0.0")
    ran = await windlass(installation, "dump", "asked", "-n", installation.namespace, **missing)
    told, hint = failed(ran)
    assert problem in told
    assert remedy in hint


@pytest.mark.parametrize(
    ("missing", "problem", "remedy"),
    [
        ({"TEMPORAL_ADDRESS": ""}, "no Temporal: ", "windlass up"),
        ({"WINDLASS_KEYRING_FILE": ""}, "there is no keyring", "WINDLASS_KEYRING_FILE"),
        ({"WINDLASS_DIGEST_KEY_FILE": ""}, "there is no digest key", "WINDLASS_DIGEST_KEY_FILE"),
    ],
)
async def test_what_a_worker_lacks_is_named_with_its_remedy(
    installation: Installation, tmp_path: Path, missing: dict[str, str], problem: str, remedy: str
) -> None:
    ran = await windlass(installation, "worker", WINDLASS_DATA=str(tmp_path), **missing)
    told, hint = failed(ran)
    assert problem in told
    assert remedy in hint


async def test_a_package_that_nobody_serves_is_told_apart(installation: Installation) -> None:
    """Of an installation that nobody serves: the object is there, a lifecycle is not."""
    name = f"{installation.name}-unserved"
    text = manifest(installation, "unserved")
    where = ("-n", installation.namespace)
    ran = await windlass(installation, "apply", "-f", "-", *where, stdin=text, WINDLASS_INSTALLATION=name)
    assert ran.code == 0
    ran = await windlass(installation, "describe", "unserved", *where, WINDLASS_INSTALLATION=name)
    assert "Is a worker running?" in ran.out
    told, _ = failed(await windlass(installation, "dump", "unserved", *where, WINDLASS_INSTALLATION=name))
    assert f"no worker of installation {name} answers" in told
    ran = await windlass(
        installation, "apply", "--wait", "--timeout", "1", "-f", "-", *where, stdin=text, WINDLASS_INSTALLATION=name
    )
    assert ran.code == 1
    assert f"not ready within 1 s: Application unserved in {installation.namespace}" in ran.err


async def test_without_a_worker_actions_say_so(installation: Installation) -> None:
    await installation.application("alone", "greeter", "1.0.0")
    await installation.ready("alone")
    installation.kill()
    try:
        where = ("-n", installation.namespace)
        asked, dumped = await asyncio.gather(
            windlass(installation, "pause", "alone", "-r", "x", "--timeout", "8", *where),
            windlass(installation, "dump", "alone", *where),
        )
        told, hint = failed(asked)
        assert "pause was asked for and is not answered yet: no watcher" in told
        assert "kubectl delete actionrequest pause-alone-" in hint
        told, hint = failed(dumped)
        assert "no worker of installation" in told
        assert "windlass worker" in hint
    finally:
        installation.start()
