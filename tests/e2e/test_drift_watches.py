"""As whom the objects of releases are watched on a real API server, and what the condition InSync says of it."""

from __future__ import annotations

import json
from pathlib import Path

from support import rights
from support.installation import CONFIG_MAP, Installation, condition, write_package
from support.waiting import eventually
from windlass.ports.kube import Object

LEASE = """
apiVersion: coordination.k8s.io/v1
kind: Lease
metadata: {name: {{ .Release.Name }}}
---
apiVersion: v1
kind: Secret
metadata: {name: {{ .Release.Name }}}
stringData: {key: value}
"""


async def limited(installation: Installation, *verbs: str) -> None:
    """Bind an account that may do to Leases what ``verbs`` say, and everything to ConfigMaps and Secrets."""
    namespace = installation.namespace
    rules = [
        {"apiGroups": [""], "resources": ["configmaps", "secrets"], "verbs": ["*"]},
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": list(verbs)},
    ]
    await installation.apply(rights.plain("Role", namespace, "limited", api_version=rights.RBAC, rules=rules))
    binding = rights.binding(namespace, "limited", "limited", name="limited")
    binding["roleRef"]["kind"] = "Role"
    await installation.apply(binding)


def refused_kinds(installation: Installation) -> set[str]:
    """Return the kinds of which the worker says that a watch was refused."""
    lines = [json.loads(line) for line in installation.log.read_text().splitlines() if '"watch refused"' in line]
    return {line["kind"] for line in lines}


async def said(installation: Installation, name: str, text: str) -> Object:
    """Wait until the condition InSync is True and says this."""

    async def found() -> Object | None:
        obj = await installation.object(name)
        in_sync = condition(obj or {}, "InSync")
        return obj if in_sync["status"] == "True" and text in in_sync["message"] else None

    return await eventually(found, 90, what=f"InSync: {text}")  # type: ignore[return-value]


async def test_what_may_not_be_watched_is_told_until_it_may(installation: Installation, tmp_path: Path) -> None:
    await installation.apply(rights.plain("ServiceAccount", installation.namespace, "limited"))
    await limited(installation, "get", "create", "patch", "delete")
    write_package(tmp_path / "packages", "web", "1.0.0", templates={"a.yaml": CONFIG_MAP, "b.yaml": LEASE})
    installation.start()
    # Waiting for readiness would need the right to watch, too.
    await installation.application("web", "web", "1.0.0", wait=False, target={"serviceAccountName": "limited"})
    await installation.ready("web")
    obj = await said(installation, "web", "Lease: compared every 10 min")
    message = condition(obj, "InSync")["message"]
    assert f"service account limited in {installation.namespace} may not watch them" in message
    assert "Secret" not in message
    assert refused_kinds(installation) == {"Lease"}, "the reader watches ConfigMaps, the account Secrets"
    assert obj["status"]["drift"] == {"total": 0, "digest": "", "differences": [], "unwatched": message}

    await limited(installation, "get", "create", "patch", "delete", "list", "watch")
    obj = await said(installation, "web", "changes are watched")
    assert "drift" not in obj["status"]
    await installation.kube.delete(installation.ref("Lease", "web", "coordination.k8s.io/v1"))
    await eventually(lambda: installation.get("Lease", "web", "coordination.k8s.io/v1"), what="the Lease is back")
