"""Where settings come from, how they are layered and checked, and that a change of any source is a new release."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import yaml

from support.installation import Installation, condition, write_package
from support.running import keep, packages, revisions, running
from support.waiting import eventually
from windlass.devstack.stack import Stack
from windlass.ports.kube import Object

# The whole values tree as the chart sees it.
SHOW = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}
data:
  values: {{ omit .Values "global" | toJson | quote }}
"""

SETTINGS: Object = {
    "type": "object",
    "properties": {
        "greeting": {"type": "string", "default": "of the settings schema", "maxLength": 40},
        "replicas": {"type": "integer", "minimum": 1, "maximum": 3, "default": 1},
        "mode": {"type": "string", "enum": ["fast", "safe"]},
        "login": {"type": "object", "properties": {"user": {"type": "string"}, "token": {"type": "string"}}},
        "ports": {"type": "array", "items": {"$ref": "#/definitions/port"}},
    },
    "definitions": {"port": {"type": "integer", "minimum": 1, "maximum": 65535}},
}


@pytest.fixture(scope="module")
async def installation(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Installation]:
    """One running installation for all tests here; each has an Application of its own."""
    async with running(stack, tmp_path_factory.mktemp("settings")) as made:
        write_package(packages(made), "shown", "1.0.0", templates={"show.yaml": SHOW}, extra=_schemas(SETTINGS))
        yield made


def _schemas(settings: Object, values: Object | None = None) -> dict[str, str]:
    files = {"openapi/settings.yaml": yaml.safe_dump(settings)}
    return files if values is None else {**files, "openapi/values.yaml": yaml.safe_dump(values)}


async def values(installation: Installation, name: str) -> Object:
    """Return the values that the chart saw."""
    found = await installation.get("ConfigMap", name)
    return json.loads(found["data"]["values"]) if found else {}


async def source(installation: Installation, kind: str, name: str, **data: str) -> None:
    """Write a ConfigMap or Secret."""
    texts = {key.replace("_", "."): text for key, text in data.items()}
    if kind == "Secret":
        texts = {key: base64.b64encode(text.encode()).decode() for key, text in texts.items()}
    await installation.apply(
        {
            "apiVersion": "v1",
            "kind": kind,
            "metadata": {"name": name, "namespace": installation.namespace},
            "data": texts,
        }
    )


async def released(installation: Installation, name: str, **expected: Any) -> None:
    """Wait until the chart has seen these values; by itself the watcher would look again after ten minutes only."""

    async def there() -> bool:
        seen = await values(installation, name)
        return all(seen.get(key) == value for key, value in expected.items())

    await eventually(there, what=f"{name} is released with {expected}")


async def test_settings_come_from_config_maps_and_secrets_and_follow_them(installation: Installation) -> None:
    await source(installation, "ConfigMap", "base", values_yaml="greeting: of the map\nreplicas: 2\n")
    await source(installation, "Secret", "login", values_yaml="login: {user: me}\nreplicas: 3\n", token="t-1")
    await installation.application(
        "sources",
        "shown",
        "1.0.0",
        settings={"mode": "safe"},
        valuesFrom=[
            {"kind": "ConfigMap", "name": "base"},
            {"kind": "Secret", "name": "login"},
            {"kind": "Secret", "name": "login", "key": "token", "targetPath": "login.token"},
        ],
    )
    await installation.ready("sources")
    assert await values(installation, "sources") == {
        "greeting": "of the map",
        "replicas": 3,
        "mode": "safe",
        "login": {"user": "me", "token": "t-1"},
    }, "later sources win over earlier ones, what stands in the object wins over all"

    await source(installation, "Secret", "login", values_yaml="login: {user: you}\n", token="t-2")
    await released(installation, "sources", login={"user": "you", "token": "t-2"}, replicas=2)
    await source(installation, "ConfigMap", "base", values_yaml="greeting: changed\n")
    await released(installation, "sources", greeting="changed", replicas=1)
    obj = await installation.ready("sources")
    assert obj["metadata"]["generation"] == 1, "nobody touched the object"
    assert len(await revisions(installation, "sources")) == 3


async def test_a_missing_source_is_told_and_heals_when_it_appears(installation: Installation) -> None:
    await installation.application(
        "missing",
        "shown",
        "1.0.0",
        valuesFrom=[
            {"kind": "Secret", "name": "later"},
            {"kind": "ConfigMap", "name": "never", "optional": True},
        ],
    )
    obj = await installation.status("missing", lambda status: status.get("failure"))
    told = condition(obj, "SettingsValid")
    assert (told["status"], told["reason"]) == ("False", "ValuesSourceNotFound")
    assert "Secret later, key values.yaml" in told["message"]
    assert await revisions(installation, "missing") == []

    await source(installation, "Secret", "later", values_yaml="greeting: at last\n")
    await released(installation, "missing", greeting="at last")
    obj = await installation.ready("missing")
    assert "failure" not in obj["status"]

    await source(installation, "ConfigMap", "never", values_yaml="replicas: 2\n")
    await released(installation, "missing", replicas=2)


