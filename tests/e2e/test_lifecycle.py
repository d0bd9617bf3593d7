"""One package through its whole life, as a user sees it."""

from __future__ import annotations

from pathlib import Path

from support.installation import Installation, condition, write_greeter, write_package
from support.waiting import eventually
from windlass.domain.ids import FINALIZER


async def greeting(installation: Installation, name: str = "one") -> dict[str, str]:
    found = await installation.get("ConfigMap", name)
    return found["data"] if found else {}


async def test_install_reconfigure_upgrade_downgrade_remove(installation: Installation, tmp_path: Path) -> None:
    write_greeter(tmp_path / "packages", "1.0.0", "1.1.0")
    installation.start()

    await installation.application("one", "greeter", "1.0.0")
    obj = await installation.ready("one", "1.0.0")
    assert FINALIZER in obj["metadata"]["finalizers"]
    assert obj["status"]["phase"] == "Running"
    assert await greeting(installation) == {"version": "1.0.0", "greeting": "hello"}

    await installation.application("one", "greeter", "1.0.0", settings={"greeting": "hi"})
    await installation.ready("one", "1.0.0")
    assert await greeting(installation) == {"version": "1.0.0", "greeting": "hi"}

    await installation.application("one", "greeter", "1.1.0", settings={"greeting": "hi"})
    await installation.ready("one", "1.1.0")
    assert await greeting(installation) == {"version": "1.1.0", "greeting": "hi"}

    await installation.application("one", "greeter", "1.0.0", settings={"greeting": "hi"})
    obj = await installation.ready("one", "1.0.0")
    assert await greeting(installation) == {"version": "1.0.0", "greeting": "hi"}
    assert obj["status"]["release"]["revision"] == 4

    await installation.delete("one")
    await installation.gone("one")
    assert await greeting(installation) == {}
    assert await installation.release("one") == {}
    assert await installation.record("one") is None


async def test_invalid_settings_leave_the_release_untouched(installation: Installation, tmp_path: Path) -> None:
    write_greeter(tmp_path / "packages", "1.0.0")
    installation.start()
    await installation.application("one", "greeter", "1.0.0", settings={"greeting": "hi"})
    await installation.ready("one")

    await installation.application("one", "greeter", "1.0.0", settings={"greeting": "x" * 21})
    obj = await installation.status("one", lambda status: status.get("failure"))
    told = condition(obj, "SettingsValid")
    assert (told["status"], told["reason"]) == ("False", "ValidationFailed")
    assert "settings.greeting" in told["message"]
    assert "20" in told["message"]
    assert condition(obj, "Ready")["status"] == "False"
    assert (await greeting(installation))["greeting"] == "hi"
    assert list(await installation.release("one")) == [1]

    await installation.application("one", "greeter", "1.0.0", settings={"greeting": "bye"})
    obj = await installation.ready("one")
    assert "failure" not in obj["status"]
    assert (await greeting(installation))["greeting"] == "bye"


async def test_a_package_that_never_loaded_leaves_nothing(installation: Installation, tmp_path: Path) -> None:
    write_package(tmp_path / "packages", "broken", "1.0.0", extra={"package.yaml": "name: [oops"})
    installation.start()
    await installation.application("one", "broken", "1.0.0")
    obj = await installation.status("one", lambda status: status.get("failure"))
    assert obj["status"]["failure"]["reason"] == "LoadFailed"
    assert "package.yaml" in obj["status"]["failure"]["message"]

    await installation.delete("one")
    await installation.gone("one")
    secrets = await installation.kube.list("v1", "Secret", namespace=installation.namespace)
    assert secrets.items == []


async def test_status_and_events_tell_the_story(installation: Installation, tmp_path: Path) -> None:
    write_greeter(tmp_path / "packages", "1.0.0")
    installation.start()
    await installation.application("one", "greeter", "1.0.0")
    obj = await installation.ready("one")
    for type_ in ("RequirementsMet", "ReadyOnFilesystem", "ReadyInRuntime", "SettingsValid", "HooksProcessed"):
        assert condition(obj, type_)["status"] == "True", type_
        assert condition(obj, type_)["observedGeneration"] == 1
    for type_ in ("HelmApplied", "ReadyInCluster"):
        assert condition(obj, type_)["status"] == "True", type_
    assert obj["status"]["workflow"]["link"].startswith(installation.stack.ui_url)

    async def reasons() -> set[str]:
        events = await installation.kube.list("events.k8s.io/v1", "Event", namespace=installation.namespace)
        return {one["reason"] for one in events.items if one["regarding"]["name"] == "one"}

    async def told() -> bool:
        return {"Download", "UpgradeRelease", "Ready"} <= await reasons()

    await eventually(told)


async def test_recreated_during_removal_lives(installation: Installation, tmp_path: Path) -> None:
    slow = "#!/bin/sh\n[ \"$1\" = --config ] && echo 'configVersion: v1\nbeforeDeleteHelm: 1' && exit 0\nsleep 2\n"
    write_greeter(tmp_path / "packages", "1.0.0", hooks={"slow.sh": slow})
    installation.start()
    await installation.application("one", "greeter", "1.0.0")
    first = await installation.ready("one")

    await installation.delete("one")
    await installation.status("one", lambda status: status.get("phase") == "Removing")
    ref = installation.ref("Application", "one", "windlass.dev/v1alpha1")
    await installation.kube.patch(ref, {"metadata": {"finalizers": []}}, kind="merge")
    await installation.gone("one")
    await installation.application("one", "greeter", "1.0.0", settings={"greeting": "again"})
    second = await installation.ready("one")
    assert second["metadata"]["uid"] != first["metadata"]["uid"]
    assert await greeting(installation) == {"version": "1.0.0", "greeting": "again"}
