"""Modules on the real stack: cluster-wide packages under their own name, in namespace windlass-modules."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import yaml

from support.installation import CONFIG_MAP, GREETING, Installation, condition, write_package
from support.running import keep
from windlass.domain.errors import PermanentError
from windlass.domain.ids import API_VERSION, FINALIZER, MODULES_NAMESPACE, Kind
from windlass.domain.settings.values import camel_key
from windlass.ports.kube import Object, ObjectRef

EXAMPLES = Path(__file__).parents[2] / "examples"


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
    ref = ObjectRef(api_version="v1", kind="ConfigMap", namespace=MODULES_NAMESPACE, name=name)
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
    assert obj["status"]["release"] == {"name": name, "namespace": MODULES_NAMESPACE, "revision": 1}
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
    await keep(installation, module, "module")
    assert await greeting(installation, name) == {}
    assert await installation.release(module) == {}
    assert await installation.record(module) is None


async def test_settings_come_from_the_modules_namespace_and_are_watched(
    installation: Installation, tmp_path: Path, name: str
) -> None:
    write_module(tmp_path / "packages", name, "1.0.0")

    async def say(word: str) -> None:
        await installation.apply(
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": f"{name}-settings", "namespace": MODULES_NAMESPACE},
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


CLUSTER_WIDE_HOOK = """#!/bin/sh
if [ "$1" = --config ]; then echo 'configVersion: v1
beforeHelm: 1
afterDeleteHelm: 1'; exit 0; fi
if grep -q afterDeleteHelm "$BINDING_CONTEXT_PATH"; then
  echo '{"operation": "Delete", "kind": "Namespace", "name": "NAME"}' > "$KUBERNETES_PATCH_PATH"
  exit 0
fi
cat > "$KUBERNETES_PATCH_PATH" <<'EOF'
{"operation": "CreateIfNotExists", "object": {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "NAME"}}}
{"operation": "CreateOrUpdate", "object": {"apiVersion": "v1", "kind": "ConfigMap",
  "metadata": {"name": "from-a-hook", "namespace": "NAME"}, "data": {"count": "1"}}}
{"operation": "JQPatch", "kind": "ConfigMap", "namespace": "NAME", "name": "from-a-hook",
  "jqFilter": ".data.count |= (tonumber + 1 | tostring)"}
EOF
echo '{"name": "rounds", "add": 1}' > "$METRICS_PATH"
"""


@pytest.fixture
async def limited(installation: Installation, name: str) -> AsyncIterator[str]:
    """A service account of Modules without any right."""
    ref = ObjectRef(api_version="v1", kind="ServiceAccount", namespace=MODULES_NAMESPACE, name=f"{name}-limited")
    await installation.kube.create(
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": ref.name, "namespace": ref.namespace}}
    )
    yield ref.name
    await installation.kube.delete(ref)


async def test_a_modules_hooks_act_on_the_whole_cluster(installation: Installation, tmp_path: Path, name: str) -> None:
    script = CLUSTER_WIDE_HOOK.replace("NAME", f"{name}-space")
    write_module(tmp_path / "packages", name, "1.0.0", hooks={"spaces.sh": script})
    installation.start()
    await installation.module(name, "1.0.0")
    await installation.ready(f"module/{name}")

    made = ObjectRef(api_version="v1", kind="ConfigMap", namespace=f"{name}-space", name="from-a-hook")
    found = await installation.kube.get(made)
    assert found is not None
    assert found["data"] == {"count": "2"}

    await installation.delete(f"module/{name}")
    await installation.gone(f"module/{name}")
    assert await installation.kube.get(made) is None


async def test_a_modules_hooks_may_do_what_its_account_may(
    installation: Installation, tmp_path: Path, name: str, limited: str
) -> None:
    write_module(
        tmp_path / "packages", name, "1.0.0", hooks={"spaces.sh": CLUSTER_WIDE_HOOK.replace("NAME", f"{name}-space")}
    )
    installation.start()
    await installation.module(name, "1.0.0", target={"serviceAccountName": limited})
    obj = await installation.status(f"module/{name}", lambda status: status.get("failure"))
    assert obj["status"]["failure"]["reason"] == "BeforeHelmHooksFailed"
    assert "forbidden" in obj["status"]["failure"]["message"].lower()


LEGACY_TEMPLATE = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}
data:
  scoped: {{ .Values.KEY.greeting | quote }}
  flat: {{ .Values.greeting | quote }}
  static: {{ .Values.KEY.static | quote }}
"""
ENABLED = """#!/bin/sh
if grep -q '"greeting": "off"' "$VALUES_PATH"; then
  echo false > "$MODULE_ENABLED_RESULT"; echo 'greeting is off' > "$MODULE_ENABLED_REASON"
else
  echo true > "$MODULE_ENABLED_RESULT"
fi
"""