async def test_a_source_that_goes_away_leaves_the_release(installation: Installation) -> None:
    await source(installation, "ConfigMap", "leaving", values_yaml="greeting: still here\n")
    await installation.application("orphan", "shown", "1.0.0", valuesFrom=[{"kind": "ConfigMap", "name": "leaving"}])
    await installation.ready("orphan")
    await installation.kube.delete(installation.ref("ConfigMap", "leaving"))
    obj = await installation.status("orphan", lambda status: status.get("failure"))
    assert condition(obj, "SettingsValid")["reason"] == "ValuesSourceNotFound"
    assert (await values(installation, "orphan"))["greeting"] == "still here"
    assert await revisions(installation, "orphan") == ["deployed"]


async def test_values_are_layered_in_order(installation: Installation) -> None:
    schema: Object = {
        "type": "object",
        "properties": {name: {"type": "string", "default": "settings schema"} for name in ("b", "c")}
        | {"c": {"type": "string", "default": "settings schema"}, "fromUser": {"type": "string"}},
    }
    whole: Object = {
        "type": "object",
        "x-extend": {"schema": "settings.yaml"},
        "properties": {
            "a": {"type": "string"},
            "d": {"type": "string", "default": "values schema"},
            "fromUser": {"type": "string", "default": "values schema"},
        },
    }
    write_package(
        packages(installation),
        "layers",
        "1.0.0",
        templates={"show.yaml": SHOW},
        values={"a": "static", "b": "static", "c": "static"},
        extra=_schemas(schema, whole),
    )
    await installation.application("layers", "layers", "1.0.0", settings={"c": "user"})
    await installation.ready("layers")
    assert await values(installation, "layers") == {
        "a": "static",
        "b": "settings schema",
        "c": "user",
        "d": "values schema",
        "fromUser": "values schema",
    }


async def test_values_required_for_helm_must_be_there_before_helm(installation: Installation) -> None:
    whole: Object = {
        "type": "object",
        "x-extend": {"schema": "settings.yaml"},
        "x-required-for-helm": ["address"],
        "properties": {"address": {"type": "string"}},
    }
    write_package(
        packages(installation),
        "needy",
        "1.0.0",
        templates={"show.yaml": SHOW},
        extra=_schemas({"type": "object", "properties": {"greeting": {"type": "string"}}}, whole),
    )
    await installation.application("needy", "needy", "1.0.0", settings={"greeting": "hi"})
    obj = await installation.status("needy", lambda status: status.get("failure"))
    failure = obj["status"]["failure"]
    assert failure["step"] == "UpgradeRelease"
    assert "values.address" in failure["message"]
    assert condition(obj, "SettingsValid")["status"] == "True", "the settings are not to blame"
    assert await revisions(installation, "needy") == []


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"replicas": 9}, ("settings.replicas", "9", "3")),
        ({"mode": "reckless"}, ("settings.mode", "reckless", "fast", "safe")),
        ({"ports": [80, 70000]}, ("settings.ports[1]", "70000", "65535")),
        ({"repliacs": 2}, ("repliacs", "replicas")),
    ],
    ids=["bound", "enumeration", "reference", "unknown-key"],
)
async def test_invalid_settings_say_where_what_and_what_is_allowed(
    installation: Installation, settings: Object, said: tuple[str, ...]
) -> None:
    name = f"invalid-{next(iter(settings))}"
    await installation.application(name, "shown", "1.0.0", settings={"greeting": "good"})
    await installation.ready(name)
    before = await values(installation, name)

    await installation.application(name, "shown", "1.0.0", settings=settings)
    obj = await installation.status(name, lambda status: status.get("failure"))
    told = condition(obj, "SettingsValid")
    assert (told["status"], told["reason"]) == ("False", "ValidationFailed")
    for word in said:
        assert word in told["message"]
    assert condition(obj, "Ready")["status"] == "False"
    assert condition(obj, "HelmApplied")["status"] == "True", "the running release stays"
    assert await values(installation, name) == before
    assert await revisions(installation, name) == ["deployed"]

    await installation.application(name, "shown", "1.0.0", settings={"replicas": 2})
    await installation.ready(name)
    assert (await values(installation, name))["replicas"] == 2
    await keep(installation, name, "invalid-settings-and-fix")


async def test_what_came_from_a_secret_is_never_told(installation: Installation) -> None:
    await source(installation, "Secret", "hidden", values_yaml="mode: hunter2\n", broken="greeting: [hunter3")
    await installation.application("hidden", "shown", "1.0.0", valuesFrom=[{"kind": "Secret", "name": "hidden"}])
    obj = await installation.status("hidden", lambda status: status.get("failure"))
    assert "settings.mode" in condition(obj, "SettingsValid")["message"]
    assert "hunter2" not in json.dumps(obj)

    await installation.application(
        "hidden", "shown", "1.0.0", valuesFrom=[{"kind": "Secret", "name": "hidden", "key": "broken"}]
    )
    obj = await installation.status("hidden", lambda status: "broken" in status.get("failure", {}).get("message", ""))
    assert "is not YAML" in condition(obj, "SettingsValid")["message"]
    assert "hunter" not in json.dumps(obj["status"])


async def test_settings_for_a_package_without_a_schema_are_refused(installation: Installation) -> None:
    write_package(packages(installation), "plain", "1.0.0", templates={"show.yaml": SHOW})
    await installation.application("plain", "plain", "1.0.0", settings={"anything": 1})
    obj = await installation.status("plain", lambda status: status.get("failure"))
    assert "takes no settings" in condition(obj, "SettingsValid")["message"]
