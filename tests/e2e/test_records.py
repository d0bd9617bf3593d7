"""Helm's records are written where tenants can write too: what Windlass did not write is not believed."""

from __future__ import annotations

import gzip
import json
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from support.faults import Hold, HoldingProxy
from support.installation import (
    CONFIG_MAP,
    GREETING,
    ROLLOUT,
    STUCK,
    Installation,
    condition,
    installed,
    write_greeter,
    write_package,
)
from support.release_records import adding, forge, packed_bytes, record_ref, rewrite, unpacked
from support.running import events, packages, running, shown
from support.waiting import eventually
from windlass.contracts.lifecycle import AdoptAction
from windlass.devstack.stack import Stack
from windlass.domain.errors import Reason
from windlass.domain.ids import ABANDON_ANNOTATION, record_name
from windlass.ports.kube import Object

VICTIM = "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\ndata: {{owner: somebody else}}\n"
FOREIGN = Reason.RELEASE_FOREIGN.value


@pytest.fixture(scope="module")
async def installation(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Installation]:
    async with running(stack, tmp_path_factory.mktemp("records")) as made:
        write_greeter(packages(made), "1.0.0", "2.0.0")
        write_rollout(packages(made))
        yield made


def write_rollout(repository: Path) -> None:
    settings = {**STUCK, **GREETING, "size": {"type": "integer", "default": 1}}
    templates = {"a.yaml": ROLLOUT, "b.yaml": CONFIG_MAP}
    write_package(repository, "rollout", "1.0.0", templates=templates, settings=settings)


async def victim(installation: Installation, name: str) -> str:
    """Create an object of somebody else; return its uid."""
    metadata = {"name": name, "namespace": installation.namespace}
    made = await installation.kube.create(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"owner": "nobody"}}
    )
    return made["metadata"]["uid"]


async def untouched(installation: Installation, name: str, uid: str) -> bool:
    found = await installation.get("ConfigMap", name)
    return (
        found is not None
        and (found["metadata"]["uid"], found["data"]) == (uid, {"owner": "nobody"})
        and "deletionTimestamp" not in found["metadata"]
    )


async def foreign(installation: Installation, name: str) -> Object:
    """Wait until the package says that its release is not its own; return its failure."""
    obj = await installation.status(name, lambda status: (status.get("failure") or {}).get("reason") == FOREIGN)
    assert (condition(obj, "Ready")["status"], condition(obj, "HelmApplied")["reason"]) == ("False", FOREIGN)
    failure: Object = obj["status"]["failure"]
    return failure


async def adopt(installation: Installation, name: str, fingerprint: str = "") -> None:
    action = AdoptAction(who="tests", why="looked at it", fingerprint=fingerprint)
    answer = await installation.lifecycles.adopt(installation.key(name), action)
    assert answer.accepted, answer.message


async def test_objects_added_to_a_record_are_neither_corrected_nor_deleted(installation: Installation) -> None:
    uid = await victim(installation, "victim-added")
    await installation.application("added", "greeter", "1.0.0", drift={"mode": "correct"})
    await installation.ready("added")
    await rewrite(installation, "added", 1, adding(VICTIM.format(name="victim-added")))
    # Something to correct makes the drift correction read the record.
    await installation.kube.patch(installation.ref("ConfigMap", "added"), {"data": {"greeting": "bent"}}, kind="merge")

    failure = await foreign(installation, "added")

    assert "sh.helm.release.v1.added.v1" in failure["message"]
    assert "adopt" in failure["hint"]
    assert (await shown(installation, "added"))["greeting"] == "bent"
    assert await untouched(installation, "victim-added", uid)
    await installation.delete("added")
    obj = await installation.status("added", lambda status: status["phase"] == "Removing" and status.get("failure"))
    assert (obj["status"]["failure"]["reason"], ABANDON_ANNOTATION in obj["status"]["failure"]["hint"]) == (
        FOREIGN,
        True,
    )
    assert await untouched(installation, "victim-added", uid)
    abandon = {"metadata": {"annotations": {ABANDON_ANNOTATION: "true"}}}
    await installation.kube.patch(installation.package_ref("added"), abandon, kind="merge")
    await installation.gone("added")
    assert await installation.record("added") is None
    assert await untouched(installation, "victim-added", uid)


