from __future__ import annotations

import base64
import json
import stat
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web

from support.scripted_api import ScriptedApi, answer
from windlass.adapters.kube import kubeconfig
from windlass.adapters.kube.client import KubeClient
from windlass.adapters.kube.kubeconfig import ApiAccess
from windlass.domain.errors import Actor, PermanentError, Reason
from windlass.ports.kube import ObjectRef

REF = ObjectRef(api_version="v1", kind="ConfigMap", namespace="shop", name="it")


def document(*, name: str = "it", cluster: dict[str, Any] | None = None, user: dict[str, Any] | None = None) -> str:
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": name,
            "contexts": [{"name": name, "context": {"cluster": name, "user": name, "namespace": "shop"}}],
            "clusters": [{"name": name, "cluster": {"server": f"https://{name}:6443/", **(cluster or {})}}],
            "users": [{"name": name, "user": user or {}}],
        }
    )


def test_text_and_file_with_relative_paths(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("CA")
    text = document(
        cluster={"certificate-authority": "ca.pem", "tls-server-name": "api", "proxy-url": "http://p"},
        user={"client-certificate-data": base64.b64encode(b"CERT").decode(), "tokenFile": "token"},
    )
    (tmp_path / "config").write_text(text)
    assert kubeconfig.read(tmp_path / "config") == ApiAccess(
        server="https://it:6443",
        ca_pem="CA",
        certificate_pem="CERT",
        token_file=str(tmp_path / "token"),
        server_name="api",
        proxy="http://p",
        namespace="shop",
    )
    assert kubeconfig.read(document(user={"token": "t"})).token == "t"


def test_several_files_as_kubectl_reads_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("first", "second"):
        (tmp_path / name).write_text(document(name=name))
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path}/absent:{tmp_path}/first:{tmp_path}/second")
    assert kubeconfig.read().server == "https://first:6443"
    assert kubeconfig.read(context="second").server == "https://second:6443"


def test_inside_a_pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ca.crt", "token", "namespace"):
        (tmp_path / name).write_text(name)
    monkeypatch.setattr(kubeconfig, "SERVICE_ACCOUNT", tmp_path)
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(PermanentError, match="not inside a pod"):
        kubeconfig.read()
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    access = kubeconfig.read()
    assert (access.server, access.ca_pem, access.token_file) == ("https://[fd00::1]:443", "ca.crt", f"{tmp_path}/token")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a: [canary\n", "not YAML: line 2"),
        ("- canary\n", "not a mapping"),
        ("{}\n", "no context named ''"),
        (document().replace("current-context: it", "current-context: other"), "no context named 'other'"),
        (document(cluster={"server": ""}), "no server URL"),
        (document(user={"client-key-data": "canary%"}), "client-key-data is not base64"),
        (document(user={"client-key": "/nowhere/canary.key"}), "cannot read /nowhere"),
    ],
)
def test_what_is_wrong_is_named(text: str, told: str) -> None:
    with pytest.raises(PermanentError) as caught:
        kubeconfig.read(text)
    assert told in caught.value.message
    assert caught.value.actor is Actor.ADMIN
    assert "canary" not in caught.value.message.replace("/nowhere/canary.key", "")


def test_secrets_stay_out_of_repr() -> None:
    access = kubeconfig.read(document(user={"token": "canary", "password": "canary", "exec": {"env": "canary"}}))
    assert "canary" not in repr(access)


async def test_certificates_that_are_none() -> None:
    bad = base64.b64encode(b"-----BEGIN CERTIFICATE-----\ncanary\n-----END CERTIFICATE-----\n").decode()
    client = KubeClient.from_kubeconfig(document(cluster={"certificate-authority-data": bad}))
    with pytest.raises(PermanentError, match="certificates") as caught:
        async with client:
            pass
    assert "canary" not in str(caught.value)


def with_user(api: ScriptedApi, user: dict[str, Any]) -> KubeClient:
    parsed = json.loads(api.kubeconfig)
    parsed["users"][0]["user"] = user
    return KubeClient.from_kubeconfig(json.dumps(parsed))


async def seen_by(api: ScriptedApi, user: dict[str, Any]) -> str:
    api.script = [answer({"metadata": {}})]
    async with with_user(api, user) as kube:
        await kube.get(REF)
    return api.requests[-1].headers["Authorization"]


async def test_token_password_and_token_file(api: ScriptedApi, tmp_path: Path) -> None:
    assert await seen_by(api, {"token": "abc"}) == "Bearer abc"
    basic = base64.b64encode(b"me:pass").decode()
    assert await seen_by(api, {"username": "me", "password": "pass"}) == f"Basic {basic}"
    (tmp_path / "token").write_text("first\n")
    assert await seen_by(api, {"tokenFile": str(tmp_path / "token")}) == "Bearer first"
    with pytest.raises(PermanentError, match="cannot read the token file") as caught:
        await seen_by(api, {"tokenFile": str(tmp_path / "absent")})
    assert caught.value.reason is Reason.FORBIDDEN


async def test_a_refused_token_file_is_read_again(api: ScriptedApi, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("old")

    async def refuse(_request: web.Request) -> web.StreamResponse:
        token.write_text("new")
        return web.json_response({"kind": "Status"}, status=401)

    api.script = [refuse, answer({"metadata": {}})]
    async with with_user(api, {"tokenFile": str(token)}) as kube:
        await kube.get(REF)
    assert [request.headers["Authorization"] for request in api.requests] == ["Bearer old", "Bearer new"]


def plugin(path: Path, body: str) -> dict[str, Any]:
    path.write_text(f"#!{sys.executable}\n{body}")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": str(path), "interactiveMode": "Never"}}


async def test_a_plugin_is_asked_and_asked_again_when_refused(api: ScriptedApi, tmp_path: Path) -> None:
    count = tmp_path / "count"
    body = f"""
import json, pathlib
count = pathlib.Path({str(count)!r})
n = int(count.read_text()) + 1 if count.exists() else 1
count.write_text(str(n))
print(json.dumps({{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",
                  "status": {{"token": f"token-{{n}}"}}}}))
"""
    api.script = [answer({"metadata": {}}), answer({"kind": "Status"}, 401), answer({"metadata": {}})]
    async with with_user(api, plugin(tmp_path / "plugin", body)) as kube:
        await kube.get(REF)
        await kube.get(REF)
    sent = [request.headers["Authorization"] for request in api.requests]
    assert sent == ["Bearer token-1", "Bearer token-1", "Bearer token-2"]


async def test_a_plugin_that_fails(api: ScriptedApi, tmp_path: Path) -> None:
    user = plugin(tmp_path / "plugin", "import sys; sys.exit('canary')")
    async with with_user(api, user) as kube:
        with pytest.raises(PermanentError, match="credential plugin") as caught:
            await kube.get(REF)
    assert "canary" not in str(caught.value)
    assert caught.value.reason is Reason.FORBIDDEN