def write_legacy(repository: Path, name: str) -> None:
    key = camel_key(name)
    files = {
        "module.yaml": f"name: {name}\nweight: 10\nrequirements: {{kubernetes: '>=1.20'}}\n",
        "values.yaml": f"{key}:\n  static: there\n  greeting: hello\n{key}Enabled: true\n",
        "openapi/config-values.yaml": "type: object\nproperties: {greeting: {type: string}}\n",
        "openapi/conversions/v2.yaml": "version: 2\nconversions: ['.greeting = .hello', 'del(.hello)']\n",
        "templates/config.yaml": LEGACY_TEMPLATE.replace("KEY", key),
        "enabled": ENABLED,
    }
    for file, text in files.items():
        path = repository / name / "1.0.0" / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (repository / name / "1.0.0" / "enabled").chmod(0o755)


async def test_a_legacy_module_with_conversions_and_a_script(
    installation: Installation, tmp_path: Path, name: str
) -> None:
    module = f"module/{name}"
    write_legacy(tmp_path / "packages", name)
    installation.start()

    await installation.module(name, "1.0.0", settings={"hello": "hi"}, settingsVersion=1)
    await installation.ready(module, "1.0.0")
    assert await greeting(installation, name) == {"scoped": "hi", "flat": "hi", "static": "there"}

    await installation.module(name, "1.0.0", settings={"greeting": "off"}, deleteOnDisable=True)
    obj = await installation.status(module, lambda status: status.get("step") == "Disabled")
    assert obj["status"]["phase"] == "Disabled"
    ready = condition(obj, "Ready")
    assert (ready["status"], ready["reason"], ready["message"]) == ("False", "DisabledByScript", "greeting is off")
    assert await greeting(installation, name) == {}

    await installation.module(name, "1.0.0", settings={"greeting": "on"}, settingsVersion=2)
    await installation.ready(module)
    assert (await greeting(installation, name))["scoped"] == "on"

    await installation.module(name, "1.0.0", settings={"greeting": "on"}, settingsVersion=3)
    obj = await installation.status(module, lambda status: status.get("failure"))
    assert "spec.settingsVersion: 3 is not known, this package's newest is 2" in obj["status"]["failure"]["message"]

    await installation.delete(module)
    await installation.gone(module)
    await keep(installation, module, "disabled-by-script")
    assert await greeting(installation, name) == {}


async def test_the_example(installation: Installation) -> None:
    obj: Object = yaml.safe_load((EXAMPLES / "modules/notice.yaml").read_text())
    await installation.repository(EXAMPLES / "packages")
    installation.start()
    spec = {key: value for key, value in obj["spec"].items() if key != "package"}
    await installation.module("notice", "1.0.0", **spec)
    await installation.ready("module/notice", "1.0.0")
    assert await greeting(installation, "notice") == {"text": spec["settings"]["text"], "level": "warning"}

    await installation.module("notice", "1.0.0", settings={"text": "off"}, deleteOnDisable=True)
    await installation.status("module/notice", lambda status: status.get("step") == "Disabled")
    assert await greeting(installation, "notice") == {}

    await installation.delete("module/notice")
    await installation.gone("module/notice")
