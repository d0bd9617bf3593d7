"""The façades `Runtime` and `Operator`, used as a controller of packages uses them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from support.installation import CONFIG_MAP, GREETING, Installation, write_greeter, write_package
from support.running import packages, running, shown
from windlass.cli.context import Context
from windlass.devstack.stack import Stack
from windlass.domain.errors import PermanentError, Reason
from windlass.domain.ids import API_VERSION, INSTALLATION_LABEL, Kind
from windlass.domain.packages.model import Definition
from windlass.runtime import App, Instance, Module, Operator, Runtime

V1, V2 = Definition(name="greeter", version="1.0.0"), Definition(name="greeter", version="1.1.0")


@pytest.fixture(scope="module")
async def installation(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Installation]:
    """One running installation for all tests here; each has packages of its own."""
    async with running(stack, tmp_path_factory.mktemp("runtime")) as made:
        write_greeter(packages(made), "1.0.0", "1.1.0")
        yield made


@pytest.fixture
async def runtime(installation: Installation, tmp_path: Path) -> AsyncIterator[Runtime]:
    """As a program gets it, from the environment."""
    environ = {
        **installation.stack.env,
        "WINDLASS_INSTALLATION": installation.name,
        "WINDLASS_KEYRING_FILE": str(installation.folder / "keyring.yaml"),
        "WINDLASS_DIGEST_KEY_FILE": str(installation.folder / "digest-key"),
    }
    async with Context.find(tmp_path, environ).runtime() as made:
        yield made


async def test_an_application_is_installed_changed_and_removed(installation: Installation, runtime: Runtime) -> None:
    repository, id_ = f"repo-{installation.name}", f"{installation.namespace}.hello"
    app = App(name="hello", namespace=installation.namespace, definition=V1, settings={"greeting": "hi"})
    assert (await runtime.validate_settings(id_, {"anything": 1})).valid, "nothing is loaded yet"
    key = await runtime.update_app(repository, app)
    assert key == installation.key("hello")
    await installation.ready("hello", "1.0.0")
    assert await shown(installation, "hello") == {"version": "1.0.0", "greeting": "hi"}

    checked = await runtime.validate_settings(id_, {"greeting": "x" * 21, "other": 1})
    assert not checked.valid
    assert "settings.greeting" in checked.message
    assert "settings.other" in checked.message
    assert (await runtime.validate_settings(id_, {"greeting": "short"})).valid

    await runtime.update_app(repository, replace(app, definition=V2, settings={}))
    await installation.ready("hello", "1.1.0")
    assert await shown(installation, "hello") == {"version": "1.1.0", "greeting": "hello"}, "what is left out is gone"
    view = await runtime.status(id_)
    assert (view.phase, view.version) == ("Running", "1.1.0")
    generation = (await installation.ready("hello"))["metadata"]["generation"]
    await runtime.update_app(repository, replace(app, definition=V2, settings={}))
    assert (await installation.ready("hello"))["metadata"]["generation"] == generation, "the same is no change"

    dumped = yaml.safe_load(await runtime.dump())
    assert dumped["apps"][id_]["status"]["version"] == "1.1.0"
    assert dumped["modules"] == {}

    await runtime.remove_app(installation.namespace, "hello")
    await installation.gone("hello")
    assert await installation.release("hello") == {}
    await runtime.remove_app(installation.namespace, "hello")
    assert yaml.safe_load(await runtime.dump())["apps"] == {}


async def test_what_is_refused_says_which_field(installation: Installation, runtime: Runtime) -> None:
    app = App(name="bad", namespace=installation.namespace, definition=replace(V1, version="v1"))
    with pytest.raises(PermanentError, match="without a leading v"):
        await runtime.update_app(f"repo-{installation.name}", app)
    for name in ("", ".", "a.", ".b", "a.b.c"):
        with pytest.raises(PermanentError, match="no id of a package"):
            runtime.key(name)
    with pytest.raises(PermanentError, match="no running lifecycle") as caught:
        await runtime.status(f"{installation.namespace}.bad")
    assert caught.value.reason is Reason.PACKAGE_NOT_FOUND


async def test_another_installations_package_is_left_alone(installation: Installation, runtime: Runtime) -> None:
    await installation.apply(
        {
            "apiVersion": API_VERSION,
            "kind": "Application",
            "metadata": {
                "name": "theirs",
                "namespace": installation.namespace,
                "labels": {INSTALLATION_LABEL: "another"},
            },
            "spec": {"package": {"repository": f"repo-{installation.name}", "name": "greeter", "version": "1.0.0"}},
        }
    )
    app = App(name="theirs", namespace=installation.namespace, definition=V2)
    for action in (
        runtime.update_app(f"repo-{installation.name}", app),
        runtime.remove_app(installation.namespace, "theirs"),
    ):
        with pytest.raises(PermanentError, match="belongs to installation 'another'"):
            await action
    assert f"{installation.namespace}.theirs" not in await runtime.dumps(Kind.APPLICATION)


async def test_a_module_is_installed_and_removed(installation: Installation, runtime: Runtime) -> None:
    name = f"mod-{installation.name}"
    write_package(
        packages(installation),
        name,
        "1.0.0",
        templates={"config.yaml": CONFIG_MAP},
        settings=GREETING,
        kind=Kind.MODULE,
    )
    module = Module(name=name, definition=Definition(name=name, version="1.0.0"))
    await runtime.update_module(f"repo-{installation.name}", module)
    await installation.ready(f"module/{name}", "1.0.0")
    assert not (await runtime.validate_settings(name, {"greeting": 3})).valid
    assert yaml.safe_load(await runtime.dump())["modules"][name]["status"]["version"] == "1.0.0"
    await runtime.remove_module(name)
    await installation.gone(f"module/{name}")


async def test_the_older_operator_does_the_same_for_applications(installation: Installation, runtime: Runtime) -> None:
    operator = Operator(runtime)
    instance = Instance(name="older", namespace=installation.namespace, definition=V1, settings={"greeting": "hey"})
    await operator.update(f"repo-{installation.name}", instance)
    await installation.ready("older", "1.0.0")
    dumped = yaml.safe_load(await operator.dump())
    assert list(dumped) == ["packages"]
    found = dumped["packages"][f"{installation.namespace}.older"]
    assert (found["version"], found["name"]) == ("1.0.0", "older")
    await operator.remove(installation.namespace, "older")
    await installation.gone("older")
