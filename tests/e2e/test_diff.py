"""`windlass diff`: wanted against live and against the last release."""

from __future__ import annotations

import json
from pathlib import Path

from support.command import windlass
from support.installation import Installation, write_package

TEMPLATES = {
    "config.yaml": """\
apiVersion: v1
kind: ConfigMap
metadata: {name: web}
data: {greeting: {{ .Values.greeting | quote }}}
""",
    "secret.yaml": """\
apiVersion: v1
kind: Secret
metadata: {name: web}
stringData: {password: swordfish-canary}
""",
}


async def cli(installation: Installation, *arguments: str) -> tuple[int, str, str]:
    ran = await windlass(installation, *arguments, "-n", installation.namespace)
    return ran.code, ran.out, ran.err


async def test_diff(installation: Installation, tmp_path: Path) -> None:
    settings = {"greeting": {"type": "string", "default": "hello"}}
    write_package(tmp_path / "packages", "web", "1.0.0", templates=TEMPLATES, settings=settings)
    more = {**TEMPLATES, "more.yaml": TEMPLATES["config.yaml"].replace("web", "more")}
    write_package(tmp_path / "packages", "web", "1.1.0", templates=more, settings=settings)
    installation.start()
    await installation.application("web", "web", "1.0.0", drift={"mode": "detect"})
    await installation.ready("web")

    for against in ("live", "release"):
        code, out, err = await cli(installation, "diff", "web", "--against", against)
        assert (code, out, err) == (0, "", "")

    patch = {"data": {"greeting": "oops"}}
    await installation.kube.patch(installation.ref("ConfigMap", "web"), patch, kind="merge")
    patch = {"stringData": {"password": "another-canary"}}
    await installation.kube.patch(installation.ref("Secret", "web"), patch, kind="merge")
    code, out, err = await cli(installation, "diff", "web")
    assert (code, err) == (1, "")
    assert "-  greeting: oops" in out
    assert "+  greeting: hello" in out
    assert "+  password: hash " in out
    assert "canary" not in out
    code, out, _ = await cli(installation, "diff", "web", "--against", "release")
    assert (code, out) == (0, "")

    await installation.lifecycles.pause(installation.key("web"), installation.action())
    await installation.application("web", "web", "1.1.0", settings={"greeting": "hi"})
    code, out, _ = await cli(installation, "diff", "web", "--against", "release", "-o", "json")
    assert code == 1
    assert {(one["kind"], one["name"]): one["change"] for one in json.loads(out)} == {
        ("ConfigMap", "web"): "changed",
        ("ConfigMap", "more"): "created",
    }

    code, out, err = await cli(installation, "diff", "absent")
    assert (code, out) == (2, "")
    assert "there is no Application 'absent'" in err