@pytest.mark.parametrize("secret", ["", "looks-like-nothing"])
async def test_a_forged_newer_revision_is_not_upgraded_from(installation: Installation, secret: str) -> None:
    name = f"newer-{'odd' if secret else 'helm'}"
    uid = await victim(installation, f"victim-{name}")
    await installation.application(name, "greeter", "1.0.0")
    await installation.ready(name)
    forged = await forge(installation, name, 1, 2, adding(VICTIM.format(name=f"victim-{name}")), name=secret)
    await installation.application(name, "greeter", "2.0.0")

    failure = await foreign(installation, name)

    assert forged.name in failure["message"]
    assert await untouched(installation, f"victim-{name}", uid)
    assert (await shown(installation, name))["version"] == "1.0.0"
    assert await installation.kube.delete(forged)
    await installation.lifecycles.retry(installation.key(name), installation.action())
    await installation.ready(name, "2.0.0")
    assert await untouched(installation, f"victim-{name}", uid)
    await installation.delete(name)
    await installation.gone(name)
    assert await untouched(installation, f"victim-{name}", uid)


async def test_an_older_revision_that_claims_to_be_deployed_is_not_upgraded_from(installation: Installation) -> None:
    uid = await victim(installation, "victim-older")
    await installation.application("older", "greeter", "1.0.0")
    await installation.ready("older")
    await installation.application("older", "greeter", "1.0.0", settings={"greeting": "hej"})
    await eventually(lambda: _revisions(installation, "older", 2))

    def newest(content: dict[str, object]) -> None:
        adding(VICTIM.format(name="victim-older"))(content)
        content["version"] = 99

    await rewrite(installation, "older", 1, newest)
    await installation.application("older", "greeter", "2.0.0")

    assert "another revision than its name says" in (await foreign(installation, "older"))["message"]
    assert await untouched(installation, "victim-older", uid)


async def _revisions(installation: Installation, name: str, number: int) -> bool:
    return (await installation.release(name)).get(number) == "deployed"


async def test_a_record_replaced_while_its_release_is_awaited_is_noticed_by_the_next_one(
    installation: Installation,
) -> None:
    uid = await victim(installation, "victim-amid")
    await installation.application("amid", "rollout", "1.0.0", settings={"stuck": True})
    await installation.status("amid", lambda status: status.get("progress"))
    await rewrite(installation, "amid", 1, adding(VICTIM.format(name="victim-amid")))
    await installation.application("amid", "rollout", "1.0.0", settings={"stuck": False})

    await foreign(installation, "amid")

    assert await untouched(installation, "victim-amid", uid)


DEEP = b'{"name":"x","config":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
HOSTILE = {
    "deep": packed_bytes(gzip.compress(DEEP)),
    "bomb": packed_bytes(gzip.compress(b" " * (200 * 1024 * 1024))),
    "plain": packed_bytes(b"not gzip at all"),
    "words": "bm90IGJhc2U2NA==",
    "other": packed_bytes(gzip.compress(json.dumps({"version": True, "manifest": {"a": 1}, "hooks": 3}).encode())),
}


async def test_records_of_hostile_content_stop_their_package_and_no_other(installation: Installation) -> None:
    for kind in HOSTILE:
        await installation.application(f"hostile-{kind}", "greeter", "1.0.0")
    for kind, content in HOSTILE.items():
        await installation.ready(f"hostile-{kind}")
        ref = record_ref(installation, f"hostile-{kind}", 1)
        await installation.kube.patch(ref, {"data": {"release": content}}, kind="merge")
        await installation.application(f"hostile-{kind}", "greeter", "2.0.0")
    await installation.application("bystander", "greeter", "1.0.0")
    await installation.ready("bystander")
    for kind in HOSTILE:
        failure = await foreign(installation, f"hostile-{kind}")
        assert "delete the Secrets" in failure["hint"]
    assert installation.process is not None
    assert installation.process.poll() is None
    assert await installation.kube.delete(record_ref(installation, "hostile-deep", 1))
    await installation.lifecycles.retry(installation.key("hostile-deep"), installation.action())
    await installation.ready("hostile-deep", "2.0.0")


