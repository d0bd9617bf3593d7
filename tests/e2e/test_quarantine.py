"""`Quarantined` on a real object: a part of one package fails again and again, and heals by itself."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from e2e.test_metrics import address, labels, scraped

from support.event_hooks import Journal, labelled, put, write
from support.installation import Installation, condition
from support.running import events, running
from support.waiting import eventually
from windlass.devstack.stack import Stack
from windlass.ports.kube import Object

RBAC = "rbac.authorization.k8s.io"


@pytest.fixture
async def installation(stack: Stack, tmp_path: Path) -> AsyncIterator[Installation]:
    async with running(stack, tmp_path) as made:
        yield made


async def account(installation: Installation, name: str) -> None:
    """Make an account of the namespace, without rights yet."""
    metadata = {"name": name, "namespace": installation.namespace}
    await installation.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})


async def bind(installation: Installation, name: str) -> None:
    """Give the account what `admin` may."""
    await installation.apply(
        {
            "apiVersion": f"{RBAC}/v1",
            "kind": "RoleBinding",
            "metadata": {"name": name, "namespace": installation.namespace},
            "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "admin"},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": installation.namespace}],
        }
    )


async def idle(installation: Installation, *names: str) -> bool:
    """Say whether nothing is left to do, for lifecycles and hooks alike."""
    views = [await installation.lifecycles.queues(installation.key(name)) for name in names]
    return not any(steps for view in views for steps in view.queues.values())


def quarantined(status: Object) -> str:
    """Return the condition's message, empty unless it is True."""
    found = condition({"status": status}, "Quarantined")
    return found["message"] if found["status"] == "True" else ""


async def test_a_watch_that_cannot_be_restored_is_told_and_heals(installation: Installation, tmp_path: Path) -> None:
    one, two = Journal(tmp_path, "one"), Journal(tmp_path, "two")
    write(installation, "one", following=one.hook(labelled("watched", name="maps")))
    write(installation, "two", following=two.hook(labelled("watched", name="maps")))
    await account(installation, "own")
    await bind(installation, "own")
    await installation.application("one", "one", "1.0.0", target={"serviceAccountName": "own"})
    await installation.application("two", "two", "1.0.0")
    for name in ("one", "two"):
        obj = await installation.ready(name)
        assert "Quarantined" not in [found["type"] for found in obj["status"]["conditions"]]
    await put(installation, "first", "watched", x="1")
    for journal in (one, two):
        await journal.told("Added", "first")
    # A run whose end the lifecycle has not learned would be done again, and fail without the rights.
    await eventually(lambda: idle(installation, "one", "two"), what="no run of a hook is left")

    # While no worker runs, somebody takes away what the hook's binding needs.
    installation.kill()
    await installation.kube.delete(installation.ref("RoleBinding", "own", f"{RBAC}/v1"))
    await put(installation, "second", "watched", x="1")
    installation.start()

    await two.told("Added", "second")
    obj = await installation.status("one", lambda status: "restore: " in quarantined(status))
    message = quarantined(obj["status"])
    for word in ("hooks/following.sh", "binding maps", "forbidden", "tried again"):
        assert word in message
    assert condition(obj, "Quarantined")["reason"] == "PartFailed"
    assert condition(obj, "Ready")["status"] == "True", condition(obj, "Ready")
    other = await installation.object("two")
    assert other is not None
    assert quarantined(other["status"]) == ""
    assert "Quarantined" in [event["reason"] for event in await events(installation, "one")]
    url = await eventually(lambda: address(installation), what="metrics are served")
    faults = (await scraped(url))["windlass_package_faults_total"]
    assert faults[labels(part="restore")] >= 1

    await put(installation, "third", "watched", x="1")
    await two.told("Added", "third")
    assert not [run for run in one.items if run.get("watchEvent") == "Added" and "third" in str(run)]
    assert re.search(r'"part": ?"restore"', installation.log.read_text())

    await bind(installation, "own")
    await installation.status("one", lambda status: not quarantined(status))
    await one.told("Added", "second")
    await one.told("Added", "third")
    await put(installation, "fourth", "watched", x="1")
    await one.told("Added", "fourth")
    await eventually(lambda: ended(installation), what="the Event that says that it is over")


async def ended(installation: Installation) -> bool:
    return "QuarantineEnded" in [event["reason"] for event in await events(installation, "one")]
