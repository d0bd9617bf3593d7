"""Modules on the real stack: cluster-wide packages under their own name, in namespace windlass-system."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from support.installation import CONFIG_MAP, GREETING, Installation, condition, write_package
from windlass.domain.errors import PermanentError
from windlass.domain.ids import API_VERSION, FINALIZER, MODULE_NAMESPACE, Kind, record_name
from windlass.ports.kube import ObjectRef


@pytest.fixture
def name() -> str:
    """A module's name is cluster-wide: each test takes one of its own."""
    return f"mod-{uuid.uuid4().hex[:6]}"


def write_module(repository: Path, name: str, *versions: str, **more: object) -> None:
    for version in versions:
        write_package(
            repository,
            name,
            version,
            kind=Kind.MODULE,
            templates={"config.yaml": CONFIG_MAP},
            settings=GREETING,
            **more,  # type: ignore[arg-type]
        )


async def greeting(installation: Installation, name: str) -> dict[str, str]:
    ref = ObjectRef(api_version="v1", kind="ConfigMap", namespace=MODULE_NAMESPACE, name=name)
    found = await installation.kube.get(ref)
    return found["data"] if found else {}


async def test_install_reconfigure_upgrade_disable_remove(
    installation: Installation, tmp_path: Path, name: str
) -> None:
    module = f"module/{name}"
    write_module(tmp_path / "packages", name, "1.0.0", "1.1.0")
    installation.start()

    await installation.module(name, "1.0.0")
    obj = await installation.ready(module, "1.0.0")
    assert FINALIZER in obj["metadata"]["finalizers"]
    assert obj["status"]["release"] == {"name": name, "namespace": MODULE_NAMESPACE, "revision": 1}
    assert await greeting(installation, name) == {"version": "1.0.0", "greeting": "hello"}

    await installation.module(name, "1.0.0", settings={"greeting": "hi"})
    await installation.ready(module, "1.0.0")
    assert await greeting(installation, name) == {"version": "1.0.0", "greeting": "hi"}

    await installation.module(name, "1.1.0", settings={"greeting": "hi"})
    await installation.ready(module, "1.1.0")
    assert await greeting(installation, name) == {"version": "1.1.0", "greeting": "hi"}

    await installation.module(name, "1.1.0", suspend=True, deleteOnDisable=True)
    obj = await installation.status(module, lambda status: status.get("step") == "Suspended")
    assert condition(obj, "Ready")["reason"] == "Suspended"
    assert await greeting(installation, name) == {}

    await installation.module(name, "1.1.0")
    await installation.ready(module, "1.1.0")
    assert await greeting(installation, name) == {"version": "1.1.0", "greeting": "hello"}

    await installation.delete(module)
    await installation.gone(module)
    assert await greeting(installation, name) == {}
    assert await installation.release(module) == {}
    record = ObjectRef(
        api_version="v1", kind="Secret", namespace=MODULE_NAMESPACE, name=record_name(installation.key(module))
    )
    assert await installation.kube.get(record) is None


async def test_settings_come_from_the_modules_namespace_and_are_watched(
    installation: Installation, tmp_path: Path, name: str
) -> None:
    write_module(tmp_path / "packages", name, "1.0.0")

    async def say(word: str) -> None:
        await installation.apply(
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": f"{name}-settings", "namespace": MODULE_NAMESPACE},
                "data": {"values.yaml": f"greeting: {word}"},
            }
        )

    await say("one")
    installation.start()
    await installation.module(name, "1.0.0", valuesFrom=[{"kind": "ConfigMap", "name": f"{name}-settings"}])
    await installation.ready(f"module/{name}")
    assert (await greeting(installation, name))["greeting"] == "one"
    digest = (await installation.object(f"module/{name}") or {})["status"]["seen"]["digest"]

    await say("two")
    await installation.status(f"module/{name}", lambda status: status["seen"]["digest"] != digest)
    await installation.ready(f"module/{name}")
    assert (await greeting(installation, name))["greeting"] == "two"


async def test_a_modules_name_is_its_packages(installation: Installation, name: str) -> None:
    with pytest.raises(PermanentError, match=r"metadata\.name must be spec\.package\.name"):
        await installation.apply(
            {
                "apiVersion": API_VERSION,
                "kind": "Module",
                "metadata": {"name": name},
                "spec": {"package": {"repository": "any", "name": "other", "version": "1.0.0"}},
            }
        )


async def test_an_application_cannot_install_a_module_nor_the_other_way_round(
    installation: Installation, tmp_path: Path, name: str
) -> None:
    write_module(tmp_path / "packages", name, "1.0.0")
    installation.start()
    await installation.application("one", name, "1.0.0")
    obj = await installation.status("one", lambda status: status.get("failure"))
    assert obj["status"]["failure"]["reason"] == "LoadFailed"
    assert "the package is of type Module, the object of kind Application" in obj["status"]["failure"]["message"]