async def test_a_release_installed_by_hand_is_adopted_without_a_restart(installation: Installation) -> None:
    chart = packages(installation) / "rollout" / "1.0.0"
    given = ["--set", "stuck=false,greeting=hej,size=7,kept=1"]
    by_hand(installation, "install", "handmade", str(chart), *given)
    pods = await eventually(lambda: pod_uids(installation, "handmade"))

    await installation.application("handmade", "rollout", "1.0.0", settings={"greeting": "hej", "size": 2})
    failure = await foreign(installation, "handmade")

    message = failure["message"]
    assert "was not installed by this package" in message
    assert "size would change from 7 to 2" in message
    assert "kept would go" in message
    assert "greeting" not in message
    fingerprint = message.rpartition("fingerprint ")[2]
    refused = "0" * 12
    await adopt(installation, "handmade", refused)
    again = await installation.status("handmade", lambda status: (status.get("failure") or {}).get("attempt", 0) > 1)
    assert again["status"]["failure"]["reason"] == FOREIGN
    assert await installation.release("handmade") == {1: "deployed"}

    await adopt(installation, "handmade", fingerprint)
    obj = await installation.ready("handmade", "1.0.0")

    assert [one["action"] for one in obj["status"]["actions"]] == ["adopt", "adopt"]
    assert await installation.release("handmade") == {1: "superseded", 2: "deployed"}
    assert await pod_uids(installation, "handmade") == pods
    assert any(one["reason"] == "AdoptRequested" for one in await events(installation, "handmade"))
    await installation.delete("handmade")
    await installation.gone("handmade")
    assert await installation.release("handmade") == {}


async def test_a_release_of_somebody_else_survives_the_object_that_never_adopted_it(
    installation: Installation,
) -> None:
    chart = packages(installation) / "rollout" / "1.0.0"
    by_hand(installation, "install", "theirs", str(chart), "--set", "stuck=false,greeting=hej,size=1")
    await installation.application("theirs", "rollout", "1.0.0")
    await foreign(installation, "theirs")

    await installation.delete("theirs")
    await installation.gone("theirs")

    assert await installation.release("theirs") == {1: "deployed"}
    assert await shown(installation, "theirs")


async def test_an_upgrade_by_hand_waits_for_a_person_and_is_then_set_right(installation: Installation) -> None:
    await installation.application("both", "greeter", "1.0.0")
    await installation.ready("both")
    by_hand(installation, "upgrade", "both", str(packages(installation) / "greeter" / "1.0.0"), "--set", "greeting=hej")

    failure = await foreign(installation, "both")

    assert "revision 2" in failure["message"]
    assert (await shown(installation, "both"))["greeting"] == "hej"
    await adopt(installation, "both")
    await installation.ready("both")
    assert (await shown(installation, "both"))["greeting"] == "hello"
    assert await installation.release("both") == {1: "superseded", 2: "superseded", 3: "deployed"}


async def test_a_worker_that_dies_before_it_noted_the_digest_applies_its_own_chart_again(
    stack: Stack, tmp_path: Path
) -> None:
    async with HoldingProxy(stack).serving() as proxy, installed(stack, tmp_path / "installation") as installation:
        packages(installation).mkdir()
        await installation.repository(packages(installation))
        write_greeter(packages(installation), "1.0.0", "2.0.0")
        uid = await victim(installation, "victim-died")
        installation.start(KUBECONFIG=str(proxy.kubeconfig(installation.folder)))
        await installation.application("died", "greeter", "1.0.0")
        await installation.ready("died")
        record = f"/secrets/{record_name(installation.key('died'))}$"
        hold = proxy.hold(Hold(at=f"PUT .*{record}", passing=(r"(PUT|POST) .*/sh\.helm\.release\.v1\.died\.v2$",)))
        await installation.application("died", "greeter", "2.0.0")
        await eventually(lambda: hold.holding, what="the digest is about to be noted")
        assert await installation.release("died") == {1: "superseded", 2: "deployed"}
        installation.kill()
        proxy.release()
        await rewrite(installation, "died", 2, adding(VICTIM.format(name="victim-died")))

        installation.start()
        await installation.ready("died", "2.0.0")

        assert await untouched(installation, "victim-died", uid)
        assert await installation.release("died") == {1: "superseded", 2: "deployed"}
        secret = await installation.kube.get(record_ref(installation, "died", 2))
        assert secret is not None
        assert "victim" not in unpacked(secret)["manifest"]


def by_hand(installation: Installation, *arguments: str) -> None:
    """Run the helm program as a person would."""
    command = [str(installation.stack.tool("helm")), *arguments, "--namespace", installation.namespace]
    command += ["--kubeconfig", str(installation.stack.kubeconfig)]
    subprocess.run(command, capture_output=True, check=True, timeout=60)


async def pod_uids(installation: Installation, release: str) -> list[str]:
    found = await installation.kube.list("v1", "Pod", namespace=installation.namespace, label_selector=f"app={release}")
    return sorted(pod["metadata"]["uid"] for pod in found.items)
