"""What happens when somebody else deletes or changes the objects of a release."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from support.installation import Installation, condition, write_greeter, write_package
from support.running import application_ref, events, keep, revisions, shown
from support.waiting import eventually
from windlass.ports.kube import Object, ObjectRef

DEPLOYMENT = """\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ .Release.Name }}
spec:
  {{- if .Values.replicas }}
  replicas: {{ .Values.replicas }}
  {{- end }}
  selector:
    matchLabels: {app: web}
  template:
    metadata:
      labels: {app: web}
    spec:
      containers:
        - name: web
          image: example.com/web:1
          resources:
            requests: {cpu: 1000m, memory: 0.5Gi}
          env:
            - {name: LEVEL, value: info}
            - {name: EMPTY, value: null}
          ports:
            - containerPort: 8080
"""

SERVICE = """\
apiVersion: v1
kind: Service
metadata:
  name: web
spec:
  selector: {app: web}
  ports:
    - {name: http, port: 80, targetPort: 8080}
---
apiVersion: v1
kind: Secret
metadata:
  name: web
stringData:
  password: swordfish-canary
"""

REPLICAS = {"replicas": {"type": "integer", "default": 0}}


def write_web(repository: Path, *versions: str) -> None:
    for version in versions:
        templates = {"deployment.yaml": DEPLOYMENT, "service.yaml": SERVICE}
        write_package(repository, "web", version, templates=templates, settings=REPLICAS)


def config_map(installation: Installation, name: str = "one") -> ObjectRef:
    return installation.ref("ConfigMap", name)


async def change(installation: Installation, ref: ObjectRef, patch: Any) -> None:
    assert await installation.kube.patch(ref, patch, kind="merge") is not None


async def in_sync(installation: Installation, name: str, reason: str, *, within: float = 40) -> Object:
    """Wait until the condition InSync has this reason."""

    async def reached() -> Object | None:
        obj = await installation.object(name)
        return obj if obj and condition(obj, "InSync")["reason"] == reason else None

    return await eventually(reached, within, what=f"InSync of {name}: {reason}")  # type: ignore[return-value]


def paths(obj: Object) -> list[str]:
    told: Object = obj["status"].get("drift") or {}
    return [f"{one['kind']} {one.get('path', '')} {one['change']}" for one in told.get("differences", [])]


async def test_deleted_objects_are_back(installation: Installation, tmp_path: Path) -> None:
    write_greeter(tmp_path / "packages", "1.0.0", hooks={})
    write_web(tmp_path / "packages", "1.0.0")
    installation.start()
    await installation.application("one", "greeter", "1.0.0")
    await installation.application("web", "web", "1.0.0")
    await installation.ready("one")
    await installation.ready("web")

    for ref in (config_map(installation), installation.ref("Deployment", "web", "apps/v1")):
        before = await installation.kube.get(ref)
        assert before is not None

        async def watched(ref: ObjectRef = ref) -> bool:
            # The monitor looks after a new revision within seconds; what is deleted before is found then.
            return await installation.kube.get(ref) is not None

        await installation.kube.delete(ref)
        await eventually(watched, what=f"{ref} is back")
    await installation.ready("one")
    assert await revisions(installation, "one") == ["superseded", "deployed"]
    assert "DriftDetected" in {one["reason"] for one in await events(installation, "one")}
    await keep(installation, "one", "drift-absent")


async def test_what_was_deleted_while_nobody_looked_is_back(installation: Installation, tmp_path: Path) -> None:
    write_greeter(tmp_path / "packages", "1.0.0")
    installation.start()
    await installation.application("one", "greeter", "1.0.0")
    await installation.ready("one")
    installation.kill()
    await installation.kube.delete(config_map(installation))
    installation.start()

    async def back() -> bool:
        return await shown(installation, "one") != {}

    await eventually(back, 60, what="the ConfigMap is back")


async def test_changes_are_told_of(installation: Installation, tmp_path: Path) -> None:
    write_web(tmp_path / "packages", "1.0.0")
    installation.start()
    await installation.application("web", "web", "1.0.0")
    await installation.ready("web")
    web = installation.ref("Deployment", "web", "apps/v1")
    container = {"name": "web", "env": [{"name": "LEVEL", "value": "debug"}], "image": "example.com/web:1"}
    await change(installation, web, {"spec": {"template": {"spec": {"containers": [container]}}, "replicas": 3}})
    obj = await in_sync(installation, "web", "DriftDetected")
    told = paths(obj)
    assert "Deployment /spec/template/spec/containers/0/env/0/value changed" in told
    assert not any("replicas" in one for one in told), "the chart says nothing of replicas"
    assert condition(obj, "Ready")["status"] == "True"

    secret = installation.ref("Secret", "web")
    await change(installation, secret, {"stringData": {"password": "another-canary"}})

    async def both() -> Object | None:
        obj = await installation.object("web")
        assert obj is not None
        return obj if "Secret /data/password changed" in paths(obj) else None

    obj = await eventually(both)
    assert obj is not None
    assert "canary" not in str(obj)
    assert await revisions(installation, "web") == ["deployed"]

    await change(installation, secret, {"stringData": {"password": "swordfish-canary"}})
    whole = [{**container, "env": [{"name": "LEVEL", "value": "info"}, {"name": "EMPTY"}]}]
    whole[0] |= {"resources": {"requests": {"cpu": "1", "memory": "512Mi"}}, "ports": [{"containerPort": 8080}]}
    await change(installation, web, {"spec": {"template": {"spec": {"containers": whole}}}})
    obj = await in_sync(installation, "web", "InSync")
    assert "drift" not in obj["status"]


async def test_changes_are_put_back(installation: Installation, tmp_path: Path) -> None:
    write_greeter(tmp_path / "packages", "1.0.0")
    installation.start()
    ignore = [{"target": {"kind": "ConfigMap"}, "paths": ["data.version"]}]
    await installation.application("one", "greeter", "1.0.0", drift={"mode": "correct", "ignore": ignore})
    await installation.ready("one")
    await change(installation, config_map(installation), {"data": {"greeting": "oops", "version": "9", "more": "x"}})

    async def back() -> bool:
        return (await shown(installation, "one"))["greeting"] == "hello"

    await eventually(back, what="the greeting is put back")
    assert await shown(installation, "one") == {"greeting": "hello", "version": "9", "more": "x"}
    assert await revisions(installation, "one") == ["deployed"], "a changed field takes no release"
    obj = await in_sync(installation, "one", "DriftCorrected")
    assert condition(obj, "InSync")["status"] == "True"
    await keep(installation, "one", "drift-corrected")


async def test_a_fight_over_a_field_is_given_up(installation: Installation, tmp_path: Path) -> None:
    write_web(tmp_path / "packages", "1.0.0")
    installation.start()
    await installation.application("web", "web", "1.0.0", settings={"replicas": 1}, drift={"mode": "correct"})
    await installation.ready("web")
    web = installation.ref("Deployment", "web", "apps/v1")
    scaled = 0

    async def fought() -> bool:
        nonlocal scaled
        found = await installation.kube.get(web)
        assert found is not None
        if found["spec"]["replicas"] == 1:
            scaled += 1
            await installation.kube.patch(web, {"spec": {"replicas": 5}}, kind="merge", subresource="scale")
        obj = await installation.object("web")
        return obj is not None and condition(obj, "InSync")["reason"] == "DriftFighting"

    await eventually(fought, 120, every=0.3, what="the fight is given up")
    obj = await installation.object("web")
    assert obj is not None
    assert "tests (scale)" in condition(obj, "InSync")["message"]
    assert scaled == 4, "put back three times, then left alone"


async def test_nothing_is_put_back_in_maintenance_or_while_paused(installation: Installation, tmp_path: Path) -> None:
    write_greeter(tmp_path / "packages", "1.0.0")
    installation.start()
    await installation.application("one", "greeter", "1.0.0", maintenance="NoResourceReconciliation")
    await installation.application("two", "greeter", "1.0.0")
    await installation.application("left", "greeter", "1.0.0", drift={"mode": "off"})
    for name in ("one", "two", "left"):
        await installation.ready(name)
    await installation.lifecycles.pause(installation.key("two"), installation.action())
    for name in ("one", "two", "left"):
        await installation.kube.delete(config_map(installation, name))
    obj = await in_sync(installation, "one", "DriftDetected")
    assert "maintenance" in condition(obj, "InSync")["message"]
    assert paths(obj) == ["ConfigMap  absent"]
    obj = await in_sync(installation, "two", "DriftDetected")
    assert "paused" in condition(obj, "InSync")["message"]
    for name in ("one", "two", "left"):
        assert await installation.kube.get(config_map(installation, name)) is None

    await installation.lifecycles.resume(installation.key("two"), installation.action())
    await change(installation, application_ref(installation, "one"), {"spec": {"maintenance": None}})

    async def back() -> bool:
        return bool(await shown(installation, "one")) and bool(await shown(installation, "two"))

    await eventually(back, what="both are back")
    assert await installation.kube.get(config_map(installation, "left")) is None
