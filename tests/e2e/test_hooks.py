"""Lifecycle hooks as their authors see them: when they run, what they are given, what they may ask for."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from support.installation import CONFIG_MAP, GREETING, Installation, condition, write_package
from support.running import keep, packages, revisions, running, shown
from support.waiting import eventually
from windlass.devstack.stack import Stack
from windlass.ports.kube import Object

CANARY = "canary-of-the-worker"

# Every run appends one line of JSON: which hook, for which binding, and what it was given.
JOURNAL = """\
#!/usr/bin/env python3
import json, os, sys
if sys.argv[1:] == ["--config"]:
    print({config!r})
    sys.exit()
def given(name):
    with open(os.environ[name]) as file:
        return json.load(file)
context = given("BINDING_CONTEXT_PATH")
with open({journal!r}, "a") as journal:
    print(json.dumps({{
        "hook": {name!r},
        "binding": context[0]["binding"],
        "context": context,
        "values": given("VALUES_PATH"),
        "settings": given("CONFIG_VALUES_PATH"),
        "environment": sorted(os.environ),
        "leaks": [name for name, value in os.environ.items() if {canary!r} in value],
        "stdin": sys.stdin.read(),
    }}), file=journal)
print("said by {name}")
"""


@pytest.fixture(scope="module")
async def installation(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Installation]:
    """One installation for all tests here, whose worker has something in its environment that no hook may see."""
    folder = tmp_path_factory.mktemp("hooks")
    async with running(stack, folder, SOME_TOKEN=CANARY) as made:
        yield made


def shell(bindings: dict[str, Any], body: str) -> str:
    """Return a hook in shell."""
    return f"#!/bin/sh\nif [ \"$1\" = --config ]; then echo '{configuration(bindings)}'; exit 0; fi\n{body}\n"


def configuration(bindings: dict[str, Any]) -> str:
    """Return what a hook answers to --config."""
    return json.dumps({"configVersion": "v1", **bindings})


def written(installation: Installation, name: str, *versions: str, **hooks: str) -> None:
    """Write versions of a package of this name, with these hooks by file name (``_sh`` for ``.sh``)."""
    for version in versions or ("1.0.0",):
        write_package(
            packages(installation),
            name,
            version,
            templates={"config.yaml": CONFIG_MAP},
            settings=GREETING,
            hooks={file.replace("_sh", ".sh").replace("_", "-"): text for file, text in hooks.items()},
        )


def lines(file: Path) -> list[Any]:
    """Return the documents in a file of JSON lines."""
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


async def test_hooks_of_all_bindings_run_in_order_with_what_the_protocol_promises(
    installation: Installation, tmp_path: Path
) -> None:
    file = tmp_path / "journal"

    def hook(name: str, **bindings: int) -> str:
        return JOURNAL.format(config=configuration(bindings), journal=str(file), name=name, canary=CANARY)

    everywhere = dict.fromkeys(("onStartup", "afterHelm", "beforeDeleteHelm", "afterDeleteHelm"), 5)
    write_package(
        packages(installation),
        "all-five",
        "1.0.0",
        templates={"config.yaml": CONFIG_MAP},
        values={"fixed": 1},
        settings=GREETING,
        hooks={
            "b/20-late": hook("late", beforeHelm=20, **everywhere),
            "a-early": hook("early", beforeHelm=10, **everywhere),
            "z-first": hook("first", beforeHelm=1),
        },
    )
    await installation.application("five", "all-five", "1.0.0", settings={"greeting": "hi"})
    await installation.ready("five")
    await keep(installation, "five", "hooks")
    await installation.delete("five")
    await installation.gone("five")
    await keep(installation, "five", "removal-with-hooks")

    ran = lines(file)
    pair = ["early", "late"]  # same order: by path
    assert [(one["binding"], one["hook"]) for one in ran] == [
        *(("onStartup", name) for name in pair),
        *(("beforeHelm", name) for name in ("first", *pair)),
        *(("afterHelm", name) for name in pair),
        *(("beforeDeleteHelm", name) for name in pair),
        *(("afterDeleteHelm", name) for name in pair),
    ]
    for one in ran:
        bare = one["binding"] == "onStartup"
        assert one["context"] == [{"binding": one["binding"]} | ({} if bare else {"snapshots": {}})]
        assert one["values"] == {"global": {}, "allFive": {"fixed": 1, "greeting": "hi"}}
        assert one["settings"] == {"global": {}, "allFive": {"greeting": "hi"}}
        assert one["stdin"] == "", "standard input is at its end"
        assert one["leaks"] == []
        assert {"BINDING_CONTEXT_PATH", "VALUES_PATH", "CONFIG_VALUES_PATH", "KUBECONFIG"} <= set(one["environment"])
        assert not {"SOME_TOKEN", "WINDLASS_KEYRING_FILE", "WINDLASS_DIGEST_KEY_FILE"} & set(one["environment"])
    logged = [one for one in map(json.loads, installation.log.read_text().splitlines()) if "hook" in one]
    assert any("said by early" in json.dumps(one) for one in logged), "output is logged under the hook's name"


async def test_a_values_patch_reaches_the_chart_and_outlives_worker_and_settings(
    installation: Installation, tmp_path: Path
) -> None:
    runs = tmp_path / "runs"
    written(
        installation,
        "patching",
        patch_sh=shell(
            {"onStartup": 1},
            f"""echo run >> {runs}
            echo '{{"op": "add", "path": "/patching/greeting", "value": "by the hook"}}' > $VALUES_JSON_PATCH_PATH""",
        ),
    )
    await installation.application("patched", "patching", "1.0.0")
    await installation.ready("patched")
    assert (await shown(installation, "patched"))["greeting"] == "by the hook"

    installation.kill()
    installation.start()
    await installation.application("patched", "patching", "1.0.0", settings={"greeting": "by the user"})
    await installation.ready("patched")
    assert (await shown(installation, "patched"))["greeting"] == "by the hook", "patches lie above settings"
    assert runs.read_text().split() == ["run"], "kept, not made again"


async def test_values_changed_after_helm_are_released_once_more(installation: Installation, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    written(
        installation,
        "after",
        after_sh=shell(
            {"afterHelm": 1},
            f"""echo run >> {runs}
            echo '{{"op": "add", "path": "/after/greeting", "value": "'$(wc -l < {runs})'"}}' > $VALUES_JSON_PATCH_PATH
            """,
        ),
    )
    await installation.application("more", "after", "1.0.0")
    await installation.ready("more")
    assert (await shown(installation, "more"))["greeting"] == "1"
    assert runs.read_text().split() == ["run"]
    assert await revisions(installation, "more") == ["superseded", "deployed"]
    await keep(installation, "more", "after-helm-re-release")


async def test_a_failing_hook_is_told_and_tried_again_until_it_succeeds(
    installation: Installation, tmp_path: Path
) -> None:
    good = tmp_path / "good"
    written(
        installation,
        "failing",
        fail_sh=shell({"beforeHelm": 1}, f"[ -e {good} ] || {{ echo 'no such luck' >&2; exit 3; }}"),
    )
    await installation.application("failing", "failing", "1.0.0")
    obj = await installation.status("failing", lambda status: status.get("failure", {}).get("attempt", 0) >= 2)
    told = condition(obj, "HooksProcessed")
    assert (told["status"], told["reason"]) == ("False", "BeforeHelmHooksFailed")
    assert "hooks/fail.sh" in told["message"]
    assert "no such luck" in told["message"]
    assert obj["status"]["failure"]["step"] == "BeforeHelm hooks/fail.sh"
    assert obj["status"]["failure"]["nextTry"]
    assert await revisions(installation, "failing") == []

    good.touch()
    obj = await installation.ready("failing")
    assert condition(obj, "HooksProcessed")["status"] == "True"
    assert "failure" not in obj["status"]


async def test_a_hook_that_takes_too_long_is_killed_with_all_its_children(
    installation: Installation, tmp_path: Path
) -> None:
    pids = tmp_path / "pids"
    written(
        installation,
        "endless",
        endless_sh=shell(
            {"beforeHelm": 1, "settings": {"executionTimeout": "1s"}},
            f"sleep 300 & echo $$ $! > {pids}.new; mv {pids}.new {pids}; wait",
        ),
    )
    await installation.application("endless", "endless", "1.0.0")
    obj = await installation.status("endless", lambda status: status.get("failure"))
    told = condition(obj, "HooksProcessed")
    assert told["reason"] == "BeforeHelmHooksFailed"
    assert "1 s" in told["message"] or "1s" in told["message"]
    await installation.application("endless", "endless", "1.0.0", suspend=True)
    await installation.status("endless", lambda status: status.get("phase") == "Suspended")
    await eventually(lambda: not alive(pids), what="hook and child are gone")


async def test_a_version_change_kills_the_running_hook_as_a_group(installation: Installation, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    body = f"sleep 300 & echo $$ $! > {pids}.new; mv {pids}.new {pids}; wait"
    written(installation, "switch", "1.0.0", long_sh=shell({"beforeHelm": 1}, body))
    written(installation, "switch", "1.1.0")
    await installation.application("switch", "switch", "1.0.0")
    await eventually(pids.exists, what="the hook runs")
    assert alive(pids)
    await installation.application("switch", "switch", "1.1.0")
    await eventually(lambda: not alive(pids), what="hook and child are gone")
    await installation.ready("switch", "1.1.0")
    await keep(installation, "switch", "version-change-during-hook")


def alive(pids: Path) -> list[int]:
    """Return which of the processes whose numbers stand in the file still run."""
    found = [int(pid) for pid in pids.read_text().split()]
    return [pid for pid in found if Path(f"/proc/{pid}").exists() and state(pid) != "Z"]


def state(pid: int) -> str:
    """Return the state letter of a process."""
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]


async def test_a_hook_makes_objects_under_its_packages_name(installation: Installation) -> None:
    secret: Object = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "token"}, "stringData": {"a": "b"}}
    operation = {"operation": "CreateIfNotExists", "object": secret}
    removal = {"operation": "Delete", "apiVersion": "v1", "kind": "Secret", "name": "token"}
    written(
        installation,
        "making",
        make_sh=shell({"beforeHelm": 1}, f"echo '{json.dumps(operation)}' > $KUBERNETES_PATCH_PATH"),
        unmake_sh=shell({"afterDeleteHelm": 1}, f"echo '{json.dumps(removal)}' > $KUBERNETES_PATCH_PATH"),
    )
    await installation.application("maker", "making", "1.0.0")
    await installation.ready("maker")
    assert await installation.get("Secret", "maker-token") is not None
    assert await installation.get("Secret", "token") is None
    await installation.delete("maker")
    await installation.gone("maker")
    assert await installation.get("Secret", "maker-token") is None


async def test_a_hook_may_not_reach_beyond_its_namespace(installation: Installation) -> None:
    stranger: Object = {
        "operation": "CreateIfNotExists",
        "object": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "namespace": "kube-system"}},
    }
    written(
        installation,
        "reaching",
        reach_sh=shell({"beforeHelm": 1}, f"echo '{json.dumps(stranger)}' > $KUBERNETES_PATCH_PATH"),
    )
    await installation.application("reacher", "reaching", "1.0.0")
    obj = await installation.status("reacher", lambda status: status.get("failure"))
    assert condition(obj, "HooksProcessed")["reason"] == "BeforeHelmHooksFailed"
    assert "namespace" in condition(obj, "HooksProcessed")["message"]


async def test_a_hooks_kubeconfig_is_its_packages_and_ends_at_its_namespace(
    installation: Installation, tmp_path: Path
) -> None:
    kubectl = installation.stack.tool("kubectl")
    answers = tmp_path / "answers"
    verdict = "&& echo may || echo may not"
    written(
        installation,
        "asking",
        ask_sh=shell(
            {"beforeHelm": 1},
            f"""{{
            {kubectl} get configmaps -n {installation.namespace} >/dev/null {verdict}
            {kubectl} get configmaps -n default >/dev/null 2>&1 {verdict}
            {kubectl} get nodes >/dev/null 2>&1 {verdict}
            {kubectl} auth whoami -o jsonpath='{{.status.userInfo.username}}'
            }} > {answers}""",
        ),
    )
    await installation.application("asker", "asking", "1.0.0")
    await installation.ready("asker")
    mine, other, cluster, who = answers.read_text().split("\n")
    assert (mine, other, cluster) == ("may", "may not", "may not")
    assert who == f"system:serviceaccount:{installation.namespace}:windlass-application"


async def test_a_hook_leaves_no_files_behind(installation: Installation, tmp_path: Path) -> None:
    noted = tmp_path / "noted"
    written(
        installation,
        "tidy",
        tidy_sh=shell({"beforeHelm": 1}, f"echo x > $TMPDIR/mine; echo $TMPDIR $KUBECONFIG $VALUES_PATH > {noted}"),
    )
    await installation.application("tidy", "tidy", "1.0.0")
    await installation.ready("tidy")
    noted_paths = noted.read_text().split()
    assert len(noted_paths) == 3
    assert existing(noted_paths) == []


def existing(paths: list[str]) -> list[str]:
    """Return which of the paths still lead somewhere."""
    return [path for path in paths if Path(path).exists()]
