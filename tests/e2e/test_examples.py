"""The packages and manifests under ``examples/`` really install, upgrade and go."""

from __future__ import annotations

from pathlib import Path

import yaml

from support.installation import Installation, condition
from support.waiting import eventually
from windlass.domain.ids import INSTALLATION_LABEL
from windlass.ports.kube import Object

EXAMPLES = Path(__file__).parents[2] / "examples"


async def apply_examples(installation: Installation) -> list[str]:
    """Apply the manifests as they are, but for this installation's own namespace and repository; return the names."""
    names: list[str] = []
    for file in sorted((EXAMPLES / "applications").glob("*.yaml")):
        obj: Object = yaml.safe_load(file.read_text())
        if obj["kind"] == "PackageRepository":
            await installation.repository(EXAMPLES / "packages")
        if obj["kind"] == "Application":
            obj["metadata"] |= {"namespace": installation.namespace, "labels": {INSTALLATION_LABEL: installation.name}}
            obj["spec"]["package"]["repository"] = f"repo-{installation.name}"
            await installation.apply(obj)
            names.append(obj["metadata"]["name"])
    return names


async def test_the_whole_story(installation: Installation) -> None:
    installation.start()
    names = await apply_examples(installation)
    assert names == ["cache", "web", "vault"]
    for name in names:
        await installation.ready(name, "1.0.0", within=60)
    namespace = installation.namespace

    deployment = await installation.get("Deployment", "web", "apps/v1")
    assert deployment is not None
    assert deployment["status"]["readyReplicas"] == 3
    assert deployment["spec"]["template"]["spec"]["containers"][0]["env"][0]["value"] == "cache:6379"

    key = await installation.get("Secret", "vault-vault-key")
    vault = await installation.get("Deployment", "vault", "apps/v1")
    address = await installation.get("ConfigMap", "vault-vault-address")
    assert key is not None
    assert vault is not None
    assert address is not None
    assert vault["spec"]["template"]["spec"]["volumes"][0]["secret"]["secretName"] == "vault-vault-key"
    assert address["data"] == {"address": f"http://vault.{namespace}.svc:8200", "sealed": "false"}

    web: Object = yaml.safe_load((EXAMPLES / "applications/30-web.yaml").read_text())
    settings = web["spec"]["settings"]
    await installation.application("web", "webapp", "1.1.0", settings={**settings, "theme": "sepia"})
    held = await installation.status("web", lambda status: status.get("failure"))
    assert "settings.theme" in condition(held, "SettingsValid")["message"]
    await installation.application("web", "webapp", "1.1.0", settings={**settings, "theme": "dark"})
    await installation.ready("web", "1.1.0", within=60)
    page = await installation.get("ConfigMap", "web")
    assert page is not None
    assert "#111" in page["data"]["theme.css"]

    await installation.application("vault", "vault", "1.0.0", settings={"replicas": 2})
    await installation.ready("vault", within=60)
    after = await installation.get("Secret", "vault-vault-key")
    assert after is not None
    assert after["data"] == key["data"], "another run of the hook keeps the first key"

    for name in names:
        await installation.delete(name)
    for name in names:
        await installation.gone(name, within=60)

    async def left() -> list[str]:
        found: list[str] = []
        for api_version, kind in (("v1", "Secret"), ("v1", "ConfigMap"), ("v1", "Service"), ("apps/v1", "Deployment")):
            listed = await installation.kube.list(api_version, kind, namespace=namespace)
            found += [f"{kind}/{item['metadata']['name']}" for item in listed.items]
        return [one for one in found if one != "ConfigMap/kube-root-ca.crt"]

    async def nothing_left() -> bool:
        return not await left()

    await eventually(nothing_left, what="what packages and hooks made is gone")
