"""Changes of mind: what is wanted changes while something is being done about what was wanted before."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from temporalio.client import WorkflowExecutionStatus

from support.installation import (
    CONFIG_MAP,
    GREETING,
    ROLLOUT,
    STUCK,
    Installation,
    condition,
    write_greeter,
    write_package,
)
from support.running import application_ref, keep, packages, revisions, running, shown
from support.waiting import eventually
from windlass.devstack.stack import Stack
from windlass.domain.ids import API_VERSION, package_workflow_id
from windlass.ports.kube import Object

# Says when it begins and ends, and waits meanwhile for as long as a file is there.
HELD = """\
#!/bin/sh
if [ "$1" = --config ]; then echo '{{"configVersion": "v1", "{binding}": 1}}'; exit 0; fi
echo started >> {folder}/journal
while [ -e {folder}/hold ]; do sleep 0.05; done
echo finished >> {folder}/journal
"""


@pytest.fixture(scope="module")
async def installation(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Installation]:
    """One running installation for all tests here; each has an Application of its own."""
    async with running(stack, tmp_path_factory.mktemp("races")) as made:
        for version in ("1.0.0", "1.1.0"):
            write_package(
                packages(made),
                "rollout",
                version,
                templates={"rollout.yaml": ROLLOUT, "config.yaml": CONFIG_MAP},
                settings={**STUCK, **GREETING},
            )
        write_greeter(packages(made), "1.0.0", "1.1.0")
        yield made


def held_hook(folder: Path, binding: str) -> dict[str, str]:
    """Return a hook that waits while ``hold`` is in ``folder``, and put that file there."""
    (folder / "hold").touch()
    return {"held.sh": HELD.format(folder=folder, binding=binding)}


def journal(folder: Path) -> list[str]:
    """Return what the held hook wrote."""
    file = folder / "journal"
    return file.read_text().split() if file.exists() else []


async def awaited(installation: Installation, name: str) -> Object:
    """Wait until the lifecycle is seen waiting for pods that never become ready."""

    # Progress is the step's own writing; which step it is, the lifecycle writes a little later.
    def shown_waiting(status: Object) -> bool:
        return "step" in status and bool(status.get("progress", {}).get("remaining"))

    return await installation.status(name, shown_waiting)


async def test_a_plain_life(installation: Installation) -> None:
    """Install, settings change, upgrade, downgrade, removal, each undisturbed: what all races are compared with."""
    await installation.application("plain", "greeter", "1.0.0")
    await installation.ready("plain")
    await keep(installation, "plain", "install")
    await installation.application("plain", "greeter", "1.0.0", settings={"greeting": "hi"})
    await installation.ready("plain")
    await keep(installation, "plain", "settings-change")
    await installation.application("plain", "greeter", "1.1.0", settings={"greeting": "hi"})
    await installation.ready("plain", "1.1.0")
    await keep(installation, "plain", "upgrade")
    await installation.application("plain", "greeter", "1.0.0", settings={"greeting": "hi"})
    await installation.ready("plain", "1.0.0")
    await keep(installation, "plain", "downgrade")
    assert await revisions(installation, "plain") == ["superseded"] * 3 + ["deployed"]
    await installation.delete("plain")
    await installation.gone("plain")
    await keep(installation, "plain", "removal")


async def test_new_settings_supersede_the_wait_for_old_ones(installation: Installation) -> None:
    await installation.application("one", "rollout", "1.0.0", settings={"stuck": True})
    obj = await awaited(installation, "one")
    assert obj["status"]["step"] == "UpgradeRelease"
    assert obj["status"]["progress"]["waitingFor"][0].startswith("Deployment/")
    assert condition(obj, "ReadyInCluster")["status"] == "False"

    await installation.application("one", "rollout", "1.0.0", settings={"stuck": False, "greeting": "now"})
    obj = await installation.ready("one")
    assert (await shown(installation, "one"))["greeting"] == "now"
    assert await revisions(installation, "one") == ["superseded", "deployed"]
    assert "progress" not in obj["status"]
    await keep(installation, "one", "superseded-wait")


async def test_a_reference_that_changes_supersedes_the_wait(installation: Installation) -> None:
    async def refer(text: str) -> None:
        metadata = {"name": "refer", "namespace": installation.namespace}
        await installation.apply(
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"values.yaml": text}}
        )

    entries = [{"kind": "ConfigMap", "name": "refer"}]
    await refer("stuck: true")
    await installation.application("refers", "rollout", "1.0.0", valuesFrom=entries)
    await awaited(installation, "refers")
    await refer("stuck: false\ngreeting: now")
    # The wait alone would last ten minutes.
    await eventually(lambda: greets(installation, "refers", "now"), 60)
    await installation.ready("refers")
    assert await revisions(installation, "refers") == ["superseded", "deployed"]


async def greets(installation: Installation, name: str, greeting: str) -> bool:
    return (await shown(installation, name))["greeting"] == greeting


async def test_a_new_version_ends_a_release_that_never_becomes_ready(installation: Installation) -> None:
    await installation.application("two", "rollout", "1.0.0", settings={"stuck": True})
    await awaited(installation, "two")
    await installation.application("two", "rollout", "1.1.0")
    await installation.ready("two", "1.1.0")
    assert (await shown(installation, "two"))["version"] == "1.1.0"
    assert await revisions(installation, "two") == ["superseded", "deployed"]
    await keep(installation, "two", "version-change-during-release")


async def test_settings_during_a_version_change_wait_their_turn(installation: Installation, tmp_path: Path) -> None:
    name = "turn"
    write_package(packages(installation), name, "1.0.0", templates={"config.yaml": CONFIG_MAP}, settings=GREETING)
    write_package(
        packages(installation),
        name,
        "1.1.0",
        templates={"config.yaml": CONFIG_MAP},
        settings=GREETING,
        hooks=held_hook(tmp_path, "beforeHelm"),
    )
    await installation.application(name, name, "1.0.0")
    await installation.ready(name)
    await installation.application(name, name, "1.1.0")
    await eventually(lambda: journal(tmp_path) == ["started"], what="the hook of the new version runs")

    await installation.application(name, name, "1.1.0", settings={"greeting": "meanwhile"})
    generation = ((await installation.object(name)) or {})["metadata"]["generation"]

    async def noticed() -> bool:
        dump = await installation.lifecycles.dump(installation.key(name))
        return dump.state.desired.generation == generation and dump.running.startswith("BeforeHelm")

    await eventually(noticed, what="the new settings are known while the hook runs on")
    assert journal(tmp_path) == ["started"], "settings do not cancel a version change"
    (tmp_path / "hold").unlink()
    await installation.ready(name, "1.1.0")
    assert await shown(installation, name) == {"version": "1.1.0", "greeting": "meanwhile"}
    assert journal(tmp_path) == ["started", "finished"] * 2, "the new settings begin a run of their own"
    assert await revisions(installation, name) == ["superseded", "deployed"], "the old settings were never released"
    await keep(installation, name, "settings-during-version-change")


async def test_removal_during_install_leaves_nothing(installation: Installation) -> None:
    await installation.application("four", "rollout", "1.0.0", settings={"stuck": True})
    await awaited(installation, "four")
    await installation.delete("four")
    await installation.gone("four")
    assert await installation.release("four") == {}
    assert await installation.get("Deployment", "four", "apps/v1") is None
    assert await shown(installation, "four") == {}
    assert await installation.record("four") is None
    await keep(installation, "four", "removal-during-install")


async def test_re_creation_during_removal_lives(installation: Installation, tmp_path: Path) -> None:
    name = "again"
    write_package(
        packages(installation),
        name,
        "1.0.0",
        templates={"config.yaml": CONFIG_MAP},
        settings=GREETING,
        hooks=held_hook(tmp_path, "beforeDeleteHelm"),
    )
    await installation.application(name, name, "1.0.0")
    first = await installation.ready(name)
    await installation.delete(name)
    await eventually(lambda: journal(tmp_path) == ["started"], what="the removal runs its hook")
    await installation.kube.patch(application_ref(installation, name), {"metadata": {"finalizers": []}}, kind="merge")
    await installation.gone(name)
    await installation.application(name, name, "1.0.0", settings={"greeting": "again"})
    (tmp_path / "hold").unlink()

    second = await installation.ready(name)
    assert second["metadata"]["uid"] != first["metadata"]["uid"]
    assert await shown(installation, name) == {"version": "1.0.0", "greeting": "again"}
    assert journal(tmp_path) == ["started", "finished"], "the removal that had begun was finished first"
    assert await revisions(installation, name) == ["deployed"]
    await keep(installation, name, "re-creation-during-removal")


async def test_suspend_keeps_the_release_and_resume_takes_it_up(installation: Installation) -> None:
    await installation.application("six", "greeter", "1.0.0")
    await installation.ready("six")
    await installation.application("six", "greeter", "1.0.0", suspend=True)
    obj = await installation.status("six", lambda status: status.get("phase") == "Suspended")
    assert condition(obj, "Ready") | {"status": "False", "reason": "Suspended"} == condition(obj, "Ready")
    assert (await shown(installation, "six"))["version"] == "1.0.0"

    await installation.application("six", "greeter", "1.1.0", suspend=True, settings={"greeting": "later"})
    await installation.status("six", lambda status: status["seen"]["generation"] == 3)
    assert (await shown(installation, "six")) == {"version": "1.0.0", "greeting": "hello"}, "suspended is suspended"

    await installation.application("six", "greeter", "1.1.0", settings={"greeting": "later"})
    await installation.ready("six", "1.1.0")
    assert (await shown(installation, "six")) == {"version": "1.1.0", "greeting": "later"}
    await keep(installation, "six", "suspend-and-resume")


async def test_delete_on_disable_takes_the_release_away_and_resume_brings_it_back(installation: Installation) -> None:
    await installation.application("seven", "greeter", "1.0.0", deleteOnDisable=True, settings={"greeting": "hi"})
    await installation.ready("seven")
    await installation.application(
        "seven", "greeter", "1.0.0", deleteOnDisable=True, suspend=True, settings={"greeting": "hi"}
    )

    async def away() -> bool:
        return await revisions(installation, "seven") == [] and await shown(installation, "seven") == {}

    await eventually(away, what="the release is gone")
    obj = await installation.status("seven", lambda status: status.get("phase") == "Suspended")
    assert obj["metadata"].get("finalizers"), "the package is still ours"

    await installation.application("seven", "greeter", "1.0.0", deleteOnDisable=True, settings={"greeting": "hi"})
    await installation.ready("seven")
    assert await shown(installation, "seven") == {"version": "1.0.0", "greeting": "hi"}
    assert await revisions(installation, "seven") == ["deployed"]
    await keep(installation, "seven", "delete-on-disable")


async def test_removal_while_suspended(installation: Installation) -> None:
    await installation.application("eight", "greeter", "1.0.0")
    await installation.ready("eight")
    await installation.application("eight", "greeter", "1.0.0", suspend=True)
    await installation.status("eight", lambda status: status.get("phase") == "Suspended")
    await installation.delete("eight")
    await installation.gone("eight")
    assert await shown(installation, "eight") == {}
    assert await revisions(installation, "eight") == []
    await keep(installation, "eight", "removal-while-suspended")


async def test_a_return_to_what_runs_heals_what_was_refused(installation: Installation) -> None:
    await installation.application("back", "greeter", "1.0.0", settings={"greeting": "good"})
    before = await installation.ready("back")
    await installation.application("back", "greeter", "1.0.0", settings={"greeting": "x" * 21})
    await installation.status("back", lambda status: status.get("failure", {}).get("step") == "ApplySettings")
    await installation.application("back", "greeter", "1.0.0", settings={"greeting": "good"})
    obj = await installation.ready("back")
    assert condition(obj, "SettingsValid")["status"] == "True"

    await installation.application("back", "greeter", "9.9.9", settings={"greeting": "good"})
    obj = await installation.status("back", lambda status: status.get("failure", {}).get("step") == "Download")
    assert obj["status"]["failure"]["reason"] == "PackageNotFound"
    assert (await shown(installation, "back"))["version"] == "1.0.0", "the running release stays"
    await installation.application("back", "greeter", "1.0.0", settings={"greeting": "good"})
    obj = await installation.ready("back", "1.0.0")
    assert "failure" not in obj["status"]
    for one in before["status"]["conditions"]:
        assert condition(obj, one["type"])["status"] == one["status"], one["type"]
    assert await revisions(installation, "back") == ["deployed"], "what runs is not released again"
    await keep(installation, "back", "return-to-what-runs")


async def test_a_cancelled_workflow_stops_its_step_and_the_next_one_goes_on(installation: Installation) -> None:
    await installation.application("nine", "rollout", "1.0.0", settings={"stuck": True})
    await awaited(installation, "nine")
    handle = installation.client.get_workflow_handle(package_workflow_id(installation.key("nine")))
    await handle.cancel()

    async def ended() -> bool:
        return (await handle.describe()).status is WorkflowExecutionStatus.CANCELED

    await eventually(ended, what="the workflow is cancelled")
    await keep(installation, "nine", "cancel")
    await installation.application("nine", "rollout", "1.0.0", settings={"stuck": False})
    obj = await installation.ready("nine")
    assert obj["status"]["release"]["revision"] == 2


async def test_a_lost_workflow_is_rebuilt_by_observing(installation: Installation) -> None:
    await installation.application("ten", "greeter", "1.0.0", settings={"greeting": "hi"})
    before = await installation.ready("ten")
    handle = installation.client.get_workflow_handle(package_workflow_id(installation.key("ten")))
    await handle.terminate("as if Temporal had lost it")
    await installation.kube.patch(
        application_ref(installation, "ten"), {"metadata": {"annotations": {"touched": "yes"}}}, kind="merge"
    )

    async def rebuilt() -> bool:
        view = await installation.lifecycles.status(installation.key("ten"))
        return view.hold == "Idle" and view.version == "1.0.0"

    await eventually(rebuilt, what="another workflow rests with the same package")
    obj = await installation.status(
        "ten", lambda status: status["seen"]["digest"] != before["status"]["seen"]["digest"]
    )
    assert obj["status"]["workflow"]["runId"] != before["status"]["workflow"]["runId"]
    assert obj["status"]["release"] == before["status"]["release"], "nothing was released again"
    for type_ in ("Ready", "HelmApplied", "ReadyInCluster", "SettingsValid"):
        assert condition(obj, type_)["lastTransitionTime"] == condition(before, type_)["lastTransitionTime"], type_
    await keep(installation, "ten", "rebuild-after-lost-temporal")


async def test_an_object_freed_by_hand_ends_the_lifecycle(installation: Installation) -> None:
    await installation.application("eleven", "greeter", "1.0.0")
    await installation.ready("eleven")
    await installation.kube.patch(
        application_ref(installation, "eleven"), {"metadata": {"finalizers": []}}, kind="merge"
    )
    await installation.kube.delete(installation.ref("Application", "eleven", API_VERSION))
    handle = installation.client.get_workflow_handle(package_workflow_id(installation.key("eleven")))

    async def settled() -> bool:
        closed = (await handle.describe()).status is WorkflowExecutionStatus.COMPLETED
        return closed and await installation.object("eleven") is None

    await eventually(settled, what="object and lifecycle are gone")
    await keep(installation, "eleven", "freed-by-hand")
