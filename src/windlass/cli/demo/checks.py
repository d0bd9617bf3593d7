"""What the demo wants to see in the cluster: each function returns a look for `Stage.check`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from windlass.cli.cluster import condition
from windlass.cli.demo.stage import Finding, Look, Stage
from windlass.ports.kube import ObjectRef

LEFT_BEHIND = (
    ("apps/v1", "Deployment"),
    ("apps/v1", "StatefulSet"),
    ("v1", "Service"),
    ("v1", "ConfigMap"),
    ("v1", "Secret"),
)
OF_THE_CLUSTER = "kube-root-ca.crt"
"""The ConfigMap that Kubernetes itself puts into every namespace."""


async def _get(stage: Stage, api_version: str, kind: str, name: str) -> dict[str, Any] | None:
    ref = ObjectRef(api_version=api_version, kind=kind, namespace=stage.place.namespace, name=name)
    return await stage.place.kube.get(ref)


def workload(stage: Stage, kind: str, name: str, *, replicas: int, version: str) -> Look:
    """Look for a Deployment or StatefulSet whose pods are all of this package version, and ready."""

    async def look() -> Finding:
        obj = await _get(stage, "apps/v1", kind, name)
        if obj is None:
            return Finding(good=False, seen="does not exist")
        status: dict[str, Any] = obj.get("status") or {}
        ready, updated = status.get("readyReplicas", 0), status.get("updatedReplicas", 0)
        current = status.get("observedGeneration") == obj["metadata"]["generation"]
        of = obj["spec"]["template"]["metadata"]["labels"].get("app.kubernetes.io/version")
        good = current and of == version and ready == updated == status.get("replicas") == replicas
        return Finding(good=good, seen=f"{ready} of {obj['spec']['replicas']} pods ready, version {of}")

    return look


def environment(stage: Stage, deployment: str, name: str, value: str) -> Look:
    """Look for an environment variable of a Deployment's first container."""

    async def look() -> Finding:
        obj = await _get(stage, "apps/v1", "Deployment", deployment)
        variables: list[dict[str, str]] = []
        if obj is not None:
            variables = obj["spec"]["template"]["spec"]["containers"][0].get("env") or []
        found = {one["name"]: one.get("value") for one in variables}
        return Finding(good=found.get(name) == value, seen=f"{name}={found.get(name)}")

    return look


def mounts_secret(stage: Stage, deployment: str, secret: str) -> Look:
    """Look for a Secret that holds a key, and for a Deployment that mounts it."""

    async def look() -> Finding:
        obj = await _get(stage, "apps/v1", "Deployment", deployment)
        held = await _get(stage, "v1", "Secret", secret)
        volumes: list[dict[str, Any]] = obj["spec"]["template"]["spec"].get("volumes", []) if obj else []
        mounted: list[str] = [one["secret"]["secretName"] for one in volumes if "secret" in one]
        exists = bool(held and held.get("data"))
        return Finding(
            good=exists and secret in mounted,
            seen=f"the Secret {'exists' if exists else 'does not exist'}, mounted: {', '.join(mounted) or 'none'}",
        )

    return look


def data(stage: Stage, config_map: str, key: str, part: str) -> Look:
    """Look for a text in a ConfigMap."""

    async def look() -> Finding:
        obj = await _get(stage, "v1", "ConfigMap", config_map)
        text = cast("dict[str, str]", (obj or {}).get("data") or {}).get(key)
        return Finding(good=text is not None and part in text, seen="no such key" if text is None else text.strip())

    return look


def ready(stage: Stage, name: str, version: str) -> Look:
    """Look for an Application that is ready in this version, for the newest it says."""

    async def look() -> Finding:
        application = stage.applications.get(name)
        status = application.status if application else None
        if application is None or status is None:
            return Finding(good=False, seen="no status")
        is_ready, reason, message = condition(application, "Ready")
        caught_up = status.seen is not None and status.seen.generation == application.metadata.generation
        good = caught_up and is_ready == "True" and status.version == version
        return Finding(good=good, seen=f"version {status.version}, Ready={is_ready} {reason} {message}".strip())

    return look


def refused(stage: Stage, name: str, path: str) -> Look:
    """Look for settings that were refused, with the path of what is wrong."""

    async def look() -> Finding:
        application = stage.applications.get(name)
        if application is None:
            return Finding(good=False, seen="no Application")
        status, reason, message = condition(application, "SettingsValid")
        good = status == "False" and reason == "ValidationFailed" and path in message
        return Finding(good=good, seen=f"SettingsValid={status} {reason} {message}".strip())

    return look


def revision(stage: Stage, name: str, number: int) -> Look:
    """Look for this very revision as the newest one, and the only one deployed."""
    return _deployed(stage, name, lambda newest: newest == number)


def revision_after(stage: Stage, name: str, number: int) -> Look:
    """Look for a newer revision than this one, alone deployed; one that was interrupted stays in Helm's history."""
    return _deployed(stage, name, lambda newest: newest > number)


def _deployed(stage: Stage, name: str, wanted: Callable[[int], bool]) -> Look:
    async def look() -> Finding:
        known = dict(sorted(stage.revisions[name].items()))
        newest = max(known, default=0)
        deployed = [one for one, status in known.items() if status == "deployed"]
        pending = any(status.startswith("pending") for status in known.values())
        good = wanted(newest) and deployed == [newest] and not pending
        return Finding(good=good, seen=", ".join(f"{one} {status}" for one, status in known.items()) or "no release")

    return look


def nothing_left(stage: Stage) -> Look:
    """Look whether packages, releases and what hooks made are gone from the namespace."""

    async def look() -> Finding:
        left: list[str] = sorted(stage.applications)
        for api_version, kind in LEFT_BEHIND:
            found = await stage.place.kube.list(api_version, kind, namespace=stage.place.namespace, metadata_only=True)
            left += [f"{kind}/{one['metadata']['name']}" for one in found.items]
        left = [one for one in left if not one.endswith(f"/{OF_THE_CLUSTER}")]
        return Finding(good=not left, seen=", ".join(left))

    return look
